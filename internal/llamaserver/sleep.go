package llamaserver

import (
	"context"
	"errors"
	"time"
)

// ErrInUse says that an engine was used meanwhile, and is not unloaded.
var ErrInUse = errors.New("the engine is in use")

// Unused is since when the ready engine has had no call; false while it has
// one, and when none is ready.
func (s *Server) Unused() (since time.Time, ok bool) {
	c := s.current.Load()
	if c.instance == nil || c.status.State != Ready {
		return time.Time{}, false
	}
	activity := c.instance.Client.Activity()
	return activity.Last, activity.Calls == 0
}

// Unload ends the ready engine if it has had no call since then, until somebody
// wakes it, and returns when its exit was seen. ErrInUse is no failure.
func (s *Server) Unload(ctx context.Context, since time.Time) error {
	return s.send(ctx, request{event: event{kind: eventUnload}, unusedSince: since})
}

// Wake starts an engine that was unloaded, and returns at once; whoever asks
// for that at the same time is one with the first. Any other stays as it is.
func (s *Server) Wake() {
	select {
	case s.wake <- struct{}{}:
	default: // it is about to be
	}
}

// Awaken is Wake, and waits until an engine is ready. The error is a
// *NotReadyError when none is on its way, or the cause of ctx's end.
func (s *Server) Awaken(ctx context.Context) error {
	changed, stop := s.Changed()
	defer stop()
	for {
		_, err := s.Current()
		away, ok := errors.AsType[*NotReadyError](err)
		if !ok || away.Asleep == nil {
			return err
		}
		s.Wake()
		select {
		case <-changed:
		case <-s.closed:
			return ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
