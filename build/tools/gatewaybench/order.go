package main

import (
	"slices"
	"time"
)

// sameMoment is within how long two arrivals have no order that can be told
// from outside: the app sees them when its goroutines are scheduled, which the
// order of sending does not decide.
const sameMoment = 100 * time.Millisecond

// overtakers counts, for each served request, how many that began to be sent
// later than sameMoment after it had been sent whole were nevertheless
// answered before it.
//
// With a first-in-first-out queue before two permits that can only happen
// while the request executes: those that pass it do so on the other permit,
// one after the other. As all inputs are of one length, one or two fit into
// that time. A queue that lets a waiting request be overtaken shows as a
// count of many.
func overtakers(all []exchange) (counts []int) {
	byBegin := slices.SortedFunc(slices.Values(all), func(a, b exchange) int { return a.began.Compare(b.began) })
	for _, x := range byBegin {
		later, _ := slices.BinarySearchFunc(byBegin, x.wrote.Add(sameMoment), func(y exchange, at time.Time) int { return y.began.Compare(at) })
		n := 0
		for _, y := range byBegin[later:] {
			if y.first.Before(x.first) {
				n++
			}
		}
		counts = append(counts, n)
	}
	return counts
}

// mostOvertakers is the bound on overtakers.
const mostOvertakers = 2
