// Package ratelimit slows callers down to a steady pace.
package ratelimit

import (
	"sync"
	"time"
)

// Bucket is a token bucket: it fills at a steady rate and never holds more than its capacity.
type Bucket struct {
	mu       sync.Mutex
	capacity float64
	perSec   float64
	tokens   float64
	last     time.Time
}

// New returns a full bucket.
func New(capacity, perSec float64, now time.Time) *Bucket {
	return &Bucket{capacity: capacity, perSec: perSec, tokens: capacity, last: now}
}

// TryTake removes one token and reports whether there was one.
func (b *Bucket) TryTake(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = min(b.capacity, b.tokens+now.Sub(b.last).Seconds()*b.perSec)
	b.last = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
