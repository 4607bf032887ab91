package embedding_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/canary"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/trust"
	"github.com/ondol-app/ondol/internal/vector"
	"github.com/ondol-app/ondol/internal/vectorcache"
)

// ward is a door to an engine that inputs with "poison" in them spoil until it
// is replaced.
type ward struct {
	*door
	store *cells

	mu     sync.Mutex
	spoilt bool         // guarded by mu
	only   bool         // guarded by mu; spoilt only while two calls run
	events []event.Kind // guarded by mu
}

// cells is a quarantine in memory.
type cells struct {
	mu   sync.Mutex
	list []trust.Quarantined // guarded by mu
}

func (c *cells) Quarantined(_ context.Context, fingerprint string) ([]trust.Quarantined, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.list), func(q trust.Quarantined) bool {
		return fingerprint != "" && q.Fingerprint != fingerprint
	}), nil
}

func (c *cells) Arrest(_ context.Context, q trust.Quarantined) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, q)
	return nil
}

func (c *cells) Release(_ context.Context, hash string) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := len(c.list)
	c.list = slices.DeleteFunc(c.list, func(q trust.Quarantined) bool { return hash == "" || q.SHA256 == hash })
	return before - len(c.list), nil
}

// openWard opens a door whose engine takes five seconds for its restart.
func openWard(t *testing.T, change func(*embedding.Config)) *ward {
	t.Helper()
	w := &ward{store: &cells{}}
	config := embedding.Config{Quarantine: w.store, Notify: func(e event.Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events = append(w.events, e.Kind)
	}}
	var err error
	if config.Cache, err = vectorcache.New(vectorcache.Config{}); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&config)
	}
	w.door = openConfig(t, &fakeClient{delay: time.Second, fault: w.fault}, admission.DefaultLimits(), config)
	w.engine.onReplace = func(e *fakeEngine) {
		e.err = &embedding.UnavailableError{State: "loading"}
		time.AfterFunc(5*time.Second, func() {
			w.mu.Lock()
			w.spoilt = false
			w.mu.Unlock()
			e.fail(nil)
		})
	}
	return w
}

func (w *ward) fault(_ context.Context, _ int, inputs []string, good llamaclient.Reply) (llamaclient.Reply, error) {
	w.client.mu.Lock()
	company := w.client.running > 1
	w.client.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spoilt = w.spoilt || slices.ContainsFunc(inputs, func(s string) bool { return strings.Contains(s, "poison") })
	if w.spoilt || w.only && company {
		for i := range good.Vectors {
			good.Vectors[i] = []float32{float32(math.NaN()), 0, 0, 0}
		}
	}
	return good, nil
}

func wantInvalid(t *testing.T, err error, want ...vector.Problem) {
	t.Helper()
	var invalid *vector.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("error = %v, want *vector.InvalidError", err)
	}
	if diff := cmp.Diff(want, invalid.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func finite(i int) vector.Problem { return vector.Problem{Index: i, Reason: vector.ReasonNotFinite} }

func quarantined(i int) vector.Problem {
	return vector.Problem{Index: i, Reason: vector.ReasonQuarantined}
}

// The contract's case: one input after which every vector is NaN.
func TestPoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openWard(t, nil)
		defer w.stop()
		wantVectors(t, <-w.ask(t.Context(), client("before")), "before")
		_, err := w.Embed(t.Context(), client("poison"))
		wantInvalid(t, err, finite(0))
		hash := trust.HashOf("poison").String()
		want := []trust.Fault{{Code: trust.FaultPoisoned, Cause: "an input after which the probe is invalid", Inputs: []trust.Input{{SHA256: hash}}}}
		_, faults := w.engine.ended()
		if diff := cmp.Diff(want, faults); diff != "" {
			t.Errorf("faults (-want +got):\n%s", diff)
		}
		if _, err := w.Embed(t.Context(), client("too early")); !isUnavailable(err, "loading") {
			t.Errorf("while it starts: %v", err)
		}
		time.Sleep(6 * time.Second)
		wantVectors(t, <-w.ask(t.Context(), client("after")), "after")

		// The same again costs the engine nothing, alone or among others.
		before, _ := w.client.seen()
		_, err = w.Embed(t.Context(), client("other", "poison", "other", "poison"))
		wantInvalid(t, err, quarantined(1), quarantined(3))
		if now, _ := w.client.seen(); len(now) != len(before) {
			t.Error("a quarantined input came to the engine")
		}
		list, err := w.Quarantined(t.Context())
		if err != nil || len(list) != 1 || list[0].SHA256 != hash || list[0].Reason != trust.ReasonPoison || list[0].Fingerprint != "f1" || w.Validity().Quarantined != 1 {
			t.Errorf("quarantine = %+v, %v; %+v", list, err, w.Validity())
		}
		if want := []event.Kind{embedding.KindPoisoned, embedding.KindInvalid}; !slices.Equal(w.events, want) {
			t.Errorf("events = %v, want %v", w.events, want)
		}

		// Another model may well take it; and a person may let it be tried.
		w.engine.become("f2", &fakeClient{delay: time.Second, salt: 2})
		if r, err := w.Embed(t.Context(), client("poison")); err != nil || r.Fingerprint != "f2" {
			t.Errorf("with another fingerprint: %v", err)
		}
		w.engine.become("f1", w.client)
		_, err = w.Embed(t.Context(), client("poison"))
		wantInvalid(t, err, quarantined(0))
		if n, err := w.LiftQuarantine(t.Context(), hash); n != 1 || err != nil {
			t.Errorf("lifted %d, %v", n, err)
		}
		_, err = w.Embed(t.Context(), client("poison"))
		wantInvalid(t, err, finite(0))
		w.wantIdle(t)
	})
}

