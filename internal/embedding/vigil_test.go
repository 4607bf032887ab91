package embedding_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/canary"
	"github.com/ondol-app/ondol/internal/embedding"
)

// sleeper is a machine that can be put to sleep, and checks of its engine that
// take two seconds each.
type sleeper struct {
	mu     sync.Mutex
	woke   time.Time     // guarded by mu
	result canary.Result // guarded by mu
	err    error         // guarded by mu
	began  []time.Time   // guarded by mu; of each check
	passed []time.Time   // guarded by mu; end of each that passed
}

func (s *sleeper) Woke() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.woke
}

func (s *sleeper) sleep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.woke = time.Now()
}

// checks are the times at which checks began, and at which they passed.
func (s *sleeper) checks() (began, passed []time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.began), slices.Clone(s.passed)
}

func (s *sleeper) Recheck(ctx context.Context, _ uint64, turn canary.Turn) (canary.Result, error) {
	s.mu.Lock()
	s.began = append(s.began, time.Now())
	s.mu.Unlock()
	for _, alone := range []bool{false, true} {
		done, err := turn(ctx, alone)
		if err != nil {
			return canary.Result{}, err
		}
		time.Sleep(time.Second)
		done()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && s.result.OK() {
		s.passed = append(s.passed, time.Now())
	}
	return s.result, s.err
}

func openSleeper(t *testing.T) (*ward, *sleeper) {
	s := &sleeper{}
	return openWard(t, func(c *embedding.Config) { c.Checker, c.Woke = s, s.Woke }), s
}

// After a sleep no vector comes out before a check that began after it has
// passed: not of a call that was under way, and not of one that waits.
func TestNothingIsServedBetweenWakeAndCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := openSleeper(t)
		defer w.stop()
		wantVectors(t, <-w.ask(t.Context(), client("before")), "before")
		one, two := w.ask(t.Context(), client("one")), w.ask(t.Context(), client("two")) // they have both permits
		queued := w.ask(t.Context(), client("three"))
		time.Sleep(time.Second / 2)
		s.sleep()
		woke := time.Now()
		for text, r := range map[string]<-chan reply{"one": one, "two": two, "three": queued} {
			wantVectors(t, <-r, text)
			if began, passed := s.checks(); len(passed) != 1 || !began[0].After(woke) {
				t.Errorf("%s: woke at %v, checks began at %v and passed at %v; it is %v", text, woke, began, passed, time.Now())
			}
		}
		wantVectors(t, <-w.ask(t.Context(), client("after")), "after")
		time.Sleep(time.Minute)
		began, _ := s.checks()
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(began) != 1 || len(w.events) != 1 || w.events[0] != embedding.KindSound {
			t.Errorf("checks began at %v, events %v", began, w.events)
		}
		wantTotals(t, w.wantIdle(t), map[admission.Outcome]uint64{admission.Served: 5})
	})
}

// An engine that is not sound after a sleep is replaced, and requests go on
// with the next: it was checked after the machine woke, and needs no other.
func TestUnsoundAfterWake(t *testing.T) {
	for name, set := range map[string]func(*sleeper){
		"it drifted":       func(s *sleeper) { s.result = canary.Result{Code: canary.Drift, Text: "short"} },
		"it answers badly": func(s *sleeper) { s.err = errors.New("500") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, s := openSleeper(t)
				defer w.stop()
				w.engine.onReplace = func(e *fakeEngine) {
					e.instance.Checked = time.Now()
				}
				underway := w.ask(t.Context(), client("one"))
				time.Sleep(time.Second / 2)
				s.mu.Lock()
				set(s)
				s.woke = time.Now()
				s.mu.Unlock()
				wantVectors(t, <-underway, "one")
				if replaced, _ := w.engine.ended(); len(replaced) != 1 {
					t.Errorf("replaced %v", replaced)
				}
				wantVectors(t, <-w.ask(t.Context(), client("after")), "after")
				began, passed := s.checks()
				if calls, _ := w.client.seen(); len(began) != 1 || len(passed) != 0 || len(calls) != 3 { // "one" twice
					t.Errorf("%d checks, %d passed, calls %q", len(began), len(passed), calls)
				}
				w.wantIdle(t)
			})
		})
	}
}

// A check that was under way when the machine slept proves nothing; the one
// after it does. Nobody has to ask.
func TestSleepDuringACheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := openSleeper(t)
		defer w.stop()
		checked := make(chan error, 1)
		go func() { checked <- w.Recheck(t.Context()) }()
		time.Sleep(time.Second / 2)
		s.sleep()
		w.Doubt()
		if err := <-checked; err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.Doubt()
		synctest.Wait()
		if began, _ := s.checks(); len(began) != 2 || began[1].Before(s.Woke()) {
			t.Errorf("woke at %v, checks began at %v", s.Woke(), began)
		}
		w.wantIdle(t)
	})
}

// An engine that is asleep is not woken to be doubted.
func TestAsleepIsNotDoubted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := openSleeper(t)
		defer w.stop()
		w.engine.unload()
		s.sleep()
		w.Doubt()
		time.Sleep(time.Minute)
		if began, _ := s.checks(); w.engine.started() != 0 || len(began) != 0 {
			t.Errorf("%d starts, %d checks", w.engine.started(), len(began))
		}
	})
}
