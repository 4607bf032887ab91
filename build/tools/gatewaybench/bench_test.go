package main

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// line is n requests that come 200 ms apart to two permits of one second each,
// served in the order of pick.
func line(n int, pick func(waiting []int) int) []exchange {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	all := make([]exchange, n)
	for i := range all {
		began := start.Add(time.Duration(i) * 200 * time.Millisecond)
		all[i] = exchange{outcome: served, began: began, wrote: began.Add(time.Millisecond)}
	}
	var free [2]time.Time
	var waiting []int
	for next := 0; next < n || len(waiting) > 0; {
		permit := 0
		if free[1].Before(free[0]) {
			permit = 1
		}
		for next < n && (len(waiting) == 0 || !all[next].wrote.After(free[permit])) {
			waiting = append(waiting, next)
			next++
		}
		at := pick(waiting)
		x := &all[waiting[at]]
		waiting = slices.Delete(waiting, at, at+1)
		grant := x.wrote
		if free[permit].After(grant) {
			grant = free[permit]
		}
		x.first = grant.Add(time.Second)
		free[permit] = x.first
	}
	return all
}

func TestOvertakersTellsAQueueFromAHeap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	for _, tt := range []struct {
		name   string
		pick   func([]int) int
		orders bool
	}{
		{"first in, first out", func([]int) int { return 0 }, true},
		{"last in, first out", func(w []int) int { return len(w) - 1 }, false},
		{"any", func(w []int) int { return random.IntN(len(w)) }, false},
	} {
		worst := slices.Max(overtakers(line(100, tt.pick)))
		if got := worst <= mostOvertakers; got != tt.orders {
			t.Errorf("%s: at most %d overtakers, in order: %v, want %v", tt.name, worst, got, tt.orders)
		}
	}
}

func TestQuantiles(t *testing.T) {
	var s samples
	for i := range 100 {
		s = append(s, time.Duration(100-i))
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := s.at(q); got != want {
			t.Errorf("at(%v) = %d, want %d", q, got, want)
		}
	}
	if got := (samples{}).max(); got != 0 {
		t.Errorf("of none: %v", got)
	}
}

func TestLengthOf(t *testing.T) {
	for header, want := range map[string]int{
		"HTTP/1.1 200 OK\r\nContent-Length: 1207\r\nX: y\r\n": 1207,
		"HTTP/1.1 200 OK\r\nContent-Length: 12":               -1,
		"HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n":           -1,
		"HTTP/1.1 200 OK\r\n":                                 -1,
	} {
		got, ok := lengthOf([]byte(header))
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q: %d, want %d", header, got, want)
		}
	}
}