// Two are at the engine when it is spoilt: who did it shows when each is tried
// alone. The innocent gets its vector, and so does who waits meanwhile.
func TestPoisonInCompany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openWard(t, nil)
		defer w.stop()
		guilty := w.ask(t.Context(), client("a poison"))
		time.Sleep(time.Second / 2)
		innocent := w.ask(t.Context(), client("innocent"))
		waits := w.ask(t.Context(), client("waits"))
		joined := w.ask(t.Context(), client("innocent"))
		wantInvalid(t, (<-guilty).err, finite(0))
		wantVectors(t, <-innocent, "innocent")
		wantVectors(t, <-joined, "innocent")
		wantVectors(t, <-waits, "waits")
		if replaced, _ := w.engine.ended(); w.generation() != 9 {
			t.Errorf("replaced %v, want one restart for the fault and one for the trial", replaced)
		}
		if list, _ := w.Quarantined(t.Context()); len(list) != 1 || list[0].SHA256 != trust.HashOf("a poison").String() {
			t.Errorf("quarantine = %+v", list)
		}
		wantTotals(t, w.wantIdle(t), map[admission.Outcome]uint64{admission.Served: 3, admission.InvalidVector: 1})
	})
}

// One request with a poisonous input among good ones, of which somebody else
// wants one.
func TestPoisonAmongInputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openWard(t, nil)
		defer w.stop()
		leader := w.ask(t.Context(), client("a", "b", "poison", "c", "poison"))
		joined := w.ask(t.Context(), client("c", "b"))
		wantInvalid(t, (<-leader).err, finite(2), finite(4))
		wantVectors(t, <-joined, "c", "b")
		if got := w.generation(); got != 9 {
			t.Errorf("generation %d, want two restarts: the fault and the trial", got)
		}
		w.wantIdle(t)
	})
}

// No engine comes back: nobody waits for ever, and nobody is told 502 who is
// not to blame.
func TestPoisonAndNoEngineAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openWard(t, nil)
		defer w.stop()
		w.engine.onReplace = func(e *fakeEngine) { e.err = &embedding.UnavailableError{State: "failed", Final: true} }
		suspect := w.ask(t.Context(), client("poison"))
		time.Sleep(time.Second / 2)
		innocent := w.ask(t.Context(), client("innocent"))
		for _, r := range []reply{<-innocent, <-suspect} {
			if !isUnavailable(r.err, "failed") {
				t.Errorf("error = %v", r.err)
			}
		}
		w.wantIdle(t)
	})
}

// Vectors that are wrong only while two calls run are nobody's fault.
func TestWrongOnlyInCompany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		checks := &checker{}
		w := openWard(t, func(c *embedding.Config) { c.Checker = checks })
		defer w.stop()
		w.only = true
		one, two := w.ask(t.Context(), client("one")), w.ask(t.Context(), client("two"))
		wantVectors(t, <-one, "one")
		wantVectors(t, <-two, "two")
		time.Sleep(10 * time.Second) // for the check that is due
		w.wantIdle(t)
		if replaced, _ := w.engine.ended(); len(replaced) != 0 || w.Validity().Quarantined != 0 || checks.times() == 0 {
			t.Errorf("replaced %v, %+v, %d checks", replaced, w.Validity(), checks.times())
		}
		// Once that is known, calls are made one at a time.
		w.engine.mu.Lock()
		w.engine.instance.OneAtATime = true
		w.engine.mu.Unlock()
		before, _ := w.client.seen()
		one, two = w.ask(t.Context(), client("1", "2", "3")), w.ask(t.Context(), client("4", "5"))
		wantVectors(t, <-one, "1", "2", "3")
		wantVectors(t, <-two, "4", "5")
		if now, _ := w.client.seen(); len(now)-len(before) != 5 {
			t.Errorf("calls %q, want one for each text", now[len(before):])
		}
	})
}

