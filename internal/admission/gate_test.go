package admission_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
)

// runGate runs a gate until the test ends or stop is called.
func runGate(t testing.TB, limits admission.Limits) (gate *admission.Gate, stop func()) {
	t.Helper()
	gate, err := admission.NewGate(limits)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- gate.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return gate, stop
}

func acquire(t *testing.T, gate *admission.Gate) *admission.Permit {
	t.Helper()
	permit, err := gate.Acquire(context.Background(), admission.LaneClient)
	if err != nil {
		t.Fatal(err)
	}
	return permit
}

// waitIdle blocks, in a bubble, until every goroutine waits, and returns the stats.
func waitIdle(gate *admission.Gate) admission.Stats {
	synctest.Wait()
	return gate.Stats()
}

func rejected(err error, reason admission.Outcome) bool {
	var refusal *admission.RejectedError
	return errors.As(err, &refusal) && refusal.Reason == reason &&
		refusal.RetryAfter >= time.Millisecond && refusal.RetryAfter <= time.Minute
}

// 80 at once on a slow engine: 2 execute, 64 wait, 14 are refused at once, and
// the served ones end in arrival order.
func TestEightyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, stop := runGate(t, admission.DefaultLimits())
		defer stop()
		start := time.Now()
		var mu sync.Mutex
		var order []int
		var refusedAt []time.Duration
		var executing, most atomic.Int32
		var wg sync.WaitGroup
		for i := range 80 {
			wg.Go(func() {
				permit, err := gate.Acquire(t.Context(), admission.LaneClient)
				if err != nil {
					if !rejected(err, admission.QueueFull) {
						t.Errorf("request %d: %v", i, err)
					}
					mu.Lock()
					defer mu.Unlock()
					refusedAt = append(refusedAt, time.Since(start))
					return
				}
				if now := executing.Add(1); now > most.Load() {
					most.Store(now)
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(time.Second + time.Duration(i)*time.Millisecond)
				executing.Add(-1)
				permit.Release(admission.Served)
			})
			synctest.Wait() // so that the arrival order is i
		}
		stats := gate.Stats()
		if stats.Executing != 2 || stats.Waiting != 64 || stats.Totals[admission.QueueFull] != 14 {
			t.Errorf("with all 80 there: %+v", stats)
		}
		wg.Wait()
		if most.Load() != 2 {
			t.Errorf("%d executed at once", most.Load())
		}
		if len(order) != 66 || !slices.IsSorted(order) {
			t.Errorf("served in the order %v", order)
		}
		if len(refusedAt) != 14 || slices.Max(refusedAt) != 0 {
			t.Errorf("refused after %v, want 14 at once", refusedAt)
		}
		stats = waitIdle(gate)
		if stats.Executing+stats.Draining+stats.Waiting != 0 || stats.Totals[admission.Served] != 66 {
			t.Errorf("afterwards: %+v", stats)
		}
		if stats.WaitSeconds.Count != 66 || stats.ServiceSeconds.Count != 66 {
			t.Errorf("histograms: %d waits, %d services", stats.WaitSeconds.Count, stats.ServiceSeconds.Count)
		}
	})
}

func TestWaitEndsAfter120Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, stop := runGate(t, admission.DefaultLimits())
		defer stop()
		acquire(t, gate)
		acquire(t, gate)
		time.Sleep(7 * time.Second)
		start := time.Now()
		_, err := gate.Acquire(t.Context(), admission.LaneClient)
		if !rejected(err, admission.QueueTimeout) {
			t.Errorf("error = %v, want queue_timeout", err)
		}
		if waited := time.Since(start); waited != 120*time.Second {
			t.Errorf("waited %v, want 120 s", waited)
		}
	})
}

func TestBackgroundHasNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, stop := runGate(t, admission.DefaultLimits())
		defer stop()
		first, second := acquire(t, gate), acquire(t, gate)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		result := make(chan error, 1)
		go func() {
			permit, err := gate.Acquire(ctx, admission.LaneBackground)
			if err == nil {
				permit.Release(admission.Served)
			}
			result <- err
		}()
		time.Sleep(time.Hour)
		if stats := waitIdle(gate); stats.BackgroundWaiting != 1 {
			t.Fatalf("after an hour: %+v", stats)
		}
		first.Release(admission.Served)
		if err := <-result; err != nil {
			t.Errorf("background: %v", err)
		}
		second.Release(admission.Served)
	})
}

func TestLeavingTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, stop := runGate(t, admission.DefaultLimits())
		defer stop()
		first, second := acquire(t, gate), acquire(t, gate)
		ctx, cancel := context.WithCancelCause(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := gate.Acquire(ctx, admission.LaneClient)
			left <- err
		}()
		if stats := waitIdle(gate); stats.Waiting != 1 {
			t.Fatalf("before: %+v", stats)
		}
		gone := errors.New("gone")
		start := time.Now()
		cancel(gone)
		if err := <-left; !errors.Is(err, gone) {
			t.Errorf("error = %v, want the cause", err)
		}
		stats := waitIdle(gate)
		if stats.Waiting != 0 || stats.Totals[admission.CancelledWaiting] != 1 || time.Since(start) != 0 {
			t.Errorf("after %v: %+v", time.Since(start), stats)
		}
		first.Release(admission.Served)
		second.Release(admission.Served)
		if stats := waitIdle(gate); stats.Executing != 0 {
			t.Errorf("at the end: %+v", stats)
		}
	})
}

func TestDrainHoldsThePermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, stop := runGate(t, admission.Limits{Executing: 1, Waiting: 4, Wait: time.Hour, Background: 1})
		defer stop()
		permit := acquire(t, gate)
		permit.Drain()
		served := make(chan time.Time, 1)
		go func() {
			acquire(t, gate).Release(admission.Served)
			served <- time.Now()
		}()
		time.Sleep(time.Minute)
		if stats := waitIdle(gate); stats.Draining != 1 || stats.Executing != 0 || stats.Waiting != 1 {
			t.Fatalf("draining: %+v", stats)
		}
		released := time.Now()
		permit.Release(admission.CancelledExecuting)
		permit.Release(admission.Served) // only the first counts
		if at := <-served; !at.Equal(released) {
			t.Errorf("the next was served %v after the release", at.Sub(released))
		}
		stats := waitIdle(gate)
		if stats.Totals[admission.CancelledExecuting] != 1 || stats.Totals[admission.Served] != 1 || stats.Draining != 0 {
			t.Errorf("afterwards: %+v", stats)
		}
	})
}

// The permit is released and the only waiting caller leaves at the same
// moment, over and over: whichever comes first, no permit is lost.
func TestGrantMeetsCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, stop := runGate(t, admission.Limits{Executing: 1, Waiting: 4, Wait: time.Hour})
		defer stop()
		const rounds = 500
		for range rounds {
			permit := acquire(t, gate)
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() {
				if next, err := gate.Acquire(ctx, admission.LaneClient); err == nil {
					next.Release(admission.Served)
				}
			})
			synctest.Wait()
			wg.Go(func() { permit.Release(admission.Served) })
			wg.Go(cancel)
			wg.Wait()
			if stats := waitIdle(gate); stats.Executing+stats.Waiting+stats.Draining != 0 {
				t.Fatalf("left behind: %+v", stats)
			}
		}
		totals := gate.Stats().Totals
		if got := totals[admission.Served] + totals[admission.CancelledWaiting]; got != 2*rounds {
			t.Errorf("outcomes %v, want %d in all", totals, 2*rounds)
		}
	})
}

