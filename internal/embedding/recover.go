package embedding

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/ondol-app/ondol/internal/canary"
	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/trust"
	"github.com/ondol-app/ondol/internal/vector"
)

// Events of this package.
const (
	KindInvalid  event.Kind = "vector.invalid"  // reason
	KindPoisoned event.Kind = "engine.poisoned" // generation, cause
	KindHang     event.Kind = "engine.hang"     // generation, cause
)

// givenUp is the newest generation that is not to be believed any more.
type givenUp struct {
	generation uint64
	code       string
}

// giveUp ends the instance and returns when its process is gone. However many
// come to that, one tells of it. What they had sent is named, not shown.
func (s *Service) giveUp(instance Instance, code, cause string, inputs []*flight) {
	s.mu.Lock()
	first := instance.Generation > s.given.generation
	if first {
		s.given = givenUp{instance.Generation, code}
	}
	s.mu.Unlock()
	if first {
		kind := KindPoisoned
		if code == trust.FaultHang {
			kind = KindHang
		}
		s.notify(event.New(kind, "generation", strconv.FormatUint(instance.Generation, 10), "cause", cause))
	}
	fault := trust.Fault{Code: code, Cause: cause, Inputs: inputsOf(inputs)}
	if err := s.engine.Replace(s.stopping, instance.Generation, fault); err != nil {
		s.logger.Error("Replace the engine", slog.String("cause", cause),
			slog.Uint64("generation", instance.Generation), slog.Any("error", err))
	}
}

func (s *Service) givenUp(generation uint64) bool { return s.givenUpFor(generation) != "" }

// givenUpFor is why the generation was given up; empty if it was not.
func (s *Service) givenUpFor(generation uint64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given.generation == 0 || generation > s.given.generation {
		return ""
	}
	return s.given.code
}

// endWait is how long the end of an engine may take to be known after the call
// that broke by it.
const endWait = 2 * time.Second

// endOf is how the instance of that generation ended, for a call that failed
// with err. What broke the connection is known a moment later.
func (s *Service) endOf(ctx context.Context, generation uint64, err error) trust.End {
	ctx, cancel := context.WithTimeout(ctx, endWait)
	defer cancel()
	changed, stop := s.engine.Changed()
	defer stop()
	for {
		end := s.engine.End(generation)
		if end != trust.EndNone || errors.As(err, new(*llamaclient.StatusError)) {
			return end
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return s.engine.End(generation)
		case <-s.stopping.Done():
			return trust.EndNone
		}
	}
}

// next waits for an instance after generation. The error is the cause of ctx's
// end, or an *UnavailableError when none is on its way.
func (s *Service) next(ctx context.Context, generation uint64) (Instance, error) {
	changed, stop := s.engine.Changed()
	defer stop()
	for {
		instance, err := s.current()
		if err == nil && instance.Asleep {
			s.engine.Wake()
		} else if err == nil && instance.Generation > generation {
			return instance, nil
		}
		var away *UnavailableError
		if errors.As(err, &away) && away.Final {
			return Instance{}, away
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Instance{}, context.Cause(ctx)
		case <-s.stopping.Done():
			return Instance{}, &UnavailableError{State: "stopping"}
		}
	}
}

// present is the instance to use now. A request that is on its way already
// waits for one that takes the place of one that broke or was given up, as long
// as it may wait for a permit; one that just comes is told at once that there
// is none.
func (a *asking) present(ctx context.Context) (Instance, error) {
	s := a.service
	instance, err := s.current()
	if err == nil || !a.underway {
		return instance, err
	}
	last := a.instance.Generation
	if end := s.engine.End(last); end.Blames() == "" && end != trust.EndReplaced && !s.givenUp(last) {
		return instance, err // a person stopped it, or nobody knows
	}
	ctx, cancel := context.WithDeadlineCause(ctx, a.arrived.Add(s.queueWait()), err)
	defer cancel()
	return s.next(ctx, last)
}

// tellInvalid says that an input was refused for its vector.
func (s *Service) tellInvalid(reason vector.Reason) {
	s.notify(event.New(KindInvalid, "reason", reason.String()))
}

// computed counts valid vectors and makes a check due when there were enough.
func (s *Service) computed(n int) {
	if s.sinceCheck.Add(int64(n)) >= int64(s.every) {
		s.sinceCheck.Store(0)
		s.due()
	}
}

// due asks for a check of the engine as soon as there is a turn.
func (s *Service) due() {
	select {
	case s.kick <- struct{}{}:
	default: // one is due already
	}
}

// upkeep makes the checks that are due until ctx ends.
func (s *Service) upkeep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.kick:
			if now, err := s.current(); err == nil && now.Asleep {
				continue // it is checked when it is started
			}
		case <-s.vigil.kick:
			if !s.mustCheck() {
				continue // done meanwhile
			}
		}
		if err := s.Recheck(ctx); err != nil && ctx.Err() == nil {
			s.logger.Warn("Check of the engine", slog.Any("error", err))
		}
	}
}

// mustCheck says whether the present engine is in doubt.
func (s *Service) mustCheck() bool {
	now, err := s.current()
	if err != nil || now.Asleep {
		return false
	}
	_, doubted := s.vigil.doubts(now)
	return doubted
}

// Recheck looks with canaries whether the engine is still sound, and gives it
// up if not. Each step takes a permit like a request, the next that is free;
// between the steps requests are served. Only two calls at once, and a step
// repeated because it failed in company, have the engine to themselves: for
// that, requests wait for the end of the call under way. After the machine woke
// it takes no permits, and requests wait for its end. A service without a
// Checker checks nothing; an engine that is asleep is started for it.
func (s *Service) Recheck(ctx context.Context) error {
	s.sinceCheck.Store(0)
	if s.checker == nil {
		return nil
	}
	if err := s.awake(ctx, time.Now()); err != nil {
		return err
	}
	instance, err := s.current()
	if err != nil {
		return err
	}
	defer s.vigil.over()
	woke := s.vigil.woke() // what sleeps follow are not covered
	result, err := s.checker.Recheck(ctx, instance.Generation, s.turn)
	if err != nil {
		s.unchecked(ctx, instance, err)
		return err
	}
	if !result.OK() && (result.Code != canary.Together || result.Poisoned) {
		s.giveUp(instance, result.Code.String(), "the canary "+result.Text+" fails", nil)
		return nil
	}
	if s.vigil.found(instance, woke) {
		s.notify(event.New(KindSound, "generation", strconv.FormatUint(instance.Generation, 10)))
	}
	return nil
}

// unchecked gives an engine up that could not be checked though it must be.
func (s *Service) unchecked(ctx context.Context, instance Instance, cause error) {
	now, err := s.current()
	if ctx.Err() != nil || err != nil || now.Generation != instance.Generation {
		return
	}
	if _, doubted := s.vigil.doubts(instance); doubted {
		s.giveUp(instance, trust.FaultHang, "it cannot be checked after the machine woke: "+cause.Error(), nil)
	}
}

func (s *Service) turn(ctx context.Context, alone bool) (func(), error) {
	release, err := s.upkeepPermit(ctx)
	if err != nil {
		return nil, err
	}
	visit, err := s.crew.enter(ctx, alone)
	if err != nil {
		release()
		return nil, err
	}
	return func() {
		visit.leave()
		release()
	}, nil
}
