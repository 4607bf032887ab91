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
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/vector"
)

func TestEmbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, &fakeClient{}, admission.DefaultLimits())
		defer d.stop()
		got, err := d.Embed(t.Context(), client("a", "온돌"))
		if err != nil {
			t.Fatal(err)
		}
		want := embedding.Result{
			Vectors: [][]float32{fakeVector("a"), fakeVector("온돌")}, Tokens: 3 + 8, Model: "fake", Fingerprint: "f1", Dim: 4,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
		info, err := d.Info()
		if err != nil || info != (embedding.Info{Model: "fake", Dim: 4, MaxTokens: 1000, Fingerprint: "f1"}) {
			t.Errorf("Info = %+v, %v", info, err)
		}
		counts, err := d.CountTokens(t.Context(), []string{"", "abc"})
		if err != nil || !slices.Equal(counts, []int{2, 5}) {
			t.Errorf("CountTokens = %v, %v", counts, err)
		}
		if v := d.Validity(); v.Checked != 2 || v.Rejected != 0 || v.LastInvalid != nil {
			t.Errorf("Validity = %+v", v)
		}
		if _, err := d.Embed(t.Context(), client()); err == nil {
			t.Error("no input: accepted")
		}
		if stats := d.wantIdle(t); stats.Totals[admission.Served] != 1 {
			t.Errorf("totals = %v", stats.Totals)
		}
	})
}

func TestEightyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, &fakeClient{delay: time.Second}, admission.DefaultLimits())
		defer d.stop()
		start := time.Now()
		var mu sync.Mutex
		var served []int
		refused := 0
		var wg sync.WaitGroup
		for i := range 80 {
			wg.Go(func() {
				_, err := d.Embed(t.Context(), client(fmt.Sprint(i)))
				mu.Lock()
				defer mu.Unlock()
				var refusal *admission.RejectedError
				switch {
				case err == nil:
					served = append(served, i)
				case errors.As(err, &refusal) && refusal.Reason == admission.QueueFull && time.Since(start) < time.Second:
					refused++
				default:
					t.Errorf("request %d after %v: %v", i, time.Since(start), err)
				}
			})
			synctest.Wait()
			time.Sleep(time.Millisecond) // so that no two end at one instant
		}
		if stats := d.stats(); stats.Executing != 2 || stats.Waiting != 64 || refused != 14 {
			t.Errorf("%d refused, stats %+v", refused, stats)
		}
		wg.Wait()
		if len(served) != 66 || !slices.IsSorted(served) {
			t.Errorf("served in the order %v", served)
		}
		calls, most := d.client.seen()
		if most != 2 || len(calls) != 66 {
			t.Errorf("the engine saw %d calls, %d at once", len(calls), most)
		}
		d.wantIdle(t)
	})
}

func TestWaitingCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, &fakeClient{delay: time.Minute}, admission.DefaultLimits())
		defer d.stop()
		for i := range 65 {
			go d.Embed(t.Context(), client(fmt.Sprint(i)))
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := d.Embed(ctx, client("impatient"))
			left <- err
		}()
		if stats := d.stats(); stats.Waiting != 64 {
			t.Fatalf("before: %+v", stats)
		}
		start := time.Now()
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) || time.Since(start) != 0 {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		if stats := d.stats(); stats.Waiting != 63 || stats.Executing != 2 {
			t.Errorf("after: %+v", stats)
		}
		go d.Embed(t.Context(), client("next")) // takes the freed place
		if stats := d.stats(); stats.Waiting != 64 || stats.Totals[admission.QueueFull] != 0 {
			t.Errorf("the next: %+v", stats)
		}
		// The last of the 64 gets its permit after 32 min; most time out before.
		time.Sleep(time.Hour)
		d.wantIdle(t)
		calls, _ := d.client.seen()
		for _, call := range calls {
			if call[0] == "impatient" {
				t.Error("the caller that left was served")
			}
		}
	})
}

