package embedding

import (
	"context"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/ondol-app/ondol/internal/admission"
)

// Counting tokens takes none of the engine's slots and so needs no permit, but
// it takes its threads: eighty texts of 2 MB counted at once kept llama-server
// from answering anybody for two minutes. So counting has a queue of its own,
// bounded like the gate's, and a text far beyond the limit is not counted to
// its end.
const (
	maxCounting        = 2  // counts at the engine at once
	maxCountingWaiting = 64 // clients that wait for their turn
	countingWait       = 2 * time.Minute
	hugeText           = 256 << 10 // bytes from which a text is counted piece by piece
	pieceBytes         = 64 << 10
)

// turnstile lets maxCounting through at a time, first come first served (the
// runtime wakes the senders of a channel in order).
type turnstile struct {
	turns   chan struct{}
	waiting atomic.Int32
}

func newTurnstile() *turnstile { return &turnstile{turns: make(chan struct{}, maxCounting)} }

// take waits for a turn and returns what gives it back. A client's wait is
// bounded in number and time (*admission.RejectedError); background work waits
// as long as it takes.
func (t *turnstile) take(ctx context.Context, lane admission.Lane) (done func(), err error) {
	done = func() { <-t.turns }
	select {
	case t.turns <- struct{}{}:
		return done, nil
	default:
	}
	var expired <-chan time.Time
	if lane != admission.LaneBackground {
		defer t.waiting.Add(-1)
		if t.waiting.Add(1) > maxCountingWaiting {
			return nil, &admission.RejectedError{Reason: admission.QueueFull, RetryAfter: time.Second}
		}
		timer := time.NewTimer(countingWait)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case t.turns <- struct{}{}:
		return done, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-expired:
		return nil, &admission.RejectedError{Reason: admission.QueueTimeout, RetryAfter: time.Second}
	}
}

// countUpTo counts text, but a huge one only until it has surely more than
// limit tokens; then exact is false and tokens are a lower bound. The caller
// has a turn.
func (s *Service) countUpTo(ctx context.Context, instance Instance, text string, limit int) (tokens int, exact bool, err error) {
	for rest := text; len(text) > hugeText && rest != ""; {
		piece := beginning(rest)
		rest = rest[len(piece):]
		counts, err := s.ask(ctx, instance, []string{piece})
		if err != nil {
			return 0, false, err
		}
		// Each piece has special tokens of its own, and a cut may make one more.
		if tokens += max(0, counts[0]-maxSpecialTokens-1); tokens > limit {
			return tokens, false, nil
		}
	}
	counts, err := s.ask(ctx, instance, []string{text})
	if err != nil {
		return 0, false, err
	}
	return counts[0], true, nil
}

// beginning is the first pieceBytes of text, cut after white space where there
// is any, else between two runes.
func beginning(text string) string {
	if len(text) <= pieceBytes {
		return text
	}
	if space := strings.LastIndexAny(text[:pieceBytes], " \n\t"); space > 0 {
		return text[:space+1]
	}
	end := pieceBytes
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	if end == 0 {
		end = pieceBytes // not UTF-8 at all
	}
	return text[:end]
}
