package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// report prints figures and counts the bounds that do not hold.
type report struct{ failed int }

func (r *report) title(format string, args ...any) { fmt.Printf("\n"+format+"\n", args...) }

// note is a figure without a bound.
func (r *report) note(name, format string, args ...any) {
	fmt.Printf("  %-34s %s\n", name, fmt.Sprintf(format, args...))
}

// bound is a figure with one.
func (r *report) bound(name string, holds bool, bound, format string, args ...any) {
	fmt.Printf("  %-34s %-44s %s (%s)\n", name, fmt.Sprintf(format, args...), r.verdict(holds), bound)
}

func (r *report) verdict(holds bool) string {
	if holds {
		return "PASS"
	}
	r.failed++
	return "FAIL"
}

// samples are times of one kind.
type samples []time.Duration

// at is the smallest sample that the share q of all does not exceed; 0 when
// there is none.
func (s samples) at(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}

func (s samples) max() time.Duration { return s.at(1) }

func ms(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}

func us(d time.Duration) string {
	return fmt.Sprintf("%.0f µs", float64(d)/float64(time.Microsecond))
}