// The permit outlives the caller until its whole request is done.
func TestExecutingCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := admission.DefaultLimits()
		limits.Executing = 1
		d := open(t, &fakeClient{delay: 20 * time.Second}, limits)
		defer d.stop()
		ctx, cancel := context.WithCancelCause(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := d.Embed(ctx, client(distinct(100)...)) // four engine calls
			left <- err
		}()
		time.Sleep(30 * time.Second) // the second call has begun
		start := time.Now()
		gone := errors.New("gone")
		cancel(gone)
		if err := <-left; !errors.Is(err, gone) || time.Since(start) != 0 {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		next := make(chan time.Duration, 1)
		go func() {
			if _, err := d.Embed(t.Context(), client("next")); err != nil {
				t.Error(err)
			}
			next <- time.Since(start)
		}()
		if stats := d.stats(); stats.Draining != 1 || stats.Executing != 0 || stats.Waiting != 1 {
			t.Errorf("draining: %+v", stats)
		}
		if after := <-next; after != 50*time.Second+20*time.Second {
			t.Errorf("the next was done after %v, want the rest of the first request and its own", after)
		}
		calls, most := d.client.seen()
		if len(calls) != 5 || most != 1 {
			t.Errorf("%d engine calls, %d at once; want four of the first and one of the next", len(calls), most)
		}
		stats := d.wantIdle(t)
		if stats.Totals[admission.CancelledExecuting] != 1 || stats.Totals[admission.Served] != 1 {
			t.Errorf("totals = %v", stats.Totals)
		}
	})
}

// The caller leaves at the instant the engine answers: what it saw is what is
// counted.
func TestAnswerMeetsCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, &fakeClient{delay: time.Second}, admission.DefaultLimits())
		defer d.stop()
		saw := map[admission.Outcome]uint64{}
		for range 400 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := d.Embed(ctx, client("x"))
			switch {
			case err == nil:
				saw[admission.Served]++
			case errors.Is(err, context.DeadlineExceeded):
				saw[admission.CancelledExecuting]++
			default:
				t.Fatal(err)
			}
			cancel()
		}
		stats := d.wantIdle(t)
		for _, outcome := range []admission.Outcome{admission.Served, admission.CancelledExecuting} {
			if stats.Totals[outcome] != saw[outcome] {
				t.Errorf("%s: counted %d, callers saw %d", outcome, stats.Totals[outcome], saw[outcome])
			}
		}
	})
}

func TestTotal(t *testing.T) {
	for name, leave := range map[string]bool{"caller waits": false, "caller left before": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limits := admission.DefaultLimits()
				limits.Executing = 1
				d := open(t, &fakeClient{delay: 200 * time.Second}, limits)
				defer d.stop()
				d.engine.replaceTakes = 20 * time.Second
				// Two calls of 200 s each: each is quick enough, the whole is not.
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				start := time.Now()
				d.client.fault = func(ctx context.Context, n int, _ []string, good llamaclient.Reply) (llamaclient.Reply, error) {
					if n == 0 && leave { // this very call outlasts the total
						<-ctx.Done()
						return llamaclient.Reply{}, context.Cause(ctx)
					}
					return good, nil
				}
				result := make(chan error, 1)
				go func() {
					_, err := d.Embed(ctx, client(distinct(64)...))
					result <- err
				}()
				if leave {
					time.Sleep(time.Second)
					cancel()
					if err := <-result; !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					time.Sleep(299*time.Second - time.Since(start) + time.Second)
				} else {
					var timeout *embedding.TimeoutError
					if err := <-result; !errors.As(err, &timeout) || timeout.After != 300*time.Second {
						t.Errorf("error = %v, want a timeout after 300 s", err)
					}
				}
				if passed := time.Since(start); passed != 300*time.Second {
					t.Errorf("%v have passed", passed)
				}
				if stats := d.stats(); stats.Draining != 1 || stats.Executing != 0 {
					t.Errorf("while the engine is being replaced: %+v", stats)
				}
				time.Sleep(20*time.Second - 1)
				if stats := d.stats(); stats.Draining != 1 {
					t.Errorf("just before it is replaced: %+v", stats)
				}
				time.Sleep(time.Nanosecond)
				if stats := d.wantIdle(t); stats.Totals[admission.UpstreamTimeout] != 1 {
					t.Errorf("totals = %v", stats.Totals)
				}
				if !slices.Equal(d.engine.replaced, []uint64{7}) {
					t.Errorf("replaced %v", d.engine.replaced)
				}
			})
		})
	}
}

