package embedding_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/trust"
	"github.com/ondol-app/ondol/internal/vector"
)

// mortal opens a ward whose engine ends like end by inputs with "killer" in
// them, and is back after five seconds.
func mortal(t *testing.T, end trust.End) *ward {
	w := openWard(t, nil)
	w.client.fault = func(_ context.Context, _ int, inputs []string, good llamaclient.Reply) (llamaclient.Reply, error) {
		w.engine.mu.Lock()
		_, dead := w.engine.ends[w.engine.instance.Generation]
		w.engine.mu.Unlock()
		if !dead && !slices.ContainsFunc(inputs, func(s string) bool { return strings.Contains(s, "killer") }) {
			return good, nil
		}
		w.die(end)
		return llamaclient.Reply{}, fmt.Errorf("/v1/embeddings: %w: EOF", llamaclient.ErrBroken)
	}
	return w
}

// die ends the engine, but for who looks a moment later; the dead do not die.
func (w *ward) die(end trust.End) {
	e := w.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ends == nil {
		e.ends = make(map[uint64]trust.End)
	}
	if _, dead := e.ends[e.instance.Generation]; dead {
		return
	}
	e.ends[e.instance.Generation] = trust.EndNone
	generation := e.instance.Generation
	time.AfterFunc(time.Millisecond, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.ends[generation] = end
		e.err = &embedding.UnavailableError{State: "failed", RetryAfter: time.Second}
		e.tell()
	})
	time.AfterFunc(5*time.Second, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.instance.Generation++
		e.err = nil
		e.tell()
	})
}

func fatal(i int) vector.Problem { return vector.Problem{Index: i, Reason: vector.ReasonFatal} }

// An input by which the engine ends whenever it gets it costs it two lives,
// and then never comes to it again.
func TestKillerInput(t *testing.T) {
	for end, reason := range map[trust.End]trust.Reason{trust.EndCrash: trust.ReasonCrash, trust.EndHang: trust.ReasonHang} {
		t.Run(end.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := mortal(t, end)
				defer w.stop()
				_, err := w.Embed(t.Context(), client("a killer"))
				wantInvalid(t, err, fatal(0))
				if w.generation() != 8 { // the third is on its way
					t.Errorf("generation %d", w.generation())
				}
				time.Sleep(10 * time.Second)
				_, err = w.Embed(t.Context(), client("fine", "a killer"))
				wantInvalid(t, err, quarantined(1))
				wantVectors(t, <-w.ask(t.Context(), client("fine")), "fine")
				list, _ := w.Quarantined(t.Context())
				if len(list) != 1 || list[0].Reason != reason || list[0].SHA256 != trust.HashOf("a killer").String() || w.generation() != 9 {
					t.Errorf("%+v, generation %d", list, w.generation())
				}
				wantTotals(t, w.wantIdle(t), map[admission.Outcome]uint64{admission.InvalidVector: 2, admission.Served: 1})
			})
		})
	}
}

// With others in its call, and another call beside it, nobody else is refused.
func TestKillerInputInCompany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mortal(t, trust.EndCrash)
		defer w.stop()
		killer := w.ask(t.Context(), client("1", "2", "killer", "3"))
		beside := w.ask(t.Context(), client("4", "5"))
		later := w.ask(t.Context(), client("6")) // waits for a permit meanwhile
		wantInvalid(t, (<-killer).err, fatal(2))
		wantVectors(t, <-beside, "4", "5")
		wantVectors(t, <-later, "6")
		time.Sleep(10 * time.Second) // a request that just comes is told that the engine restarts
		wantVectors(t, <-w.ask(t.Context(), client("1", "2", "3")), "1", "2", "3")
		if list, _ := w.Quarantined(t.Context()); len(list) != 1 || w.generation() != 9 {
			t.Errorf("%+v, generation %d", list, w.generation())
		}
		w.wantIdle(t)
	})
}

// An engine that ended by something else cost the request nothing but time,
// and what was at it is not held against anybody for long.
func TestEngineKilledFromOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mortal(t, trust.EndCrash)
		defer w.stop()
		for range 3 {
			r := w.ask(t.Context(), client("innocent", "bystander"))
			time.Sleep(time.Second / 2)
			w.die(trust.EndCrash)
			wantVectors(t, <-r, "innocent", "bystander")
			w.engine.become("f1", w.client) // nothing is known from the cache of another life
			if _, err := w.LiftQuarantine(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
		}
		if list, _ := w.Quarantined(t.Context()); len(list) != 0 {
			t.Errorf("%+v", list)
		}
		w.wantIdle(t)
	})
}

// Who finds nobody listening was not at the engine when it ended.
func TestNobodyListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mortal(t, trust.EndCrash)
		defer w.stop()
		good := w.client.fault
		w.client.fault = func(ctx context.Context, n int, inputs []string, reply llamaclient.Reply) (llamaclient.Reply, error) {
			if n < 2 {
				w.die(trust.EndCrash)
				return llamaclient.Reply{}, fmt.Errorf("/v1/embeddings: %w: refused", llamaclient.ErrConnect)
			}
			return good(ctx, n, inputs, reply)
		}
		if _, err := w.Embed(t.Context(), client("late")); !isUnavailable(err, "failed") {
			t.Errorf("the second time: %v", err)
		}
		time.Sleep(10 * time.Second)
		wantVectors(t, <-w.ask(t.Context(), client("late")), "late")
		if calls, _ := w.client.seen(); len(calls) != 3 { // no probe: it was no trial
			t.Errorf("calls %q", calls)
		}
		w.wantIdle(t)
	})
}
