package app

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/power"
)

// rested is an engine that was used last at since.
type rested struct {
	sync.Mutex
	since    time.Time
	away     bool
	unloaded []time.Duration // after began
	began    time.Time
}

func (r *rested) Unused() (time.Time, bool) {
	r.Lock()
	defer r.Unlock()
	return r.since, !r.away
}

func (r *rested) Unload(_ context.Context, since time.Time) error {
	r.Lock()
	defer r.Unlock()
	if since != r.since {
		return llamaserver.ErrInUse
	}
	r.away = true
	r.unloaded = append(r.unloaded, time.Since(r.began))
	return nil
}

func TestIdler(t *testing.T) {
	limits := map[power.Source]time.Duration{power.Battery: 15 * time.Minute}
	for _, tt := range []struct {
		name   string
		limits map[power.Source]time.Duration
		course func(r *rested, source *atomic.Value)
		want   []time.Duration
	}{
		{"on battery", limits, func(*rested, *atomic.Value) {}, []time.Duration{15 * time.Minute}},
		{"on mains, never", limits, func(_ *rested, source *atomic.Value) { source.Store(power.Mains) }, nil},
		{"used again", limits, func(r *rested, _ *atomic.Value) {
			time.Sleep(10 * time.Minute)
			r.Lock()
			defer r.Unlock()
			r.since = time.Now()
		}, []time.Duration{25 * time.Minute}},
		{"unplugged after an hour", limits, func(_ *rested, source *atomic.Value) {
			source.Store(power.Mains)
			time.Sleep(time.Hour + 30*time.Second)
			source.Store(power.Battery)
		}, []time.Duration{time.Hour + time.Minute}},
		{"on mains too", map[power.Source]time.Duration{power.Mains: 90 * time.Second}, func(_ *rested, source *atomic.Value) { source.Store(power.Mains) }, []time.Duration{90 * time.Second}},
		{"in use all the time", limits, func(r *rested, _ *atomic.Value) {
			r.Lock()
			defer r.Unlock()
			r.away = true
		}, nil},
		{"kept always", nil, func(*rested, *atomic.Value) {}, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, source := &rested{since: time.Now(), began: time.Now()}, new(atomic.Value)
			source.Store(power.Battery)
			i := &idler{engine: r, source: func() power.Source { return source.Load().(power.Source) }, limit: func(s power.Source) time.Duration { return tt.limits[s] }, logger: slog.New(slog.DiscardHandler)}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			time.Sleep(time.Nanosecond)
			go func() { ended <- i.run(ctx) }()
			synctest.Wait() // its first look is behind it
			tt.course(r, source)
			time.Sleep(3 * time.Hour)
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if len(r.unloaded) != len(tt.want) || len(tt.want) > 0 && (r.unloaded[0] < tt.want[0] || r.unloaded[0] > tt.want[0]+time.Second) {
				t.Errorf("%s: unloaded after %v, want %v", tt.name, r.unloaded, tt.want)
			}
		})
	}
}