// Everything at once, in real time: random lanes, patience and service, limits
// that change; at the end all is zero and every request has one outcome.
func TestCrowd(t *testing.T) {
	limits := admission.Limits{Executing: 2, Waiting: 8, Wait: 3 * time.Millisecond, Background: 1}
	gate, stop := runGate(t, limits)
	defer stop()
	var arrived, held, most atomic.Int64
	var wg sync.WaitGroup
	for worker := range 40 {
		random := rand.New(rand.NewPCG(uint64(worker), 7))
		wg.Go(func() {
			for range 60 {
				lane := admission.LaneClient
				if worker%5 == 0 {
					lane = admission.LaneBackground
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(4000))*time.Microsecond)
				permit, err := gate.Acquire(ctx, lane)
				// One that could not even arrive has no outcome: count those that did.
				if err == nil {
					arrived.Add(1)
					if now := held.Add(1); now > most.Load() {
						most.Store(now)
					}
					if random.IntN(3) == 0 {
						permit.Drain()
					}
					<-time.After(time.Duration(random.IntN(300)) * time.Microsecond)
					held.Add(-1)
					permit.Release(admission.Served)
				} else if rejected(err, admission.QueueFull) || rejected(err, admission.QueueTimeout) {
					arrived.Add(1)
				} else if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("unexpected: %v", err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	stats := gate.Stats()
	if stats.Executing+stats.Draining+stats.Waiting+stats.BackgroundWaiting != 0 {
		t.Errorf("left behind: %+v", stats)
	}
	if most.Load() > 2 {
		t.Errorf("%d held a permit at once", most.Load())
	}
	var known uint64
	for _, outcome := range []admission.Outcome{admission.Served, admission.QueueFull, admission.QueueTimeout} {
		known += stats.Totals[outcome]
	}
	// A caller may leave just as its refusal comes: that one is counted here
	// and not there.
	if known < uint64(arrived.Load()) {
		t.Errorf("%d callers got an answer, the gate counts %d: %v", arrived.Load(), known, stats.Totals)
	}
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, stop := runGate(t, admission.DefaultLimits())
		permit := acquire(t, gate)
		acquire(t, gate)
		results := make(chan error, 5)
		for i := range 5 {
			lane := admission.LaneClient
			if i == 4 {
				lane = admission.LaneBackground
			}
			go func() {
				_, err := gate.Acquire(t.Context(), lane)
				results <- err
			}()
		}
		synctest.Wait()
		stop()
		for range 5 {
			if err := <-results; !errors.Is(err, admission.ErrClosed) {
				t.Errorf("waiting at the end: %v, want ErrClosed", err)
			}
		}
		if _, err := gate.Acquire(t.Context(), admission.LaneClient); !errors.Is(err, admission.ErrClosed) {
			t.Errorf("coming after the end: %v, want ErrClosed", err)
		}
		permit.Drain()
		permit.Release(admission.Served) // must not hang
		if err := gate.SetLimits(admission.DefaultLimits()); !errors.Is(err, admission.ErrClosed) {
			t.Errorf("SetLimits: %v, want ErrClosed", err)
		}
		if stats := gate.Stats(); stats.Executing+stats.Waiting != 0 || stats.Limits.Executing != 2 {
			t.Errorf("stats: %+v", stats)
		}
		if err := gate.Run(t.Context()); err == nil {
			t.Error("Run a second time: accepted")
		}
	})
}

func TestBeforeRun(t *testing.T) {
	gate, err := admission.NewGate(admission.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	if stats := gate.Stats(); stats.Limits.Waiting != 64 || len(stats.Totals) != len(admission.Outcomes()) {
		t.Errorf("stats: %+v", stats)
	}
	if err := gate.SetLimits(admission.DefaultLimits()); err == nil {
		t.Error("SetLimits before Run: accepted")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := gate.Acquire(ctx, admission.LaneClient); !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire: %v", err)
	}
	if _, err := gate.Acquire(t.Context(), "vip"); err == nil {
		t.Error("a lane that does not exist: accepted")
	}
}

func TestSetLimitsLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, stop := runGate(t, admission.DefaultLimits())
		defer stop()
		acquire(t, gate)
		acquire(t, gate)
		done := make(chan struct{})
		go func() {
			acquire(t, gate)
			close(done)
		}()
		synctest.Wait()
		limits := admission.DefaultLimits()
		limits.Executing = 3
		if err := gate.SetLimits(limits); err != nil {
			t.Fatal(err)
		}
		<-done
		limits.Executing, limits.Wait = 1, 5*time.Second
		if err := errors.Join(gate.SetLimits(limits)); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := gate.Acquire(t.Context(), admission.LaneClient); !rejected(err, admission.QueueTimeout) || time.Since(start) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		limits.Executing = 0
		if err := gate.SetLimits(limits); err == nil {
			t.Error("no permits: accepted")
		}
	})
}

// Background work is announced once, waits while it is paused, and clients pass it.
func TestPausedBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, stop := runGate(t, admission.DefaultLimits())
		defer stop()
		acquire(t, gate).Release(admission.Served)
		select {
		case <-gate.Background():
			t.Error("a client is announced as background work")
		default:
		}
		gate.PauseBackground(true)
		var granted atomic.Int64
		for range 2 {
			go func() {
				permit, err := gate.Acquire(t.Context(), admission.LaneBackground)
				if err != nil {
					t.Error(err)
					return
				}
				granted.Add(1)
				permit.Release(admission.Served)
			}()
		}
		synctest.Wait()
		<-gate.Background()
		time.Sleep(time.Hour)
		acquire(t, gate).Release(admission.Served)
		if n := granted.Load(); n != 0 || gate.BackgroundWork() != 2 || !gate.Stats().BackgroundPaused {
			t.Errorf("%d granted, %d at work, %+v", n, gate.BackgroundWork(), gate.Stats())
		}
		gate.PauseBackground(false)
		synctest.Wait()
		if n := granted.Load(); n != 2 || gate.BackgroundWork() != 0 {
			t.Errorf("resumed: %d granted, %d at work", n, gate.BackgroundWork())
		}
		select {
		case <-gate.Background():
			t.Error("announced twice")
		default:
		}
	})
}

func BenchmarkAcquireRelease(b *testing.B) {
	gate, stop := runGate(b, admission.DefaultLimits())
	defer stop()
	for b.Loop() {
		permit, err := gate.Acquire(b.Context(), admission.LaneClient)
		if err != nil {
			b.Fatal(err)
		}
		permit.Release(admission.Served)
	}
}

// 64 callers at once: what a hand-over through the queue costs.
func BenchmarkAcquireReleaseContended(b *testing.B) {
	gate, stop := runGate(b, admission.DefaultLimits())
	defer stop()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			permit, err := gate.Acquire(b.Context(), admission.LaneClient)
			if err != nil {
				b.Error(err)
				return
			}
			permit.Release(admission.Served)
		}
	})
}