// An engine that does not answer a read (or take a write) in time is as
// uncertain as one that exceeds the total.
func TestReadLimitReplacesTheEngine(t *testing.T) {
	for _, limit := range []error{llamaclient.ErrRead, llamaclient.ErrWrite} {
		synctest.Test(t, func(t *testing.T) {
			d := open(t, &fakeClient{delay: 10 * time.Second, fault: func(context.Context, int, []string, llamaclient.Reply) (llamaclient.Reply, error) {
				return llamaclient.Reply{}, fmt.Errorf("/v1/embeddings: %w", limit)
			}}, admission.DefaultLimits())
			defer d.stop()
			d.engine.replaceError = errors.New("no such generation") // the permit comes back all the same
			var timeout *embedding.TimeoutError
			if _, err := d.Embed(t.Context(), client("x")); !errors.As(err, &timeout) || timeout.After != 10*time.Second {
				t.Errorf("error = %v", err)
			}
			if stats := d.wantIdle(t); stats.Totals[admission.UpstreamTimeout] != 1 || len(d.engine.replaced) != 1 {
				t.Errorf("replaced %v, totals %v", d.engine.replaced, stats.Totals)
			}
		})
	}
}

func TestSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		most := 0
		d := open(t, &fakeClient{delay: time.Second}, admission.DefaultLimits())
		defer d.stop()
		d.client.fault = func(_ context.Context, _ int, _ []string, good llamaclient.Reply) (llamaclient.Reply, error) {
			stats := d.gate.Stats()
			most = max(most, stats.Executing+stats.Waiting)
			return good, nil
		}
		inputs := make([]string, 2048)
		tokens := 0
		for i := range inputs {
			inputs[i] = fmt.Sprint(i, strings.Repeat("x", i%900))
			tokens += len(inputs[i]) + 2
		}
		got, err := d.Embed(t.Context(), client(inputs...))
		if err != nil {
			t.Fatal(err)
		}
		if got.Tokens != tokens || len(got.Vectors) != 2048 {
			t.Errorf("%d vectors, %d tokens, want 2048 and %d", len(got.Vectors), got.Tokens, tokens)
		}
		for i, input := range inputs {
			if !slices.Equal(got.Vectors[i], fakeVector(input)) {
				t.Fatalf("vector %d is not that of input %d", i, i)
			}
		}
		calls, _ := d.client.seen()
		if diff := cmp.Diff(inputs, slices.Concat(calls...)); diff != "" {
			t.Errorf("what the engine saw (-inputs +calls):\n%s", diff)
		}
		for _, call := range calls {
			if len(call) > 32 || len(call) > 1 && len(strings.Join(call, "")) > 3*4096 {
				t.Errorf("a call of %d inputs, %d bytes", len(call), len(strings.Join(call, "")))
			}
		}
		if most != 1 {
			t.Errorf("the request took %d places", most)
		}
		d.wantIdle(t)
	})
}

