package relay

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/ondol-app/ondol/internal/upstream"
)

// How long to wait between two questions whether the engine still computes:
// it looks for a caller that left once a second.
const (
	askMin = 100 * time.Millisecond
	askMax = time.Second
)

// live are the streams whose reply has begun and not ended: each of them is
// known to hold a slot of the engine.
type live struct {
	mu      sync.Mutex
	streams map[*exchange]struct{} // guarded by mu
}

func (l *live) add(e *exchange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams[e] = struct{}{}
}

func (l *live) remove(e *exchange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.streams, e)
}

// since returns a function that counts the streams of that generation that
// were live all the time from now on.
func (l *live) since(generation uint64) func() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	var then []*exchange
	for e := range l.streams {
		if e.instance.Generation == generation {
			then = append(then, e)
		}
	}
	return func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		still := 0
		for _, e := range then {
			if _, ok := l.streams[e]; ok {
				still++
			}
		}
		return still
	}
}

// settle returns when the engine is known to have dropped the exchange's work,
// or is gone. cause is why the exchange was given up.
func (e *exchange) settle(cause error) {
	r := e.relay
	teller, tells := e.instance.Client.(Teller)
	if !tells {
		// A remote engine that did not answer in time is looked at anew
		// before anybody else is sent there.
		if timeout := (*upstream.TimeoutError)(nil); errors.As(cause, &timeout) {
			e.replace(timeout.Error())
		}
		return
	}
	ctx, cancel := context.WithTimeout(r.stopping, r.config.Settle)
	defer cancel()
	for pause := askMin; ; pause = min(2*pause, askMax) {
		if e.settled(ctx, teller) {
			return
		}
		select {
		case <-time.After(pause):
			continue
		case <-ctx.Done():
		}
		if r.stopping.Err() == nil {
			e.replace("abandoned work does not end: " + cause.Error())
		}
		return
	}
}

// settled asks once. Only streams that were seen at work before and after the
// question explain a busy slot: any other may be the one in question.
func (e *exchange) settled(ctx context.Context, teller Teller) bool {
	known := e.relay.live.since(e.instance.Generation)
	busy, err := teller.Busy(ctx)
	switch {
	case err == nil:
		return busy <= known()
	case errors.Is(err, upstream.ErrConnect):
		return true // nobody listens there any more
	}
	now, err := e.relay.current()
	return err == nil && now.Generation != e.instance.Generation
}

func (e *exchange) replace(cause string) {
	r := e.relay
	if err := r.config.Engine.Replace(r.stopping, e.instance.Generation, cause); err != nil && r.stopping.Err() == nil {
		r.config.Logger.Error("Replace an engine that does not end its work",
			slog.String("role", r.config.Role.String()), slog.Uint64("generation", e.instance.Generation), slog.Any("error", err))
	}
}
