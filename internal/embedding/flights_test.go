package embedding_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/vector"
)

// reply is how one request ended.
type reply struct {
	result embedding.Result
	err    error
	at     time.Time
}

// ask begins a request and waits until everything waits.
func (d *door) ask(ctx context.Context, request embedding.Request) <-chan reply {
	replies := make(chan reply, 1)
	go func() {
		result, err := d.Embed(ctx, request)
		replies <- reply{result, err, time.Now()}
	}()
	synctest.Wait()
	return replies
}

func background(inputs ...string) embedding.Request {
	return embedding.Request{Lane: admission.LaneBackground, Inputs: inputs}
}

// wantVectors checks a success: the vectors and tokens of the inputs.
func wantVectors(t *testing.T, r reply, inputs ...string) embedding.Result {
	t.Helper()
	if r.err != nil {
		t.Fatalf("%v: %v", inputs, r.err)
	}
	tokens := 0
	for i, input := range inputs {
		if !slices.Equal(r.result.Vectors[i], fakeVector(input)) {
			t.Errorf("vector %d is not that of %q", i, input)
		}
		tokens += len(input) + 2
	}
	if r.result.Tokens != tokens || len(r.result.Vectors) != len(inputs) || r.result.Dim != 4 || r.result.Fingerprint != "f1" {
		t.Errorf("%v: %d vectors, %d tokens, want %d; %+v", inputs, len(r.result.Vectors), r.result.Tokens, tokens, r.result)
	}
	return r.result
}

func (d *door) wantCalls(t *testing.T, want ...[]string) {
	t.Helper()
	calls, _ := d.client.seen()
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("engine calls (-want +got):\n%s", diff)
	}
}

func wantTotals(t *testing.T, stats admission.Stats, want map[admission.Outcome]uint64) {
	t.Helper()
	got := map[admission.Outcome]uint64{}
	for outcome, count := range stats.Totals {
		if count > 0 {
			got[outcome] = count
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
}

func one(executing int) admission.Limits {
	limits := admission.DefaultLimits()
	limits.Executing = executing
	return limits
}

func TestJoinedThenCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openCached(t, &fakeClient{delay: time.Second}, admission.DefaultLimits())
		defer d.stop()
		first, second := d.ask(t.Context(), client("x")), d.ask(t.Context(), client("x"))
		if stats := d.stats(); stats.Executing != 1 || stats.Waiting != 0 {
			t.Errorf("both in the air: %+v", stats)
		}
		a, b := <-first, <-second
		if r := wantVectors(t, a, "x"); r.Joined+r.Cached != 0 {
			t.Errorf("first: %+v", r)
		}
		if r := wantVectors(t, b, "x"); r.Joined != 1 || !b.at.Equal(a.at) {
			t.Errorf("second, after %v: %+v", b.at.Sub(a.at), r)
		}
		start := time.Now()
		third := <-d.ask(t.Context(), client("x"))
		if r := wantVectors(t, third, "x"); r.Cached != 1 || !third.at.Equal(start) {
			t.Errorf("third, after %v: %+v", third.at.Sub(start), r)
		}
		d.wantCalls(t, []string{"x"})
		wantTotals(t, d.wantIdle(t), map[admission.Outcome]uint64{admission.Served: 3})
		if got := d.CacheStats(); got.Hits != 1 || got.Misses != 1 || got.Joins != 1 || got.Entries != 1 || got.Bytes == 0 {
			t.Errorf("stats = %+v", got)
		}
	})
}

func TestDuplicatesAreComputedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openCached(t, &fakeClient{delay: time.Second}, admission.DefaultLimits())
		defer d.stop()
		inputs := []string{"a", "bcd", "a", "ef", "bcd", "a"}
		wantVectors(t, <-d.ask(t.Context(), client(inputs...)), inputs...)
		d.wantCalls(t, []string{"a", "bcd", "ef"})
		wantTotals(t, d.wantIdle(t), map[admission.Outcome]uint64{admission.Served: 1})
	})
}

func TestHitJoinAndOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openCached(t, &fakeClient{delay: time.Second}, admission.DefaultLimits())
		defer d.stop()
		wantVectors(t, <-d.ask(t.Context(), client("hit")), "hit")
		other := d.ask(t.Context(), client("join", "other"))
		time.Sleep(time.Second / 2)
		inputs := []string{"own", "hit", "join", "own too", "join"}
		r := <-d.ask(t.Context(), client(inputs...))
		if got := wantVectors(t, r, inputs...); got.Cached != 1 || got.Joined != 2 {
			t.Errorf("result = %+v", got)
		}
		wantVectors(t, <-other, "join", "other")
		d.wantCalls(t, []string{"hit"}, []string{"join", "other"}, []string{"own", "own too"})
		wantTotals(t, d.wantIdle(t), map[admission.Outcome]uint64{admission.Served: 3})
	})
}

func TestLeaderLeavesWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openCached(t, &fakeClient{delay: 30 * time.Second}, one(1))
		defer d.stop()
		d.ask(t.Context(), client("blocks"))
		ctx, cancel := context.WithCancel(t.Context())
		leader := d.ask(ctx, client("x", "only the leader's"))
		joined, more := d.ask(t.Context(), client("x")), d.ask(t.Context(), client("x", "y"))
		if stats := d.stats(); stats.Waiting != 2 { // the leader, and the last for y
			t.Errorf("all in: %+v", stats)
		}
		start := time.Now()
		cancel()
		if r := <-leader; !errors.Is(r.err, context.Canceled) || !r.at.Equal(start) {
			t.Errorf("leader after %v: %v", r.at.Sub(start), r.err)
		}
		if stats := d.stats(); stats.Waiting != 2 {
			t.Errorf("the leader left: %+v", stats)
		}
		wantVectors(t, <-joined, "x")
		wantVectors(t, <-more, "x", "y")
		d.wantIdle(t)
		d.wantCalls(t, []string{"blocks"}, []string{"y"}, []string{"x"})
		wantTotals(t, d.stats(), map[admission.Outcome]uint64{admission.Served: 3, admission.CancelledWaiting: 1})
	})
}

// What a request waited for somebody else counts as waiting: 120 s from its
// own arrival, not from the leader's and not from the leader's end.
func TestLeaderIsRejected(t *testing.T) {
	for name, blocked := range map[string]time.Duration{"then served": 150 * time.Second, "then rejected too": 250 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := openCached(t, &fakeClient{delay: blocked}, one(1))
				defer d.stop()
				start := time.Now()
				d.ask(t.Context(), client("blocks"))
				leader := d.ask(t.Context(), client("x"))
				time.Sleep(time.Minute)
				joined := d.ask(t.Context(), client("x"))
				r := <-leader
				var refusal *admission.RejectedError
				if !errors.As(r.err, &refusal) || refusal.Reason != admission.QueueTimeout || r.at.Sub(start) != 120*time.Second {
					t.Errorf("leader after %v: %v", r.at.Sub(start), r.err)
				}
				r = <-joined
				totals := map[admission.Outcome]uint64{admission.Served: 2, admission.QueueTimeout: 1}
				if blocked < 180*time.Second {
					wantVectors(t, r, "x")
				} else {
					totals = map[admission.Outcome]uint64{admission.Served: 1, admission.QueueTimeout: 2}
					if !errors.As(r.err, &refusal) || refusal.Reason != admission.QueueTimeout || r.at.Sub(start) != 180*time.Second {
						t.Errorf("joined at 60 s, ended at %v: %v", r.at.Sub(start), r.err)
					}
				}
				time.Sleep(10 * time.Minute)
				wantTotals(t, d.wantIdle(t), totals)
			})
		})
	}
}

func TestQueueFullIsNobodysFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := one(1)
		limits.Waiting = 1
		d := openCached(t, &fakeClient{delay: time.Minute}, limits)
		defer d.stop()
		d.ask(t.Context(), client("blocks"))
		waits := d.ask(t.Context(), client("waits"))
		var refusal *admission.RejectedError
		if r := <-d.ask(t.Context(), client("x")); !errors.As(r.err, &refusal) || refusal.Reason != admission.QueueFull {
			t.Errorf("error = %v", r.err)
		}
		// What needs no place needs no room in the queue.
		joined := d.ask(t.Context(), client("waits"))
		wantVectors(t, <-waits, "waits")
		wantVectors(t, <-joined, "waits")
		if r := <-d.ask(t.Context(), client("blocks")); wantVectors(t, r, "blocks").Cached != 1 {
			t.Error("not a hit")
		}
		wantTotals(t, d.wantIdle(t), map[admission.Outcome]uint64{admission.Served: 4, admission.QueueFull: 1})
	})
}

