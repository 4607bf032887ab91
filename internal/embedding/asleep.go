package embedding

import (
	"context"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
)

// An engine that nobody used is unloaded, and known as it was: requests are
// planned, and answered from the cache, as if it were there. The first that
// needs it has it started, holds the gate, and waits for its permit like
// whoever comes after it: in order, 64 of them, 120 seconds each.

// rouse has the engine started if it is asleep, and waits for it in the queue.
// Paused background work only waits: whoever lets it go on has it started.
func (a *asking) rouse(ctx context.Context) error {
	s := a.service
	now, err := s.current()
	if err != nil || !now.Asleep {
		return nil // whoever needs it finds out
	}
	if a.lane != admission.LaneBackground || !s.gate.Stats().BackgroundPaused {
		s.engine.Wake()
	}
	s.minGate()
	if err := a.acquire(ctx); err != nil {
		return err
	}
	return s.awake(ctx, a.arrived)
}

// minGate holds the gate while the engine is asleep.
func (s *Service) minGate() {
	s.holding.Lock()
	defer s.holding.Unlock()
	now, err := s.current()
	s.gate.SetHeld(err == nil && now.Asleep)
}

// attend minds the gate until ctx ends.
func (s *Service) attend(ctx context.Context) {
	changed, stop := s.engine.Changed()
	defer stop()
	for {
		s.minGate()
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// awake has an engine that is asleep started, and waits until it is there, as
// long as a request that arrived then may wait for a permit. An error is the
// cause of ctx's end, a *admission.RejectedError, or says that none comes.
func (s *Service) awake(ctx context.Context, arrived time.Time) error {
	late := &admission.RejectedError{Reason: admission.QueueTimeout, RetryAfter: time.Second}
	ctx, cancel := context.WithDeadlineCause(ctx, arrived.Add(s.queueWait()), late)
	defer cancel()
	changed, stop := s.engine.Changed()
	defer stop()
	for {
		now, err := s.current()
		if err != nil || !now.Asleep {
			return err
		}
		s.engine.Wake()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.stopping.Done():
			return &UnavailableError{State: "stopping"}
		}
	}
}

// queueWait is how long a request may wait for a permit.
func (s *Service) queueWait() time.Duration {
	return time.Duration(s.gate.Stats().Limits.WaitMS) * time.Millisecond
}
