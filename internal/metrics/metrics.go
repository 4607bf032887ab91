// Package metrics counts and measures what the parts do, for the status
// snapshot and the Prometheus page.
//
// Any package may import it; it imports nothing of ours. It starts no
// goroutine, knows no names and no registry: the part that owns a figure
// holds it as a field and hands out snapshots. Everything is safe for
// concurrent use.
package metrics

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// Histogram counts durations in fixed buckets.
type Histogram struct {
	bounds []float64 // seconds, rising; constant after construction

	mu     sync.Mutex
	counts []uint64 // guarded by mu; one for each bound and one beyond the last
	sum    float64  // guarded by mu; seconds
}

// Bucket says how many observations were at most LE seconds (cumulative, as
// Prometheus has it).
type Bucket struct {
	LE    float64 `json:"le"`
	Count uint64  `json:"count"`
}

// Snapshot is a histogram at one moment. Observations above the last bucket
// are in Count alone.
type Snapshot struct {
	Buckets []Bucket `json:"buckets"`
	Count   uint64   `json:"count"`
	Sum     float64  `json:"sum"` // seconds
}

// DurationBounds are bucket bounds in seconds from 1 ms to 420 s, the longest
// a request may live (120 s of waiting and 300 s of work).
func DurationBounds() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 420}
}

// NewHistogram makes a histogram with the given bounds in seconds, which must
// be finite and strictly rising; it panics otherwise, because bounds are
// written in the code.
func NewHistogram(bounds []float64) *Histogram {
	for i, bound := range bounds {
		if math.IsNaN(bound) || math.IsInf(bound, 0) || i > 0 && bound <= bounds[i-1] {
			panic(fmt.Sprintf("metrics: bounds are not finite and rising: %v", bounds))
		}
	}
	return &Histogram{bounds: slices.Clone(bounds), counts: make([]uint64, len(bounds)+1)}
}

// Observe counts one duration; a negative one (a clock set back) counts as 0.
func (h *Histogram) Observe(d time.Duration) {
	seconds := max(d.Seconds(), 0)
	bucket, _ := slices.BinarySearch(h.bounds, seconds) // the first bound ≥ seconds
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[bucket]++
	h.sum += seconds
}

// Snapshot returns all figures of one moment.
func (h *Histogram) Snapshot() Snapshot {
	h.mu.Lock()
	defer h.mu.Unlock()
	snapshot := Snapshot{Buckets: make([]Bucket, len(h.bounds)), Sum: h.sum}
	for i, bound := range h.bounds {
		snapshot.Count += h.counts[i]
		snapshot.Buckets[i] = Bucket{LE: bound, Count: snapshot.Count}
	}
	snapshot.Count += h.counts[len(h.bounds)]
	return snapshot
}

// Quantile estimates the q-quantile (0 to 1) in seconds, linear within its
// bucket: 0 when nothing was observed, the last bound when it lies beyond.
func (s Snapshot) Quantile(q float64) float64 {
	if s.Count == 0 || len(s.Buckets) == 0 {
		return 0
	}
	rank := q * float64(s.Count)
	below, low := uint64(0), 0.0
	for _, bucket := range s.Buckets {
		if inside := bucket.Count - below; inside > 0 && float64(bucket.Count) >= rank {
			return low + (bucket.LE-low)*max(rank-float64(below), 0)/float64(inside)
		}
		below, low = bucket.Count, bucket.LE
	}
	return low
}

// Since is what was observed after an earlier snapshot of the same histogram;
// the zero Snapshot stands for its beginning.
func (s Snapshot) Since(before Snapshot) Snapshot {
	d := Snapshot{Buckets: make([]Bucket, len(s.Buckets)), Count: s.Count - before.Count, Sum: s.Sum - before.Sum}
	for i, bucket := range s.Buckets {
		if i < len(before.Buckets) {
			bucket.Count -= before.Buckets[i].Count
		}
		d.Buckets[i] = bucket
	}
	return d
}
