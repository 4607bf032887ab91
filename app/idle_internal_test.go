package app

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/power"
)

// rested is an engine that was used last at since.
type rested struct {
	since    time.Time
	away     bool
	unloaded []time.Duration // after began
	began    time.Time
}

func (r *rested) Unused() (time.Time, bool) { return r.since, !r.away }

func (r *rested) Unload(_ context.Context, since time.Time) error {
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
		course func(r *rested, source *power.Source)
		want   []time.Duration
	}{
		{"on battery", limits, func(*rested, *power.Source) {}, []time.Duration{15 * time.Minute}},
		{"on mains, never", limits, func(_ *rested, source *power.Source) { *source = power.Mains }, nil},
		{"used again", limits, func(r *rested, _ *power.Source) {
			time.Sleep(10 * time.Minute)
			r.since = time.Now()
		}, []time.Duration{25 * time.Minute}},
		{"unplugged after an hour", limits, func(_ *rested, source *power.Source) {
			*source = power.Mains
			time.Sleep(time.Hour + 30*time.Second)
			*source = power.Battery
		}, []time.Duration{time.Hour + time.Minute}},
		{"on mains too", map[power.Source]time.Duration{power.Mains: 90 * time.Second}, func(_ *rested, source *power.Source) { *source = power.Mains }, []time.Duration{90 * time.Second}},
		{"in use all the time", limits, func(r *rested, _ *power.Source) { r.away = true }, nil},
		{"kept always", nil, func(*rested, *power.Source) {}, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, source := &rested{since: time.Now(), began: time.Now()}, power.Battery
			i := &idler{engine: r, source: func() power.Source { return source }, limit: func(s power.Source) time.Duration { return tt.limits[s] }, logger: slog.New(slog.DiscardHandler)}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			time.Sleep(time.Nanosecond)
			go func() { ended <- i.run(ctx) }()
			synctest.Wait() // its first look is behind it
			tt.course(r, &source)
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
