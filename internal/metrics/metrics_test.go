package metrics_test

import (
	"encoding/json"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/metrics"
)

func TestHistogram(t *testing.T) {
	h := metrics.NewHistogram([]float64{.1, 1, 10})
	for _, d := range []time.Duration{-time.Second, 100 * time.Millisecond, 101 * time.Millisecond, time.Second, 5 * time.Second, time.Minute} {
		h.Observe(d)
	}
	got := h.Snapshot()
	// A duration equal to a bound is within it.
	want := metrics.Snapshot{Buckets: []metrics.Bucket{{LE: .1, Count: 2}, {LE: 1, Count: 4}, {LE: 10, Count: 5}}, Count: 6, Sum: 66.201}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
	if _, err := json.Marshal(got); err != nil {
		t.Errorf("snapshot as JSON: %v", err)
	}
}

func TestQuantile(t *testing.T) {
	h := metrics.NewHistogram([]float64{1, 2, 4})
	if got := h.Snapshot().Quantile(.5); got != 0 {
		t.Errorf("median of nothing = %v", got)
	}
	for range 10 {
		h.Observe(1500 * time.Millisecond)
	}
	if got := h.Snapshot().Quantile(.5); got != 1.5 {
		t.Errorf("median = %v, want the middle of its bucket", got)
	}
	for range 100 {
		h.Observe(time.Minute)
	}
	if got := h.Snapshot().Quantile(.99); got != 4 {
		t.Errorf("p99 = %v, want the last bound", got)
	}
}

func TestHistogramConcurrently(t *testing.T) {
	h := metrics.NewHistogram(metrics.DurationBounds())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 1000 {
				h.Observe(time.Duration(i) * time.Millisecond)
				if s := h.Snapshot(); s.Buckets[len(s.Buckets)-1].Count > s.Count {
					t.Error("a bucket above the total")
				}
			}
		})
	}
	wg.Wait()
	if got := h.Snapshot().Count; got != 8000 {
		t.Errorf("count = %d, want 8000", got)
	}
}

func TestBoundsMustRise(t *testing.T) {
	for _, bounds := range [][]float64{{1, 1}, {2, 1}, {math.NaN()}, {math.Inf(1)}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("NewHistogram(%v) accepted", bounds)
				}
			}()
			metrics.NewHistogram(bounds)
		}()
	}
}