// An engine that is sound, and inputs that are at fault whoever is with them.
func TestInvalidReply(t *testing.T) {
	nan := []float32{1, float32(math.NaN()), 0, 0}
	problem := func(i int, reason vector.Reason) vector.Problem { return vector.Problem{Index: i, Reason: reason} }
	for _, tt := range []struct {
		name string
		bad  map[string][]float32
		said bool // by the client, not found by us
		want []vector.Problem
	}{
		{"as the client says", map[string][]float32{"33": nan, "36": make([]float32, 4), "37": make([]float32, 4)}, true,
			[]vector.Problem{problem(33, vector.ReasonNotFinite), problem(36, vector.ReasonZero), problem(37, vector.ReasonZero)}},
		// The law is applied here as well, whatever the client.
		{"not finite", map[string][]float32{"34": nan}, false, []vector.Problem{problem(34, vector.ReasonNotFinite)}},
		{"dimension", map[string][]float32{"32": {1, 0, 0}}, false, []vector.Problem{problem(32, vector.ReasonDimension)}},
		{"norm", map[string][]float32{"32": {1, 2, 3, 4}}, false, []vector.Problem{problem(32, vector.ReasonNorm)}},
	} {
		for _, lane := range []admission.Lane{admission.LaneClient, admission.LaneBackground} {
			t.Run(fmt.Sprint(tt.name, " ", lane), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := open(t, &fakeClient{fault: func(_ context.Context, _ int, inputs []string, good llamaclient.Reply) (llamaclient.Reply, error) {
						for i, input := range inputs {
							if v := tt.bad[input]; v != nil {
								good.Vectors[i] = v
							}
						}
						if err := vector.Check(good.Vectors, vector.Expect{Count: len(inputs), Dim: 4, Normalized: true}); tt.said && err != nil {
							return llamaclient.Reply{}, err
						}
						return good, nil
					}}, admission.DefaultLimits())
					defer d.stop()
					got, err := d.Embed(t.Context(), embedding.Request{Lane: lane, Inputs: distinct(80)})
					var invalid *vector.InvalidError
					if !errors.As(err, &invalid) {
						t.Fatalf("error = %v, want *vector.InvalidError", err)
					}
					if diff := cmp.Diff(tt.want, invalid.Problems); diff != "" {
						t.Errorf("problems (-want +got):\n%s", diff)
					}
					if got.Vectors != nil {
						t.Errorf("%d vectors came with the error", len(got.Vectors))
					}
					// Two of the request, a look at the engine, and each that was
					// named by itself, followed by a look.
					if calls, _ := d.client.seen(); len(calls) != 3+2*len(tt.want) {
						t.Errorf("%d engine calls, want none after the verdict: %q", len(calls), calls)
					}
					v := d.Validity()
					if v.Rejected != uint64(1+len(tt.want)) || v.Checked != 32 || v.LastInvalid == nil || !v.LastInvalid.Equal(time.Now()) {
						t.Errorf("Validity = %+v", v)
					}
					if last := []vector.Reason{tt.want[len(tt.want)-1].Reason}; !slices.Equal(v.LastReasons, last) {
						t.Errorf("reasons = %v, want %v", v.LastReasons, last)
					}
					if replaced, _ := d.engine.ended(); len(replaced) != 0 || v.Quarantined != 0 {
						t.Errorf("replaced %v, %d quarantined, for a first fault of an input", replaced, v.Quarantined)
					}
					if stats := d.wantIdle(t); stats.Totals[admission.InvalidVector] != 1 {
						t.Errorf("totals = %v", stats.Totals)
					}
				})
			})
		}
	}
}

// A reply that is invalid as a whole says nothing of any input: each is tried
// by itself, and nobody is refused.
func TestInvalidAsAWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, &fakeClient{fault: func(_ context.Context, n int, _ []string, good llamaclient.Reply) (llamaclient.Reply, error) {
			if n == 1 {
				good.Vectors = good.Vectors[1:]
			}
			return good, nil
		}}, admission.DefaultLimits())
		defer d.stop()
		if r, err := d.Embed(t.Context(), client(distinct(40)...)); err != nil || len(r.Vectors) != 40 {
			t.Fatalf("%d vectors, %v", len(r.Vectors), err)
		}
		if calls, _ := d.client.seen(); len(calls) != 3+2*8 {
			t.Errorf("%d engine calls", len(calls))
		}
		d.wantIdle(t)
	})
}

