package embedding_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/embedding"
)

// An engine that was unloaded is known as it was, and costs nobody an error:
// the first request that needs it starts it, once for all who come meanwhile.
func TestAsleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := admission.DefaultLimits()
		limits.Waiting = 8
		d := openCached(t, &fakeClient{delay: time.Second}, limits)
		defer d.stop()
		wantVectors(t, <-d.ask(t.Context(), client("known")), "known")
		d.engine.unload()

		if info, err := d.Info(); err != nil || info.Fingerprint != "f1" || info.Dim != 4 {
			t.Errorf("Info = %+v, %v", info, err)
		}
		wantVectors(t, <-d.ask(t.Context(), client("known")), "known") // from the cache
		if stats := d.stats(); d.engine.started() != 0 || stats.Limits.Executing != 2 {
			t.Errorf("%d starts, %+v", d.engine.started(), stats)
		}

		began := time.Now()
		var replies []<-chan reply
		for i := range 8 {
			replies = append(replies, d.ask(t.Context(), client(fmt.Sprint(i))))
			synctest.Wait()
		}
		if stats := d.stats(); stats.Waiting != 8 || stats.Executing != 0 {
			t.Errorf("while it starts: %+v", stats)
		}
		var full *admission.RejectedError
		if _, err := d.Embed(t.Context(), client("one too many")); !errors.As(err, &full) || full.Reason != admission.QueueFull {
			t.Errorf("error = %v", err)
		}
		for i, r := range replies {
			wantVectors(t, <-r, fmt.Sprint(i))
		}
		if took := time.Since(began); took != 9*time.Second || d.engine.started() != 1 {
			t.Errorf("%d starts, all served after %v", d.engine.started(), took)
		}
		d.wantIdle(t)
	})
}

func (e *fakeEngine) started() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.starts
}

// Counting and indexing start it too when they have something for it.
func TestAsleepForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, &fakeClient{}, admission.DefaultLimits())
		defer d.stop()
		d.engine.unload()
		if counts, err := d.CountTokens(t.Context(), []string{"four"}); err != nil || counts[0] != 6 {
			t.Errorf("CountTokens = %v, %v", counts, err)
		}
		d.engine.unload()
		r, err := d.Embed(t.Context(), embedding.Request{Lane: admission.LaneBackground, Inputs: []string{"x"}})
		if err != nil || len(r.Vectors) != 1 || d.engine.started() != 2 {
			t.Errorf("Embed = %v, %v, %d starts", r, err, d.engine.started())
		}
		d.wantIdle(t)
	})
}

// Paused background work does not start it, and is served once somebody does.
func TestAsleepAndPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, &fakeClient{}, admission.DefaultLimits())
		defer d.stop()
		d.engine.unload()
		synctest.Wait() // the gate is open
		d.gate.PauseBackground(true)
		r := d.ask(t.Context(), embedding.Request{Lane: admission.LaneBackground, Inputs: []string{"x"}})
		time.Sleep(time.Hour)
		if n := d.engine.started(); n != 0 || d.stats().BackgroundWaiting != 1 {
			t.Errorf("%d starts, %+v", n, d.stats())
		}
		d.gate.PauseBackground(false)
		d.engine.Wake()
		wantVectors(t, <-r, "x")
		d.wantIdle(t)
	})
}

// Who waits for it waits as long as for a permit, and is told when none comes.
func TestAsleepAndNoEngineAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, &fakeClient{}, admission.DefaultLimits())
		defer d.stop()
		d.engine.unload()
		d.engine.mu.Lock()
		d.engine.fails = &embedding.UnavailableError{State: "failed", RetryAfter: time.Second}
		d.engine.mu.Unlock()
		one, two := d.ask(t.Context(), client("1")), d.ask(t.Context(), client("2"))
		for _, r := range []reply{<-one, <-two} {
			if !isUnavailable(r.err, "failed") {
				t.Errorf("error = %v", r.err)
			}
		}
		wantTotals(t, d.wantIdle(t), map[admission.Outcome]uint64{admission.EngineUnavailable: 2})
	})
	synctest.Test(t, func(t *testing.T) {
		limits := admission.DefaultLimits()
		limits.Wait = 3 * time.Second // it takes five
		d := open(t, &fakeClient{}, limits)
		defer d.stop()
		d.engine.unload()
		began := time.Now()
		var late *admission.RejectedError
		if _, err := d.Embed(t.Context(), client("x")); !errors.As(err, &late) || late.Reason != admission.QueueTimeout || time.Since(began) != limits.Wait {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if _, err := d.Embed(ctx, client("y")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v", err)
		}
		wantTotals(t, d.wantIdle(t), map[admission.Outcome]uint64{admission.QueueTimeout: 1, admission.CancelledWaiting: 1})
		time.Sleep(10 * time.Second)
		wantVectors(t, <-d.ask(t.Context(), client("z")), "z")
	})
}
