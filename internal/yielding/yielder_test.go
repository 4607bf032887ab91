package yielding_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/gpu"
	"github.com/ondol-app/ondol/internal/yielding"
)

// machine is the GPU and the conditions, as the test sets them.
type machine struct {
	mu     sync.Mutex
	others float64
	c      gpu.Conditions
	used   float64 // seconds, by others
	at     time.Time
	reads  int
}

func (m *machine) set(others float64, c gpu.Conditions) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.others, m.c = others, c
}

func (m *machine) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reads
}

func (m *machine) Read() (gpu.Reading, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	m.used += m.others * time.Since(m.at).Seconds()
	m.at = time.Now()
	return gpu.Reading{Clients: map[gpu.Client]gpu.Use{{ID: 1}: {PID: 7, Engines: map[string]gpu.Busy{"gpu": {Count: uint64(m.used * 1e9)}}}}}, nil
}

func (m *machine) conditions() gpu.Conditions {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.c
}

// scene is a gate, a sampler and a yielder that run.
type scene struct {
	*machine
	gate    *admission.Gate
	yielder *yielding.Yielder
	events  func() []event.Event
}

// stage has f play a scene in a bubble of its own time.
func stage(t *testing.T, f func(t *testing.T, s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &machine{at: time.Now()}
		gate, err := admission.NewGate(admission.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		sampler, err := gpu.New(gpu.Config{
			Open:      func() gpu.Source { return gpu.Source{Reader: m, Conditions: m.conditions} },
			Ours:      func() ([]int, bool) { return nil, true },
			Executing: func() bool { return true },
		})
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var told []event.Event
		y, err := yielding.New(yielding.Config{Limits: yielding.DefaultLimits(), Sampler: sampler, Gate: gate, Notify: func(e event.Event) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, e)
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for _, part := range []func(context.Context) error{gate.Run, sampler.Run, y.Run} {
			running.Go(func() {
				if err := part(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		f(t, &scene{machine: m, gate: gate, yielder: y, events: func() []event.Event {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(told)
		}})
		stop()
		running.Wait()
	})
}

// work is background batches of half a second, with as long between them,
// until ctx ends. It counts them.
func (s *scene) work(ctx context.Context, done *counter) {
	for ctx.Err() == nil {
		permit, err := s.gate.Acquire(ctx, admission.LaneBackground)
		if err != nil {
			return
		}
		time.Sleep(500 * time.Millisecond)
		permit.Release(admission.Served)
		done.add()
		time.Sleep(500 * time.Millisecond)
	}
}

type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

func (c *counter) take() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.n
	c.n = 0
	return n
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestBackgroundPausesAndResumes(t *testing.T) {
	stage(t, func(t *testing.T, s *scene) {
		ctx, stop := context.WithCancel(t.Context())
		var batches counter
		var working sync.WaitGroup
		working.Go(func() { s.work(ctx, &batches) })
		pass(60 * time.Second)
		if n := batches.take(); n < 59 || s.yielder.State() != nil {
			t.Errorf("%d batches on a quiet machine, %+v", n, s.yielder.State())
		}
		s.set(0.6, gpu.Conditions{})
		pass(10 * time.Second)
		if n := batches.take(); n < 3 || n > 7 { // 3 s, and up to 2 s until the mean is above
			t.Errorf("%d batches until it paused", n)
		}
		state := s.yielder.State()
		if state == nil || !slices.Equal(state.Reasons, []yielding.Reason{yielding.GPU}) || !s.gate.Stats().BackgroundPaused {
			t.Fatalf("state %+v", state)
		}
		for range 50 { // clients are served throughout
			permit, err := s.gate.Acquire(t.Context(), admission.LaneClient)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			permit.Release(admission.Served)
		}
		if n := batches.take(); n != 0 {
			t.Errorf("%d batches while it paused", n)
		}
		s.set(0.6, gpu.Conditions{Thermal: gpu.ThermalSerious})
		pass(3 * time.Second)
		if got := s.yielder.State().Reasons; !slices.Equal(got, []yielding.Reason{yielding.Thermal, yielding.GPU}) {
			t.Errorf("reasons %v", got)
		}
		s.set(0, gpu.Conditions{})
		pass(14 * time.Second)
		if s.yielder.State() == nil {
			t.Error("it went on too early")
		}
		pass(10 * time.Second)
		if n := batches.take(); n < 5 || s.yielder.State() != nil || s.yielder.Pauses() != 1 {
			t.Errorf("%d batches after it, %+v, %d pauses", n, s.yielder.State(), s.yielder.Pauses())
		}
		told := s.events()
		if len(told) != 2 || told[0].Kind != yielding.KindPaused || told[0].Args["reason"] != "gpu" || told[1].Kind != yielding.KindResumed || told[1].Args["reason"] != "gpu" {
			t.Errorf("events %+v", told)
		}
		stop()
		working.Wait()
	})
}

// Nothing is watched while nothing is to be done, and what waited and left
// leaves no pause behind.
func TestWithoutWork(t *testing.T) {
	stage(t, func(t *testing.T, s *scene) {
		battery := true
		s.set(0.9, gpu.Conditions{OnBattery: &battery})
		pass(time.Hour)
		if n := s.count(); n != 0 || s.yielder.State() != nil {
			t.Errorf("%d readings without work, %+v", n, s.yielder.State())
		}
		ctx, leave := context.WithCancel(t.Context())
		var batches counter
		var working sync.WaitGroup
		working.Go(func() { s.work(ctx, &batches) })
		pass(10 * time.Minute)
		if n := batches.take(); n > 1 || s.yielder.State() == nil {
			t.Errorf("%d batches on battery, %+v", n, s.yielder.State())
		}
		leave()
		working.Wait()
		pass(40 * time.Second)
		if s.yielder.State() != nil || s.gate.Stats().BackgroundPaused {
			t.Errorf("what waited has left, but %+v", s.yielder.State())
		}
		before := s.count()
		pass(time.Hour)
		if n := s.count() - before; n != 0 {
			t.Errorf("%d readings after it", n)
		}
		if told := s.events(); len(told) != 2 || told[1].Kind != yielding.KindResumed {
			t.Errorf("events %+v", told)
		}
	})
}

// A pause that nobody waits in is not told of; whoever comes into it is.
func TestWhoComesIntoAPauseWaits(t *testing.T) {
	stage(t, func(t *testing.T, s *scene) {
		permit, err := s.gate.Acquire(t.Context(), admission.LaneBackground)
		if err != nil {
			t.Fatal(err)
		}
		permit.Release(admission.Served)
		battery := true
		s.set(0, gpu.Conditions{OnBattery: &battery})
		pass(5 * time.Second)
		if s.yielder.State() != nil || !s.gate.Stats().BackgroundPaused || len(s.events()) != 0 {
			t.Errorf("without work: %+v, %v", s.yielder.State(), s.events())
		}
		ctx, leave := context.WithCancel(t.Context())
		var batches counter
		var working sync.WaitGroup
		working.Go(func() { s.work(ctx, &batches) })
		pass(10 * time.Second)
		if n := batches.take(); n != 0 || s.yielder.State() == nil || s.yielder.Pauses() != 1 || len(s.events()) != 1 {
			t.Errorf("%d batches, %+v, %v", n, s.yielder.State(), s.events())
		}
		limits := yielding.DefaultLimits()
		limits.Battery = false // its owner does not mind
		if err := s.yielder.SetLimits(limits); err != nil {
			t.Fatal(err)
		}
		pass(17 * time.Second)
		if n := batches.take(); n == 0 || s.yielder.State() != nil || len(s.events()) != 2 {
			t.Errorf("%d batches after it, %+v, %v", n, s.yielder.State(), s.events())
		}
		limits.Busy = 0
		if err := s.yielder.SetLimits(limits); err == nil {
			t.Error("no share: accepted")
		}
		leave()
		working.Wait()
	})
}

func TestConfigNeedsItsParts(t *testing.T) {
	if _, err := yielding.New(yielding.Config{Limits: yielding.DefaultLimits()}); err == nil {
		t.Error("without a sampler and a gate: accepted")
	}
	gate, err := admission.NewGate(admission.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	sampler, err := gpu.New(gpu.Config{Open: func() gpu.Source { return gpu.Source{} }, Ours: func() ([]int, bool) { return nil, true }, Executing: func() bool { return false }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := yielding.New(yielding.Config{Sampler: sampler, Gate: gate}); err == nil {
		t.Error("without limits: accepted")
	}
}