// An input that is invalid by itself is refused once; the second time it goes
// into quarantine.
func TestInvalidTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openWard(t, nil)
		defer w.stop()
		w.client.fault = func(_ context.Context, _ int, inputs []string, good llamaclient.Reply) (llamaclient.Reply, error) {
			if inputs[0] == "bad" {
				clear(good.Vectors[0])
			}
			return good, nil
		}
		for i := range 3 {
			_, err := w.Embed(t.Context(), client("bad"))
			want := vector.Problem{Index: 0, Reason: vector.ReasonZero}
			if i == 2 {
				want = quarantined(0)
			}
			wantInvalid(t, err, want)
		}
		list, _ := w.Quarantined(t.Context())
		if replaced, _ := w.engine.ended(); len(list) != 1 || list[0].Reason != trust.ReasonInvalid || len(replaced) != 0 {
			t.Errorf("%+v, replaced %v", list, replaced)
		}
		w.wantIdle(t)
	})
}

// A request during which the engine hangs is 504; who was there beside it goes
// on with the next engine. The second hang of one lone input is its last.
func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openWard(t, func(c *embedding.Config) { c.Total = time.Minute })
		defer w.stop()
		w.client.fault = func(ctx context.Context, _ int, inputs []string, good llamaclient.Reply) (llamaclient.Reply, error) {
			switch inputs[0] {
			case "hang":
				<-ctx.Done()
				return llamaclient.Reply{}, context.Cause(ctx)
			case "beside":
				generation := w.generation()
				for range 40 {
					time.Sleep(time.Second)
					if w.generation() != generation {
						return llamaclient.Reply{}, llamaclient.ErrBroken
					}
				}
			}
			return good, nil
		}
		var timeout *embedding.TimeoutError
		hangs := w.ask(t.Context(), client("hang"))
		time.Sleep(30 * time.Second)
		beside := w.ask(t.Context(), client("beside"))
		if r := <-hangs; !errors.As(r.err, &timeout) {
			t.Errorf("error = %v", r.err)
		}
		if r := <-beside; !errors.As(r.err, &timeout) && r.err != nil {
			t.Errorf("beside it: %v", r.err)
		}
		time.Sleep(time.Minute)
		for range 2 {
			if _, err := w.Embed(t.Context(), client("hang")); !errors.As(err, &timeout) {
				t.Errorf("alone: %v", err)
			}
			time.Sleep(time.Minute)
		}
		_, err := w.Embed(t.Context(), client("hang"))
		wantInvalid(t, err, quarantined(0))
		_, faults := w.engine.ended()
		for _, f := range faults {
			if f.Code != trust.FaultHang {
				t.Errorf("fault %+v", f)
			}
		}
		w.wantIdle(t)
	})
}

func (w *ward) generation() uint64 {
	w.engine.mu.Lock()
	defer w.engine.mu.Unlock()
	return w.engine.instance.Generation
}

// checker takes two turns, then answers.
type checker struct {
	result canary.Result

	mu   sync.Mutex
	runs int // guarded by mu
}

func (c *checker) Recheck(ctx context.Context, _ uint64, turn canary.Turn) (canary.Result, error) {
	c.mu.Lock()
	c.runs++
	c.mu.Unlock()
	for _, alone := range []bool{false, true} {
		done, err := turn(ctx, alone)
		if err != nil {
			return canary.Result{}, err
		}
		time.Sleep(time.Second)
		done()
	}
	return c.result, nil
}

func (c *checker) times() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runs
}

func TestCheckIsDueAfterSoManyVectors(t *testing.T) {
	for _, test := range []struct {
		name     string
		result   canary.Result
		replaced int
	}{
		{"passes", canary.Result{}, 0},
		{"drift", canary.Result{Code: canary.Drift, Text: "short"}, 1},
		{"together", canary.Result{Code: canary.Together, Text: "long"}, 0},
		{"together, and then for good", canary.Result{Code: canary.Together, Text: "long", Poisoned: true}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				checks := &checker{result: test.result}
				w := openWard(t, func(c *embedding.Config) { c.Checker, c.CheckEvery = checks, 50 })
				defer w.stop()
				for i := range 49 {
					wantVectors(t, <-w.ask(t.Context(), client(fmt.Sprint(i))), fmt.Sprint(i))
				}
				synctest.Wait()
				if checks.times() != 0 {
					t.Fatal("too early")
				}
				// Both permits are taken; the check gets the next one, before who waits.
				var replies []<-chan reply
				for i := range 6 {
					replies = append(replies, w.ask(t.Context(), client(fmt.Sprint("last ", i))))
				}
				for i, r := range replies {
					wantVectors(t, <-r, fmt.Sprint("last ", i))
				}
				time.Sleep(10 * time.Second)
				replaced, faults := w.engine.ended()
				if checks.times() != 1 || len(replaced) != test.replaced {
					t.Errorf("%d checks, replaced %v", checks.times(), replaced)
				}
				if test.replaced > 0 && faults[0].Code != test.result.Code.String() {
					t.Errorf("fault = %+v", faults[0])
				}
				wantTotals(t, w.wantIdle(t), map[admission.Outcome]uint64{admission.Served: 55})
			})
		})
	}
}
