package indexer

import (
	"math"
	"sync"
	"time"
)

const (
	// speedFade is the time after which a measurement counts half as much.
	speedFade = time.Minute
	// speedSilence is the time without progress after which nothing is foretold.
	speedSilence = 2 * time.Minute
)

// speeds is how fast the vectors of each kind are being made.
type speeds struct {
	mu  sync.Mutex
	all map[string]*speed // by fingerprint; guarded by mu
}

// speed is texts and the time they took, both fading.
type speed struct {
	texts, seconds float64
	last           time.Time
}

func newSpeeds() *speeds { return &speeds{all: make(map[string]*speed)} }

// observe notes that n more texts had their vectors at the moment now. The
// time since the one before is what they took, waiting included.
func (s *speeds) observe(fingerprint string, n int, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.all[fingerprint]
	if v == nil || now.Sub(v.last) > speedSilence {
		s.all[fingerprint] = &speed{last: now}
		return
	}
	took := now.Sub(v.last)
	fade := math.Exp2(-float64(took) / float64(speedFade))
	v.texts, v.seconds, v.last = v.texts*fade+float64(n), v.seconds*fade+took.Seconds(), now
}

// left is about how long so many texts will take; false where nobody knows.
func (s *speeds) left(fingerprint string, missing int64, now time.Time) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.all[fingerprint]
	if v == nil || missing == 0 || v.texts == 0 || now.Sub(v.last) > speedSilence {
		return 0, false
	}
	seconds := float64(missing) * v.seconds / v.texts
	return time.Duration(min(seconds, 1e9) * float64(time.Second)), true
}