func TestLeaderLeavesWhileExecuting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openCached(t, &fakeClient{delay: 10 * time.Second}, admission.DefaultLimits())
		defer d.stop()
		inputs := distinct(100) // four calls
		ctx, cancel := context.WithCancel(t.Context())
		leader := d.ask(ctx, client(inputs...))
		joined := d.ask(t.Context(), client("40")) // of the second call
		time.Sleep(time.Second)
		cancel()
		if r := <-leader; !errors.Is(r.err, context.Canceled) {
			t.Errorf("leader: %v", r.err)
		}
		start := time.Now()
		r := <-joined
		wantVectors(t, r, "40")
		if took := r.at.Sub(start); took != 19*time.Second {
			t.Errorf("joined after %v, want the rest of the first call and the second", took)
		}
		again := <-d.ask(t.Context(), client(inputs...))
		if r := wantVectors(t, again, inputs...); r.Joined == 0 || r.Cached == 0 || r.Joined+r.Cached != 100 {
			t.Errorf("the retry: %d cached, %d joined", r.Cached, r.Joined)
		}
		calls, _ := d.client.seen()
		if len(calls) != 4 {
			t.Errorf("%d engine calls", len(calls))
		}
		wantTotals(t, d.wantIdle(t), map[admission.Outcome]uint64{admission.Served: 2, admission.CancelledExecuting: 1})
	})
}

// A call that the total might end in the middle is not begun for nobody: the
// engine would have to be killed.
func TestAbandonedRequestSparesTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openCached(t, &fakeClient{delay: 80 * time.Second}, admission.DefaultLimits())
		defer d.stop()
		ctx, cancel := context.WithCancel(t.Context())
		d.ask(ctx, client(distinct(5*32)...))
		time.Sleep(time.Second)
		cancel()
		time.Sleep(10 * time.Minute)
		if calls, _ := d.client.seen(); len(calls) != 3 || len(d.engine.replaced) != 0 {
			t.Errorf("%d calls of 80 s in 300 s, replaced %v", len(calls), d.engine.replaced)
		}
		wantTotals(t, d.wantIdle(t), map[admission.Outcome]uint64{admission.CancelledExecuting: 1})
	})
}

func TestJoinerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openCached(t, &fakeClient{delay: time.Minute}, admission.DefaultLimits())
		defer d.stop()
		leader := d.ask(t.Context(), client("x"))
		ctx, cancel := context.WithCancelCause(t.Context())
		joined := d.ask(ctx, client("x"))
		start := time.Now()
		gone := errors.New("gone")
		cancel(gone)
		if r := <-joined; !errors.Is(r.err, gone) || !r.at.Equal(start) {
			t.Errorf("after %v: %v", r.at.Sub(start), r.err)
		}
		wantVectors(t, <-leader, "x")
		wantTotals(t, d.wantIdle(t), map[admission.Outcome]uint64{admission.Served: 1, admission.CancelledWaiting: 1})
	})
}

func TestInvalidIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openCached(t, &fakeClient{delay: time.Second}, admission.DefaultLimits())
		defer d.stop()
		broken := true
		d.client.fault = func(_ context.Context, _ int, inputs []string, good llamaclient.Reply) (llamaclient.Reply, error) {
			for i, input := range inputs {
				if input == "bad" && broken {
					good.Vectors[i] = make([]float32, 4)
				}
			}
			return good, nil
		}
		leader := d.ask(t.Context(), client("good", "bad", "bad"))
		joined := d.ask(t.Context(), client("bad"))
		innocent := d.ask(t.Context(), client("good"))
		for _, one := range []struct {
			name  string
			reply <-chan reply
			want  []vector.Problem
		}{
			{"leader", leader, []vector.Problem{{Index: 1, Reason: vector.ReasonZero}, {Index: 2, Reason: vector.ReasonZero}}},
			{"joined", joined, []vector.Problem{{Index: 0, Reason: vector.ReasonZero}}},
		} {
			var invalid *vector.InvalidError
			if r := <-one.reply; !errors.As(r.err, &invalid) {
				t.Fatalf("%s: error = %v, want *vector.InvalidError", one.name, r.err)
			}
			if diff := cmp.Diff(one.want, invalid.Problems); diff != "" {
				t.Errorf("%s (-want +got):\n%s", one.name, diff)
			}
		}
		wantVectors(t, <-innocent, "good")
		// Nothing of it was kept.
		broken = false
		if r := <-d.ask(t.Context(), client("bad")); wantVectors(t, r, "bad").Cached != 0 {
			t.Error("an invalid vector was cached")
		}
		wantTotals(t, d.wantIdle(t), map[admission.Outcome]uint64{admission.InvalidVector: 2, admission.Served: 2})
	})
}

