package llamaserver

import (
	"testing"
	"time"
)

func TestSilence(t *testing.T) {
	const limit = 60 * time.Second
	type look struct {
		after time.Duration // the look before
		signs signs
	}
	at := func(after time.Duration, working int, done, lines uint64, worked time.Duration) look {
		return look{after, signs{working, done, lines, worked}}
	}
	for _, tt := range []struct {
		name  string
		looks []look
		hangs bool // at the last look; at none before
	}{
		{"no sign", []look{at(0, 1, 5, 9, 0), at(30*time.Second, 1, 5, 9, 0), at(30*time.Second, 1, 5, 9, 0)}, true},
		{"health checks alone take processor time", []look{at(0, 1, 5, 9, 0), at(30*time.Second, 1, 5, 9, 100*time.Millisecond), at(30*time.Second, 1, 5, 9, 199*time.Millisecond)}, true},
		{"nothing to do", []look{at(0, 0, 5, 9, 0), at(time.Hour, 0, 5, 9, 0)}, false},
		{"a call has just begun", []look{at(0, 0, 5, 9, 0), at(time.Hour, 1, 5, 9, 0)}, false},
		{"it computes", []look{at(0, 1, 5, 9, 0), at(59*time.Second, 1, 5, 9, 200*time.Millisecond), at(59*time.Second, 1, 5, 9, 400*time.Millisecond)}, false},
		{"it answers", []look{at(0, 2, 5, 9, 0), at(59*time.Second, 2, 6, 9, 0), at(59*time.Second, 2, 6, 9, 0)}, false},
		{"it says something", []look{at(0, 1, 5, 9, 0), at(59*time.Second, 1, 5, 10, 0), at(59*time.Second, 1, 5, 10, 0)}, false},
		{"processor time is not known", []look{at(0, 1, 5, 9, -1), at(time.Hour, 1, 5, 9, -1), at(time.Hour, 1, 5, 9, -1)}, false},
		{"it falls silent", []look{at(0, 1, 5, 9, 0), at(59*time.Second, 1, 5, 9, time.Second), at(59*time.Second, 1, 5, 9, time.Second), at(time.Second, 1, 5, 9, time.Second)}, true},
	} {
		s, now := silence{limit: limit}, began
		for i, l := range tt.looks {
			now = now.Add(l.after)
			last := i == len(tt.looks)-1
			lasted, hangs := s.step(l.signs, now)
			if hangs != (tt.hangs && last) || hangs && lasted < limit {
				t.Errorf("%s: look %d: silent for %v, hangs %v", tt.name, i, lasted, hangs)
			}
		}
	}
}
