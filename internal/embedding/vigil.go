package embedding

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/llamaclient"
)

// KindSound tells that the engine was found sound after the machine woke:
// generation.
const KindSound event.Kind = "engine.sound"

// vigil is kept after the machine woke: what the engine makes from then on is
// believed by nobody until it was found sound. Doubt begins with the first that
// asks after a sleep, which is every call of an engine, before and after.
type vigil struct {
	woke func() time.Time // when the machine woke last; zero = it has not slept
	kick chan struct{}    // 1-buffered: somebody doubts

	mu         sync.Mutex
	generation uint64             // guarded by mu; that was found sound
	asOf       time.Time          // guarded by mu; after this waking
	news       chan struct{}      // guarded by mu; closed, and replaced, when a check has ended
	calm       context.Context    // guarded by mu; ends when doubt begins
	stir       context.CancelFunc // ends calm
}

func newVigil(woke func() time.Time) *vigil {
	if woke == nil {
		woke = func() time.Time { return time.Time{} }
	}
	v := &vigil{woke: woke, kick: make(chan struct{}, 1), news: make(chan struct{})}
	v.calm, v.stir = context.WithCancel(context.Background())
	return v
}

// doubts says whether the machine slept since the instance was found sound. If
// so a check is due, and news is closed when one has ended.
func (v *vigil) doubts(i Instance) (news <-chan struct{}, doubted bool) {
	woke := v.woke()
	if woke.IsZero() || !woke.After(i.Checked) {
		return nil, false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.generation == i.Generation && !woke.After(v.asOf) {
		return nil, false
	}
	v.stir()
	select {
	case v.kick <- struct{}{}:
	default: // a check is due already
	}
	return v.news, true
}

// found takes down that the instance was sound after the machine woke then. It
// says whether that was news.
func (v *vigil) found(i Instance, woke time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.generation == i.Generation && !woke.After(v.asOf) || !woke.After(i.Checked) {
		return false
	}
	v.generation, v.asOf = i.Generation, woke
	return true
}

// over has everybody look again after a check.
func (v *vigil) over() {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.news)
	v.news = make(chan struct{})
	if v.calm.Err() != nil {
		v.calm, v.stir = context.WithCancel(context.Background())
	}
}

// whenDoubted has f called as soon as there is doubt, until stop.
func (v *vigil) whenDoubted(f func()) (stop func() bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return context.AfterFunc(v.calm, f)
}

// believe waits until the instance need not be doubted. Errors: the cause of
// ctx's end; one that isLost knows when the instance is gone, or given up.
func (s *Service) believe(ctx context.Context, i Instance) error {
	for {
		news, doubted := s.vigil.doubts(i)
		if !doubted {
			return nil
		}
		if now, err := s.current(); err != nil || now.Asleep || now.Generation != i.Generation || s.givenUp(i.Generation) {
			return fmt.Errorf("the engine was not found sound after the machine woke: %w", llamaclient.ErrBroken)
		}
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.stopping.Done():
			return &UnavailableError{State: "stopping"}
		}
	}
}

// Doubt has the engine checked now if the machine slept since it was last, so
// that it need not be when the next request comes.
func (s *Service) Doubt() {
	s.mustCheck()
}

// upkeepPermit is a permit for a step of a check, and what gives it back. In
// doubt it is none: those who wait for the check to end hold them all.
func (s *Service) upkeepPermit(ctx context.Context) (release func(), err error) {
	calm, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := s.vigil.whenDoubted(cancel)
	defer stop()
	permit, err := s.gate.Acquire(calm, admission.LaneUpkeep)
	switch {
	case err == nil:
		return func() { permit.Release(admission.Uncounted) }, nil
	case ctx.Err() == nil && calm.Err() != nil:
		return func() {}, nil
	}
	return nil, err
}
