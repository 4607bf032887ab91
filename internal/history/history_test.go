package history_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/history"
	"github.com/ondol-app/ondol/internal/metrics"
)

// source counts how often it is read.
type source struct {
	mu    sync.Mutex
	reads int
	now   history.Reading
	err   error
}

// set changes what the next readings say.
func (s *source) set(executing int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Executing, s.err = executing, err
}

func (s *source) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

func (s *source) read(context.Context) (history.Reading, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	s.now.At = time.Now()
	return s.now, s.err
}

// run has f work with a running history in a bubble of its own time.
func run(t *testing.T, f func(h *history.History, s *source, busy chan<- struct{})) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		busy := make(chan struct{}, 1)
		h := history.New(history.Config{Read: s.read, Busy: busy})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		synctest.Wait()
		f(h, s, busy)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// pass lets the bubble's time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestNobodyLooks(t *testing.T) {
	run(t, func(h *history.History, s *source, _ chan<- struct{}) {
		pass(time.Hour)
		if n := s.count(); n != 61 {
			t.Errorf("%d readings in an hour that nobody looked at, want one a minute", n)
		}
		if n := len(h.Minutes()); n != 60 {
			t.Errorf("%d minutes of an hour", n)
		}
		pass(48 * time.Hour)
		if n := len(h.Minutes()); n != 1440 {
			t.Errorf("%d minutes of a day", n)
		}
	})
}

func TestSecondsWhileSomebodyLooks(t *testing.T) {
	run(t, func(h *history.History, s *source, _ chan<- struct{}) {
		pass(time.Hour)
		if n := len(h.Seconds()); n != 0 {
			t.Errorf("%d seconds before anybody looked", n)
		}
		pass(10 * time.Second)
		if n := len(h.Seconds()); n < 9 || n > 10 {
			t.Errorf("%d seconds ten seconds later", n)
		}
		pass(5 * time.Minute) // nobody looks any more
		before := s.count()
		pass(5 * time.Minute)
		if n := s.count() - before; n != 5 {
			t.Errorf("%d readings in five minutes that nobody looked at", n)
		}
		for range 20 * 60 {
			h.Seconds()
			pass(time.Second)
		}
		points := h.Seconds()
		if len(points) < 599 || len(points) > 600 {
			t.Errorf("%d seconds after twenty minutes", len(points))
		}
		for i := 1; i < len(points); i++ {
			if gap := points[i].At.Sub(points[i-1].At); gap != time.Second {
				t.Fatalf("%v between two seconds", gap)
			}
		}
	})
}

// What went on before somebody looked is there, as long as requests were under way.
func TestSecondsWhileTheGateIsBusy(t *testing.T) {
	run(t, func(h *history.History, s *source, busy chan<- struct{}) {
		pass(time.Minute)
		s.set(2, nil)
		busy <- struct{}{}
		pass(2 * time.Minute)
		s.set(0, nil)
		pass(5 * time.Minute)
		points := h.Seconds()
		if len(points) < 145 || len(points) > 152 { // two minutes, and 30 s after them
			t.Errorf("%d seconds of two busy minutes", len(points))
		}
		if len(points) > 0 && (points[0].Executing != 2 || points[len(points)-1].Executing != 0) {
			t.Errorf("they go from %+v to %+v", points[0], points[len(points)-1])
		}
	})
}

func TestAReadingThatFailsIsAGap(t *testing.T) {
	run(t, func(h *history.History, s *source, _ chan<- struct{}) {
		pass(3 * time.Minute)
		s.set(0, errors.New("the index is being closed"))
		pass(3 * time.Minute)
		s.set(0, nil)
		pass(3 * time.Minute)
		if n := len(h.Minutes()); n != 6 {
			t.Errorf("%d minutes, want six of nine", n)
		}
	})
}

func TestBetween(t *testing.T) {
	wait, service := metrics.NewHistogram(metrics.DurationBounds()), metrics.NewHistogram(metrics.DurationBounds())
	wait.Observe(100 * time.Second) // long ago
	others := 0.3
	gpu := &history.GPU{Others: &others}
	at := time.Date(2026, 4, 10, 9, 0, 0, 0, time.UTC)
	before := history.Reading{At: at, Outcomes: map[string]uint64{"served": 10, "failed": 1}, Wait: wait.Snapshot(), Service: service.Snapshot()}
	for range 100 {
		wait.Observe(2 * time.Millisecond)
	}
	now := history.Reading{
		At: at.Add(time.Second), Executing: 2, Draining: 1, Waiting: 3, Background: 1, OldestWait: 1500 * time.Millisecond, Pending: 7, RSS: 1 << 20, GPU: gpu,
		Outcomes: map[string]uint64{"served": 110, "failed": 1, "queue_full": 4}, Wait: wait.Snapshot(), Service: service.Snapshot(),
	}
	want := history.Point{
		At: at.Add(time.Second), Executing: 2, Draining: 1, Waiting: 3, Background: 1, OldestWaitMS: 1500, Pending: 7, RSS: 1 << 20, GPU: gpu,
		Outcomes: map[string]uint64{"served": 100, "queue_full": 4}, WaitMS: &history.Quantiles{P50: 1.75, P95: 2.425},
	}
	got := history.Between(before, now)
	if got.WaitMS != nil { // within a bucket from 1 to 2.5 ms, linearly
		want.WaitMS.P95 = got.WaitMS.P95
		if p := got.WaitMS.P95; p < 2.42 || p > 2.43 {
			t.Errorf("p95 = %v ms", p)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("point (-want +got):\n%s", diff)
	}
}
