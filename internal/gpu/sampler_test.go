package gpu_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ondol-app/ondol/internal/gpu"
)

const ours, theirs = 1, 2

// scripted is a GPU whose shares the test sets.
type scripted struct {
	mu           sync.Mutex
	ours, theirs float64 // shares
	utilization  float64
	silent       bool // tells of no process
	executing    bool
	known        bool
	err          error
	conditions   gpu.Conditions

	opened, reads    int
	usedOurs, usedTh float64 // seconds
	at               time.Time
}

func (s *scripted) set(f func(s *scripted)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

func (s *scripted) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

func (s *scripted) Read() (gpu.Reading, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.err != nil {
		return gpu.Reading{}, s.err
	}
	passed := time.Since(s.at).Seconds()
	s.at = time.Now()
	s.usedOurs, s.usedTh = s.usedOurs+s.ours*passed, s.usedTh+s.theirs*passed
	utilization := s.utilization
	reading := gpu.Reading{Utilization: &utilization}
	if !s.silent {
		use := func(pid int, seconds float64) gpu.Use {
			return gpu.Use{PID: pid, Engines: map[string]gpu.Busy{"gpu": {Count: uint64(seconds * 1e9)}}}
		}
		reading.Clients = map[gpu.Client]gpu.Use{{ID: 1}: use(ours, s.usedOurs), {ID: 2}: use(theirs, s.usedTh)}
	}
	return reading, nil
}

// run has f work with a running sampler in a bubble of its own time.
func run(t *testing.T, source func(*scripted) gpu.Source, f func(t *testing.T, s *gpu.Sampler, g *scripted)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &scripted{known: true, at: time.Now()}
		s, err := gpu.New(gpu.Config{
			Open: func() gpu.Source {
				g.set(func(g *scripted) { g.opened++ })
				return source(g)
			},
			Ours: func() ([]int, bool) {
				g.mu.Lock()
				defer g.mu.Unlock()
				return []int{ours}, g.known
			},
			Executing: func() bool {
				g.mu.Lock()
				defer g.mu.Unlock()
				return g.executing
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		synctest.Wait()
		f(t, s, g)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func whole(g *scripted) gpu.Source {
	return gpu.Source{Reader: g, Conditions: func() gpu.Conditions {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.conditions
	}}
}

// pass lets the bubble's time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func near(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	if got == nil || math.Abs(*got-want) > 0.001 {
		t.Errorf("%s is %v, want %v", what, value(got), want)
	}
}

func value(p *float64) any {
	if p == nil {
		return nil
	}
	return *p
}

func TestNothingIsReadWhileNobodyLooks(t *testing.T) {
	run(t, whole, func(t *testing.T, s *gpu.Sampler, g *scripted) {
		pass(time.Hour)
		if g.count() != 0 || g.opened != 0 {
			t.Errorf("%d readings, opened %d times", g.count(), g.opened)
		}
		if now := s.Latest(); now.Available || now.Reason != gpu.ReasonUnread || now.At != nil {
			t.Errorf("%+v", now)
		}
		leave := s.Join()
		pass(10 * time.Second)
		if n := g.count(); n < 10 || n > 11 {
			t.Errorf("%d readings in ten seconds", n)
		}
		leave()
		leave() // once is enough
		pass(2 * time.Second)
		before := g.count()
		pass(time.Hour)
		if n := g.count(); n != before || g.opened != 1 {
			t.Errorf("%d readings after everybody left, opened %d times", n-before, g.opened)
		}
		if now := s.Latest(); !now.Available || now.At != nil || now.Utilization != nil || now.Ours != nil {
			t.Errorf("an hour later these are no figures of now: %+v", now)
		}
	})
}

func TestLookKeepsFiguresForAWhile(t *testing.T) {
	run(t, whole, func(t *testing.T, s *gpu.Sampler, g *scripted) {
		hot := gpu.Conditions{Thermal: gpu.ThermalSerious}
		g.set(func(g *scripted) { g.utilization, g.conditions = 0.4, hot })
		now := s.Look(t.Context())
		near(t, "utilization", now.Utilization, 0.4)
		if now.Ours != nil || now.Contention != nil || now.Conditions != hot || !now.Available {
			t.Errorf("of one reading: %+v", now)
		}
		pass(5 * time.Minute)
		if n := g.count(); n < 29 || n > 32 {
			t.Errorf("%d readings after one look", n)
		}
	})
}

func TestSharesAreOfTheLastSeconds(t *testing.T) {
	run(t, whole, func(t *testing.T, s *gpu.Sampler, g *scripted) {
		defer s.Join()()
		g.set(func(g *scripted) { g.ours, g.theirs, g.executing = 0.6, 0.2, true })
		pass(10*time.Second + time.Millisecond)
		now := s.Latest()
		near(t, "ours", now.Ours, 0.6)
		near(t, "others", now.Others, 0.2)
		near(t, "contention", now.Contention, 0.2)
		g.set(func(g *scripted) { g.ours, g.theirs, g.executing = 0, 0.8, false })
		pass(time.Second)
		near(t, "others after a second", s.Latest().Others, 0.4) // the mean of three
		near(t, "contention after a second", s.Latest().Contention, 0.4)
		pass(3 * time.Second)
		now = s.Latest()
		near(t, "ours after four", now.Ours, 0)
		near(t, "others after four", now.Others, 0.8)
		if now.Contention != nil {
			t.Errorf("contention %v of a time without work of ours", *now.Contention)
		}
	})
}

func TestWhatIsNotToldIsAbsent(t *testing.T) {
	run(t, whole, func(t *testing.T, s *gpu.Sampler, g *scripted) {
		defer s.Join()()
		g.set(func(g *scripted) { g.silent, g.utilization = true, 0.7 })
		pass(5 * time.Second)
		near(t, "others while we do nothing", s.Latest().Others, 0.7)
		g.set(func(g *scripted) { g.executing = true })
		pass(5 * time.Second)
		if now := s.Latest(); now.Others != nil || now.Ours != nil || now.Contention != nil || now.Utilization == nil {
			t.Errorf("while we work nobody knows whose work it is: %+v", now)
		}
		g.set(func(g *scripted) { g.silent, g.known, g.executing = false, false, false })
		pass(5 * time.Second)
		if now := s.Latest(); now.Others != nil || now.Ours != nil {
			t.Errorf("with work in unknown processes: %+v", now)
		}
		g.set(func(g *scripted) { g.known, g.err = true, errors.New("broken") })
		pass(2 * time.Second)
		if now := s.Latest(); now.Available || now.Reason != gpu.ReasonUnreadable || now.Utilization != nil {
			t.Errorf("a reader that fails: %+v", now)
		}
		g.set(func(g *scripted) { g.err = nil })
		pass(4 * time.Second)
		if now := s.Latest(); !now.Available || now.Others == nil {
			t.Errorf("once it works again: %+v", now)
		}
		g.set(func(g *scripted) { g.err = gpu.ErrNone })
		pass(2 * time.Second)
		if now := s.Latest(); now.Available || now.Reason != gpu.ReasonNoGPU {
			t.Errorf("an eGPU that was pulled: %+v", now)
		}
	})
}

func TestWithoutAGPU(t *testing.T) {
	none := func(g *scripted) gpu.Source {
		source := whole(g)
		source.Reader, source.Missing = nil, gpu.ReasonNoGPU
		return source
	}
	run(t, none, func(t *testing.T, s *gpu.Sampler, g *scripted) {
		battery := true
		g.set(func(g *scripted) { g.conditions.OnBattery = &battery })
		now := s.Look(t.Context())
		if now.Available || now.Reason != gpu.ReasonNoGPU || now.At == nil || now.OnBattery == nil || !*now.OnBattery {
			t.Errorf("%+v", now)
		}
	})
	run(t, func(*scripted) gpu.Source { return gpu.Source{Reader: silent{}} }, func(t *testing.T, s *gpu.Sampler, _ *scripted) {
		if now := s.Look(t.Context()); now.Available || now.Reason != gpu.ReasonNoCounters {
			t.Errorf("a driver that tells nothing: %+v", now)
		}
	})
}

type silent struct{}

func (silent) Read() (gpu.Reading, error) { return gpu.Reading{}, nil }

func TestConfigNeedsItsParts(t *testing.T) {
	if _, err := gpu.New(gpu.Config{}); err == nil {
		t.Error("no error")
	}
}
