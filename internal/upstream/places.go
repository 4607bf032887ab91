package upstream

import (
	"context"
	"fmt"
	"time"
)

// places are the connections that may be open at once, one for each exchange
// under way: the second of the five mechanisms.
type places struct {
	taken chan struct{} // cap is Limits.MaxConns
	wait  time.Duration
}

func newPlaces(limits Limits) places {
	return places{taken: make(chan struct{}, limits.MaxConns), wait: limits.PoolWait}
}

// enter takes one of the places; leave gives it back.
func (p places) enter(ctx context.Context) error {
	select {
	case p.taken <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(p.wait)
	defer timer.Stop()
	select {
	case p.taken <- struct{}{}:
		return nil
	case <-timer.C:
		return fmt.Errorf("%w (%v)", ErrPoolWait, p.wait)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p places) leave() { <-p.taken }
