package llamaserver

import (
	"time"

	"github.com/ondol-app/ondol/internal/llamaclient"
)

// DefaultSilence is how long an engine with calls under way may give no sign
// of work. The longest that a sound one is silent is one batch computed by the
// GPU alone: 32768 tokens in one piece take more than a minute on a slow one.
const DefaultSilence = 2 * time.Minute

// busyStep is the processor time that counts as a sign of work. Answering a
// health check takes about a millisecond.
const busyStep = 200 * time.Millisecond

// signs is what can be seen of an engine's work without asking it: /health is
// answered by a thread that does nothing else, and /slots and /metrics not at
// all while a batch is computed, or while it hangs.
type signs struct {
	working int           // calls under way
	done    uint64        // calls that have ended
	lines   uint64        // of its log
	worked  time.Duration // processor time it took; negative = not known
}

// silence decides whether an engine hangs. It reads no clock.
type silence struct {
	limit time.Duration
	last  signs
	since time.Time // of last
}

// step takes the signs of now and says for how long there was none, and
// whether that is too long. Without work, or where the processor time is not
// known, nothing can be told.
func (s *silence) step(now signs, at time.Time) (lasted time.Duration, hangs bool) {
	if now.working == 0 || s.last.working == 0 || now.done != s.last.done || now.lines != s.last.lines ||
		now.worked < 0 || now.worked-s.last.worked >= busyStep {
		s.last, s.since = now, at
		return 0, false
	}
	lasted = at.Sub(s.since)
	return lasted, lasted >= s.limit
}

// look reads the signs of the process.
func (e *engine) look(pid int, client *llamaclient.Client) signs {
	activity := client.Activity()
	now := signs{working: activity.Working, done: activity.Done, lines: e.log.count(), worked: -1}
	if now.working == 0 {
		return now
	}
	if worked, err := e.config.Worked(pid); err == nil {
		now.worked = worked
	}
	return now
}