func TestTooLong(t *testing.T) {
	fits, tooLong := strings.Repeat("x", 998), strings.Repeat("x", 999)
	t.Run("before a permit", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := open(t, &fakeClient{}, admission.DefaultLimits())
			defer d.stop()
			_, err := d.Embed(t.Context(), client("short", fits, tooLong, tooLong+"x"))
			want := &embedding.TooLongError{Index: 2, Tokens: 1001, Limit: 1000}
			var got *embedding.TooLongError
			if !errors.As(err, &got) || *got != *want {
				t.Errorf("error = %v, want %v", err, want)
			}
			if calls, _ := d.client.seen(); len(calls) != 0 {
				t.Error("the engine was asked to embed")
			}
			if slices.Contains(d.client.counted, "short") {
				t.Error("an input that surely fits was counted")
			}
			if stats := d.wantIdle(t); stats.WaitSeconds.Count != 0 {
				t.Error("a permit was taken")
			}
			if _, err := d.Embed(t.Context(), client(fits)); err != nil {
				t.Errorf("an input of exactly the limit: %v", err)
			}
		})
	})
	t.Run("as the engine says", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := open(t, &fakeClient{fault: func(_ context.Context, n int, _ []string, good llamaclient.Reply) (llamaclient.Reply, error) {
				if n == 1 {
					return llamaclient.Reply{}, &llamaclient.ContextError{Tokens: 502, Limit: 400}
				}
				return good, nil
			}}, admission.DefaultLimits())
			defer d.stop()
			inputs := distinct(40)
			inputs[35] = strings.Repeat("x", 500)
			_, err := d.Embed(t.Context(), client(inputs...))
			want := embedding.TooLongError{Index: 35, Tokens: 502, Limit: 400}
			var got *embedding.TooLongError
			if !errors.As(err, &got) || *got != want {
				t.Errorf("error = %v, want %v", err, &want)
			}
			if stats := d.wantIdle(t); stats.Totals[admission.Failed] != 1 {
				t.Errorf("totals = %v", stats.Totals)
			}
		})
	})
}

func TestUnavailable(t *testing.T) {
	starting := &embedding.UnavailableError{State: "starting", RetryAfter: 3 * time.Second}
	t.Run("before the queue", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := open(t, &fakeClient{delay: time.Minute}, admission.DefaultLimits())
			defer d.stop()
			for _, input := range distinct(10) {
				go d.Embed(t.Context(), client(input))
			}
			synctest.Wait()
			d.engine.fail(starting)
			start := time.Now()
			_, err := d.Embed(t.Context(), client("x"))
			if !isUnavailable(err, "starting") || time.Since(start) != 0 {
				t.Errorf("after %v: %v", time.Since(start), err)
			}
			if _, err := d.Info(); !isUnavailable(err, "starting") {
				t.Errorf("Info: %v", err)
			}
			if _, err := d.CountTokens(t.Context(), []string{"x"}); !isUnavailable(err, "starting") {
				t.Errorf("CountTokens: %v", err)
			}
			stats := d.stats()
			if stats.Totals[admission.EngineUnavailable] != 1 || stats.Waiting != 8 {
				t.Errorf("stats = %+v", stats)
			}
			// Those who wait get their permit, then the same answer, at once
			// after the two that execute.
			time.Sleep(time.Minute)
			if stats := d.wantIdle(t); stats.Totals[admission.EngineUnavailable] != 9 || stats.Totals[admission.Served] != 2 {
				t.Errorf("totals = %v", stats.Totals)
			}
		})
	})
	t.Run("an error of another kind", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := open(t, &fakeClient{}, admission.DefaultLimits())
			defer d.stop()
			cause := errors.New("no engine set up")
			d.engine.fail(cause)
			if _, err := d.Embed(t.Context(), client("x")); !isUnavailable(err, "unknown") || !errors.Is(err, cause) {
				t.Errorf("error = %v", err)
			}
		})
	})
	faults := map[string]error{
		"crash in the middle": fmt.Errorf("/v1/embeddings: %w: EOF", llamaclient.ErrBroken),
		"nobody listens":      fmt.Errorf("/v1/embeddings: %w: refused", llamaclient.ErrConnect),
		"no connection free":  fmt.Errorf("/v1/embeddings: %w", llamaclient.ErrPoolWait),
		"still loading":       &llamaclient.StatusError{Code: 503, Message: "Loading model"},
	}
	for name, fault := range faults {
		for _, noticed := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", noticed ", noticed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := open(t, &fakeClient{delay: time.Second}, admission.DefaultLimits())
					defer d.stop()
					want := "lost"
					d.client.fault = func(context.Context, int, []string, llamaclient.Reply) (llamaclient.Reply, error) {
						if noticed {
							d.engine.fail(starting)
							want = "starting"
						}
						return llamaclient.Reply{}, fault
					}
					_, err := d.Embed(t.Context(), client("x"))
					var unavailable *embedding.UnavailableError
					if !errors.As(err, &unavailable) || unavailable.State != want || unavailable.RetryAfter <= 0 || !errors.Is(err, fault) {
						t.Errorf("error = %v, want unavailable (%s)", err, want)
					}
					if stats := d.wantIdle(t); stats.Totals[admission.EngineUnavailable] != 1 {
						t.Errorf("totals = %v", stats.Totals)
					}
				})
			})
		}
	}
}

func TestOtherErrorsPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, &fakeClient{fault: func(context.Context, int, []string, llamaclient.Reply) (llamaclient.Reply, error) {
			return llamaclient.Reply{}, &llamaclient.StatusError{Code: 401, Message: "Invalid API Key"}
		}}, admission.DefaultLimits())
		defer d.stop()
		var status *llamaclient.StatusError
		if _, err := d.Embed(t.Context(), client("x")); !errors.As(err, &status) || status.Code != 401 {
			t.Errorf("error = %v", err)
		}
		if stats := d.wantIdle(t); stats.Totals[admission.Failed] != 1 {
			t.Errorf("totals = %v", stats.Totals)
		}
	})
}

func TestRunWaitsForExchanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, &fakeClient{delay: time.Minute}, admission.DefaultLimits())
		ctx, cancel := context.WithCancel(t.Context())
		go d.Embed(ctx, client("left alone"))
		go d.Embed(t.Context(), client("waited for"))
		waiting := make(chan error, 1)
		synctest.Wait()
		go func() {
			_, err := d.Embed(t.Context(), client("queued"))
			waiting <- err
		}()
		synctest.Wait()
		cancel()
		start := time.Now()
		d.stop()
		if took := time.Since(start); took != time.Minute {
			t.Errorf("Run returned after %v, want when the exchanges ended", took)
		}
		// The queued one got its permit when they ended, too late.
		if err := <-waiting; !isUnavailable(err, "stopping") {
			t.Errorf("queued: %v", err)
		}
		if _, err := d.Embed(t.Context(), client("late")); !isUnavailable(err, "stopping") {
			t.Errorf("late: %v", err)
		}
		if _, most := d.client.seen(); most != 2 {
			t.Errorf("%d at once", most)
		}
	})
}

// A replacement under way does not hold the shutdown up.
func TestStopEndsReplace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, &fakeClient{fault: func(context.Context, int, []string, llamaclient.Reply) (llamaclient.Reply, error) {
			return llamaclient.Reply{}, llamaclient.ErrRead
		}}, admission.DefaultLimits())
		d.engine.replaceTakes = time.Hour
		if _, err := d.Embed(t.Context(), client("x")); err == nil {
			t.Error("no error")
		}
		start := time.Now()
		d.stop()
		if took := time.Since(start); took != 0 {
			t.Errorf("stopping took %v", took)
		}
	})
}

func TestNewChecksItsConfig(t *testing.T) {
	gate, err := admission.NewGate(admission.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]embedding.Config{
		"no gate":        {Engine: &fakeEngine{}},
		"no engine":      {Gate: gate},
		"negative total": {Gate: gate, Engine: &fakeEngine{}, Total: -1},
	} {
		if _, err := embedding.New(config); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