func TestEngineVanishesUnderTheLeader(t *testing.T) {
	for name, back := range map[string]bool{"and is back": true, "and stays away": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := openCached(t, &fakeClient{delay: time.Second}, admission.DefaultLimits())
				defer d.stop()
				d.client.fault = func(_ context.Context, n int, _ []string, good llamaclient.Reply) (llamaclient.Reply, error) {
					if n > 0 {
						return good, nil
					}
					if !back {
						d.engine.fail(&embedding.UnavailableError{State: "starting", RetryAfter: time.Second})
					}
					return llamaclient.Reply{}, fmt.Errorf("embed: %w", llamaclient.ErrBroken)
				}
				leader := d.ask(t.Context(), client("x"))
				joined, second := d.ask(t.Context(), client("x")), d.ask(t.Context(), client("x"))
				if r := <-leader; !isUnavailable(r.err, map[bool]string{true: "lost", false: "starting"}[back]) {
					t.Errorf("leader: %v", r.err)
				}
				if back {
					wantVectors(t, <-joined, "x")
					wantVectors(t, <-second, "x")
					d.wantCalls(t, []string{"x"}, []string{"x"})
					wantTotals(t, d.wantIdle(t), map[admission.Outcome]uint64{admission.EngineUnavailable: 1, admission.Served: 2})
					return
				}
				for _, r := range []reply{<-joined, <-second} {
					if !isUnavailable(r.err, "starting") {
						t.Errorf("joined: %v", r.err)
					}
				}
				wantTotals(t, d.wantIdle(t), map[admission.Outcome]uint64{admission.EngineUnavailable: 3})
			})
		})
	}
}

func TestTimeoutIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openCached(t, &fakeClient{delay: time.Hour}, admission.DefaultLimits())
		defer d.stop()
		d.engine.replaceTakes = time.Minute
		start := time.Now()
		leader := d.ask(t.Context(), client("x"))
		joined := d.ask(t.Context(), client("x"))
		for _, r := range []reply{<-leader, <-joined} {
			var timeout *embedding.TimeoutError
			if !errors.As(r.err, &timeout) || r.at.Sub(start) != 300*time.Second {
				t.Errorf("after %v: %v", r.at.Sub(start), r.err)
			}
		}
		time.Sleep(time.Minute)
		wantTotals(t, d.wantIdle(t), map[admission.Outcome]uint64{admission.UpstreamTimeout: 2})
	})
}

// An engine that changes while requests wait: nobody gets vectors of two kinds.
func TestEngineChangesWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openCached(t, &fakeClient{delay: time.Minute}, one(1))
		defer d.stop()
		wantVectors(t, <-d.ask(t.Context(), client("known")), "known")
		blocks := d.ask(t.Context(), client("blocks"))
		leader := d.ask(t.Context(), client("known", "x"))
		joined := d.ask(t.Context(), client("x", "known"))
		next := &fakeClient{delay: time.Minute, salt: 2}
		d.engine.become("f2", next)
		wantVectors(t, <-blocks, "blocks")
		for i, r := range []reply{<-leader, <-joined} {
			inputs := [][]string{{"known", "x"}, {"x", "known"}}[i]
			if r.err != nil || r.result.Fingerprint != "f2" || r.result.Tokens != 10 || r.result.Cached != 0 {
				t.Fatalf("%d: %+v, %v", i, r.result, r.err)
			}
			for k, input := range inputs {
				if !slices.Equal(r.result.Vectors[k], saltedVector(2, input)) {
					t.Errorf("%d: vector %d is not the new engine's", i, k)
				}
			}
		}
		if calls, _ := next.seen(); len(calls) != 1 {
			t.Errorf("the new engine saw %v", calls)
		}
		d.engine.become("f1", d.client)
		if r := <-d.ask(t.Context(), client("known")); wantVectors(t, r, "known").Cached != 1 {
			t.Error("the old engine's vectors are gone")
		}
		wantTotals(t, d.wantIdle(t), map[admission.Outcome]uint64{admission.Served: 5})
	})
}

// A client never waits behind queued background work, though it wants the same.
func TestClientTakesOverFromBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openCached(t, &fakeClient{delay: time.Second}, one(1))
		defer d.stop()
		d.ask(t.Context(), client("blocks"))
		indexing := d.ask(t.Context(), background("x", "y"))
		second := d.ask(t.Context(), background("x"))
		d.ask(t.Context(), client("before"))
		asked := d.ask(t.Context(), client("x"))
		start := time.Now()
		if r := <-asked; wantVectors(t, r, "x").Joined != 0 || r.at.Sub(start) != 3*time.Second {
			t.Errorf("client after %v: %+v", r.at.Sub(start), r)
		}
		wantVectors(t, <-indexing, "x", "y")
		wantVectors(t, <-second, "x")
		d.wantCalls(t, []string{"blocks"}, []string{"before"}, []string{"x"}, []string{"y"})
		wantTotals(t, d.wantIdle(t), map[admission.Outcome]uint64{admission.Served: 5})
	})
}

func TestBackgroundAndTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openCached(t, &fakeClient{delay: time.Second}, admission.DefaultLimits())
		defer d.stop()
		wantVectors(t, <-d.ask(t.Context(), client("known")), "known")
		indexing := d.ask(t.Context(), background("known", "wanted", "unwanted"))
		time.Sleep(time.Second / 2)
		joined := d.ask(t.Context(), client("wanted")) // it executes already
		if r := <-indexing; wantVectors(t, r, "known", "wanted", "unwanted").Cached != 1 {
			t.Error("indexing does not read the cache")
		}
		if r := <-joined; wantVectors(t, r, "wanted").Joined != 1 {
			t.Error("not joined")
		}
		if got := d.CacheStats().Entries; got != 2 {
			t.Errorf("%d entries, want what clients asked for", got)
		}
		d.wantCalls(t, []string{"known"}, []string{"wanted", "unwanted"})
		d.wantIdle(t)
	})
}

func TestAbandonedBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openCached(t, &fakeClient{delay: time.Second}, admission.DefaultLimits())
		defer d.stop()
		ctx, cancel := context.WithCancel(t.Context())
		d.ask(ctx, background(distinct(200)...))
		joined := d.ask(t.Context(), client("190"))
		cancel()
		wantVectors(t, <-joined, "190")
		d.wantIdle(t)
		calls, _ := d.client.seen()
		if len(calls) != 2 || !slices.Equal(calls[1], []string{"190"}) {
			t.Errorf("%d engine calls, the second %v; want the one under way, then what is wanted", len(calls), calls[1])
		}
	})
}

// Who joins the end of a long request need not wait for all of it.
func TestJoinedTextComesNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openCached(t, &fakeClient{delay: time.Second}, admission.DefaultLimits())
		defer d.stop()
		inputs := distinct(320)
		long := d.ask(t.Context(), client(inputs...))
		start := time.Now()
		r := <-d.ask(t.Context(), client("319"))
		if wantVectors(t, r, "319"); r.at.Sub(start) != 2*time.Second {
			t.Errorf("joined after %v", r.at.Sub(start))
		}
		wantVectors(t, <-long, inputs...)
		if calls, _ := d.client.seen(); len(calls) != 10 {
			t.Errorf("%d engine calls", len(calls))
		}
		d.wantIdle(t)
	})
}

// The engine tells the tokens of a call; those of a text are counted when it
// is met again, once.
func TestTokensOfHitsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openCached(t, &fakeClient{}, admission.DefaultLimits())
		defer d.stop()
		inputs := []string{"a", strings.Repeat("b", 50), "온돌", "alone"}
		wantVectors(t, <-d.ask(t.Context(), client(inputs[:3]...)), inputs[:3]...)
		wantVectors(t, <-d.ask(t.Context(), client("alone")), "alone")
		if len(d.client.counted) != 0 {
			t.Errorf("counted %v before it was asked for", d.client.counted)
		}
		for range 3 {
			for _, input := range inputs {
				wantVectors(t, <-d.ask(t.Context(), client(input)), input)
			}
		}
		if diff := cmp.Diff(inputs[:3], d.client.counted); diff != "" {
			t.Errorf("counted (-want +got):\n%s", diff)
		}
	})
}

// An engine that cannot count: shares, which are right for the same request.
func TestTokensWithoutCounting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openCached(t, &fakeClient{uncount: errors.New("this engine does not count")}, admission.DefaultLimits())
		defer d.stop()
		inputs := []string{"a", strings.Repeat("b", 50), "온돌", "c"}
		for range 2 {
			wantVectors(t, <-d.ask(t.Context(), client(inputs...)), inputs...)
		}
		r := <-d.ask(t.Context(), client("a"))
		if r.err != nil || r.result.Tokens < 1 || r.result.Tokens > 5 {
			t.Errorf("%d tokens, %v", r.result.Tokens, r.err)
		}
	})
}

// The exact figure is not worth a wait: the vectors are all there.
func TestHitIsNotHeldUpByCounting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openCached(t, &fakeClient{countDelay: time.Minute}, admission.DefaultLimits())
		defer d.stop()
		wantVectors(t, <-d.ask(t.Context(), client("a", "bcd")), "a", "bcd")
		for range 3 { // more than are counted at once
			start := time.Now()
			r := <-d.ask(t.Context(), client("a", "bcd"))
			if wantVectors(t, r, "a", "bcd"); r.at.Sub(start) > time.Second {
				t.Errorf("a hit after %v", r.at.Sub(start))
			}
		}
		time.Sleep(10 * time.Minute)
		d.wantIdle(t)
	})
}
