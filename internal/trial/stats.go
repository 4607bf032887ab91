package trial

import (
	"math"
	"slices"
	"time"

	"github.com/ondol-app/ondol/internal/vector"
)

// Percentile is the p-th percentile (0 < p ≤ 100) of samples by nearest rank:
// the smallest sample that at least p percent of all are not above. It is
// always a sample, never between two. ok is false when there is none.
func Percentile(samples []time.Duration, p float64) (value time.Duration, ok bool) {
	if len(samples) == 0 {
		return 0, false
	}
	sorted := slices.Sorted(slices.Values(samples))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1], true
}

// row sums one step of one path up.
func row(path string, step Step, samples []Sample, elapsed time.Duration, longestWait *time.Duration) Row {
	r := Row{Path: path, Step: step, Tokens: step.Size.Tokens(), ElapsedMS: ms(elapsed), Outcomes: map[Outcome]int{}}
	var times []time.Duration
	for _, s := range samples {
		r.Outcomes[s.Outcome]++
		if s.Finite {
			r.Finite++
		}
		if s.Outcome != OK {
			continue
		}
		times = append(times, s.took)
		r.Dimension = s.Dimension
		r.NormMin, r.NormMax = widen(r.NormMin, s.Norm, math.Min), widen(r.NormMax, s.Norm, math.Max)
	}
	r.OK = len(times)
	if p50, ok := Percentile(times, 50); ok {
		p95, _ := Percentile(times, 95)
		r.P50MS, r.P95MS, r.MaxMS = number(ms(p50)), number(ms(p95)), number(ms(slices.Max(times)))
	}
	if longestWait != nil {
		r.LongestWaitMS = number(ms(*longestWait))
	}
	if seconds := elapsed.Seconds(); seconds > 0 {
		r.RequestsPerSecond = float64(r.OK) / seconds
		r.TokensPerSecond = float64(r.OK*r.Tokens) / seconds
	}
	return r
}

func widen(bound, x *float64, choose func(a, b float64) float64) *float64 {
	if bound == nil {
		return x
	}
	return number(choose(*bound, *x))
}

// ms is milliseconds, to a microsecond.
func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func number(x float64) *float64 { return &x }

// equalWithin is how far two components may differ to count as equal.
const equalWithin = 1e-6

// agree compares what two paths made of the same texts; a text that either
// has no valid vector of is left out. minCosine is what tells them apart;
// nil = nothing does.
func agree(a, b string, ofA, ofB [][]float32, minCosine *float64) Agreement {
	result := Agreement{Paths: [2]string{a, b}, RequiredCosine: minCosine}
	for i := range ofA {
		x, y := ofA[i], ofB[i]
		if x == nil || y == nil {
			continue
		}
		result.Compared++
		if len(x) != len(y) {
			result.Different++
			continue
		}
		cosine, apart := cosine(x, y), furthest(x, y)
		result.MinCosine = widen(result.MinCosine, number(cosine), math.Min)
		result.MaxDifference = widen(result.MaxDifference, number(apart), math.Max)
		if apart <= equalWithin {
			result.Equal++
		}
		if minCosine != nil && !(cosine >= *minCosine) {
			result.Different++
		}
	}
	return result
}

// cosine in float64: 0.9999 is judged, so the sum must not lose it.
func cosine(a, b []float32) float64 {
	var dot float64
	for i, x := range a {
		dot += float64(x) * float64(b[i])
	}
	return dot / (vector.Norm(a) * vector.Norm(b))
}

// furthest is the largest difference of two components.
func furthest(a, b []float32) float64 {
	most := 0.0
	for i, x := range a {
		most = max(most, math.Abs(float64(x)-float64(b[i])))
	}
	return most
}
