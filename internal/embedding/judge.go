package embedding

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/ondol-app/ondol/internal/canary"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/trust"
	"github.com/ondol-app/ondol/internal/vector"
)

// errAgain ends an exchange whose texts are to be asked for anew: the engine
// that came back makes other vectors.
var errAgain = errors.New("the engine changed under the request")

// finding is an engine call that brought no vectors.
type finding struct {
	call, rest []*flight // of the call, and those after it
	visit      *visit
	err        error
	elapsed    time.Duration // since the permit
}

// judge decides what follows a call that brought no vectors: the flights to go
// on with, or an error, which then has ended all flights of the exchange.
// design.md has the rule.
func (e *exchange) judge(ctx context.Context, f finding) ([]*flight, error) {
	s := e.service
	var invalid *vector.InvalidError
	switch {
	case errors.As(f.err, &invalid):
		return e.suspect(ctx, f, invalid)
	case ctx.Err() == nil && isLost(f.err):
		if left, err := e.bereaved(ctx, f); !errors.Is(err, errGone) {
			return left, err
		}
	}
	err := f.err
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	} else if long := new(llamaclient.ContextError); errors.As(err, &long) {
		err = e.tooLong(ctx, long, f.call)
	} else {
		err = s.translate(fmt.Errorf("embed: %w", err), f.elapsed)
	}
	why := takeoff
	var timeout *TimeoutError
	if errors.As(err, &timeout) {
		why = &failure{err: timeout} // the engine is being replaced; all have waited long
	}
	s.flights.fail(f.call, why)
	s.flights.fail(f.rest, why)
	return nil, err
}

// suspect looks whether the engine or the inputs are at fault for an invalid
// reply. It has the engine to itself for that.
func (e *exchange) suspect(ctx context.Context, f finding, invalid *vector.InvalidError) ([]*flight, error) {
	named, others := accused(f.call, invalid)
	others = append(others, f.rest...)
	verdict, err := e.look(ctx, f, named)
	switch {
	case err != nil:
		return nil, e.giveIn(err, f)
	case verdict == guilty:
		return e.convict(named[0], others, invalid.Problems[0]), nil
	case verdict == apart:
		e.apart = true
		return append(marked(named), others...), nil
	}
	return e.reboard(ctx, named, others)
}

// verdict is what a look at the engine after an invalid reply says.
type verdict string

const (
	guilty verdict = "guilty" // the one input named is at fault
	apart  verdict = "apart"  // the engine is sound: the inputs are to be tried one by one
	spoilt verdict = "spoilt" // the engine is given up; nobody knows yet for which input
)

func (e *exchange) look(ctx context.Context, f finding, named []*flight) (verdict, error) {
	s := e.service
	visit, err := s.crew.enter(ctx, true)
	if err != nil {
		return "", err
	}
	defer visit.leave()
	if s.givenUp(e.instance.Generation) {
		return spoilt, nil
	}
	sound := e.sound(ctx)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	// What was alone at the engine, and is alone in being invalid, is certain.
	certain := len(named) == 1 && !f.visit.metAny(visit)
	switch {
	case sound && certain && len(f.call) == 1:
		e.offend(ctx, named[0], trust.ReasonInvalid)
		return guilty, nil
	case sound:
		return apart, nil
	case certain: // the others of its call were still computed well
		e.condemn(ctx, named[0])
		return guilty, nil
	}
	s.giveUp(e.instance, trust.FaultPoisoned, "invalid vectors, and then an invalid probe", named)
	return spoilt, nil
}

// try is the trial of one suspect: alone at the engine, and followed by the
// probe whatever it brought. A *vector.InvalidError says that it is guilty.
func (e *exchange) try(ctx context.Context, suspect *flight, dim int) (vector.Embedding, error) {
	visit, err := e.service.crew.enter(ctx, true)
	if err != nil {
		return vector.Embedding{}, err
	}
	defer visit.leave()
	if e.service.givenUp(e.instance.Generation) {
		return vector.Embedding{}, llamaclient.ErrBroken // as it will be in a moment
	}
	e.visit, e.calling = visit, []*flight{suspect}
	embeddings, err := e.call(ctx, e.calling, dim)
	var invalid *vector.InvalidError
	if err != nil && !errors.As(err, &invalid) {
		return vector.Embedding{}, err
	}
	sound := e.sound(ctx)
	switch {
	case ctx.Err() != nil:
		return vector.Embedding{}, context.Cause(ctx)
	case !sound:
		e.condemn(ctx, suspect)
		if err == nil { // it looks well, and the engine is not after it
			err = &vector.InvalidError{Problems: []vector.Problem{{Index: 0, Reason: vector.ReasonPoison}}}
		}
		return vector.Embedding{}, err
	case err != nil:
		e.offend(ctx, suspect, trust.ReasonInvalid)
		return vector.Embedding{}, err
	}
	e.calling = nil
	e.service.quarantine.acquit(suspect.key)
	if e.apart {
		e.service.due() // invalid in company, valid alone: does the engine mix its inputs up?
	}
	return embeddings[0], nil
}

// condemn puts an input in quarantine after which the engine is not sound, and
// gives the engine up. The caller has it to itself.
func (e *exchange) condemn(ctx context.Context, guilty *flight) {
	e.service.arrest(ctx, guilty, trust.ReasonPoison)
	e.service.giveUp(e.instance, trust.FaultPoisoned, "an input after which the probe is invalid", []*flight{guilty})
}

// offend puts an input in quarantine that did this before.
func (e *exchange) offend(ctx context.Context, guilty *flight, reason trust.Reason) {
	if e.service.quarantine.offend(guilty.key) > 1 {
		e.service.arrest(ctx, guilty, reason)
	}
}

// convict ends the flight of an input that is at fault, and with it the
// exchange, once the other suspects have had their trial.
func (e *exchange) convict(guilty *flight, rest []*flight, problem vector.Problem) []*flight {
	e.service.flights.fail([]*flight{guilty}, &failure{reason: problem.Reason, whole: problem.Index == vector.WholeReply})
	e.service.tellInvalid(problem.Reason)
	e.lost = &vector.InvalidError{Problems: []vector.Problem{problem}}
	return rest
}

// hopeless says that the request is lost and nobody is left to be tried.
func (e *exchange) hopeless(left []*flight) bool {
	return e.lost != nil && (len(left) == 0 || !left[0].suspect || e.service.givenUp(e.instance.Generation))
}

// reboard waits for the engine that takes the place of one that was given up.
// The suspects come first and are tried one by one.
func (e *exchange) reboard(ctx context.Context, suspects, rest []*flight) ([]*flight, error) {
	s := e.service
	if s.givenUpFor(e.instance.Generation) == trust.FaultPoisoned {
		marked(suspects)
	}
	left := slices.Concat(suspects, rest)
	_, err := s.next(ctx, e.instance.Generation)
	if err == nil {
		var next Instance
		var done func()
		if next, done, err = s.borrow(ctx, e.instance, time.Now()); err == nil {
			e.done()
			e.instance, e.done = next, done
			return left, nil
		}
	}
	if errors.Is(err, errSucceeded) {
		err = errAgain
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	s.flights.fail(left, takeoff)
	return nil, err
}

// giveIn ends all flights of a finding for want of time.
func (e *exchange) giveIn(err error, f finding) error {
	why := takeoff
	var timeout *TimeoutError
	if errors.As(err, &timeout) {
		why = &failure{err: timeout}
	}
	e.service.flights.fail(f.call, why)
	e.service.flights.fail(f.rest, why)
	return err
}

// sound embeds the probe text: an engine that gives no valid vector for it, or
// another one than when it was checked, must not be believed any more.
func (e *exchange) sound(ctx context.Context) bool {
	want := vector.Expect{Count: 1, Dim: e.instance.Dim, Normalized: !e.instance.Unnormalized}
	reply, err := e.instance.Client.Embed(ctx, []string{canary.Probe}, want)
	if err == nil {
		err = vector.Check(reply.Vectors, want)
	}
	if err != nil {
		e.service.logger.Warn("Probe fails", slog.Uint64("generation", e.instance.Generation), slog.Any("error", err))
		return false
	}
	return e.instance.Probe == nil || canary.Cosine(reply.Vectors[0], e.instance.Probe) >= canary.MinCosine
}

// accused splits a call by what its invalid reply says: those it names, or all
// when the reply as a whole is invalid.
func accused(call []*flight, invalid *vector.InvalidError) (named, others []*flight) {
	is := make([]bool, len(call))
	for _, problem := range invalid.Problems {
		if problem.Index < 0 || problem.Index >= len(call) {
			return call, nil
		}
		is[problem.Index] = true
	}
	for i, f := range call {
		if is[i] {
			named = append(named, f)
		} else {
			others = append(others, f)
		}
	}
	return named, others
}

// marked puts flights on trial.
func marked(suspects []*flight) []*flight {
	for _, f := range suspects {
		f.suspect = true
	}
	return suspects
}

func inputsOf(flights []*flight) []trust.Input {
	inputs := make([]trust.Input, len(flights))
	for i, f := range flights {
		inputs[i] = trust.Input{SHA256: trust.Hash(f.key.Text).String(), Tokens: f.tokens}
	}
	return inputs
}

// errGone says that an exchange does not outlive its engine.
var errGone = errors.New("the engine is gone")

// bereaved decides what follows a call that found its engine gone: the flights
// to go on with at the next one, or errGone when it does not go on.
//
// When we gave it up ourselves it always does, since trials find out who is to
// blame; when its supervisor did, or it is back already, once. When it crashed
// or hung, what was at it is under suspicion, and is tried alone at the next
// one; who was alone at two that ended so is guilty.
func (e *exchange) bereaved(ctx context.Context, f finding) ([]*flight, error) {
	s, generation := e.service, e.instance.Generation
	if s.givenUp(generation) {
		return e.reboard(ctx, f.call, f.rest)
	}
	end := s.endOf(ctx, generation, f.err)
	if ctx.Err() != nil {
		return nil, errGone
	}
	reason := end.Blames()
	if reason == "" || errors.Is(f.err, llamaclient.ErrConnect) { // it was gone before the call
		now, err := s.current()
		if newer := err == nil && now.Generation > generation; e.carried || !newer && end != trust.EndReplaced && end != trust.EndUnloaded && reason == "" {
			return nil, errGone
		}
		e.carried = true
		return e.reboard(ctx, f.call, f.rest)
	}
	times := 0
	for _, witness := range f.call {
		times = s.quarantine.witness(witness.key)
	}
	if len(f.call) > 1 || f.visit.company() || times < 2 {
		return e.reboard(ctx, marked(f.call), f.rest)
	}
	s.arrest(ctx, f.call[0], reason)
	e.convict(f.call[0], nil, vector.Problem{Index: 0, Reason: vector.ReasonFatal})
	s.flights.fail(f.rest, takeoff) // other suspects are remembered
	return nil, e.lost
}

// isLost says that a call found its engine gone.
func isLost(err error) bool {
	var status *llamaclient.StatusError
	return errors.Is(err, llamaclient.ErrBroken) || errors.Is(err, llamaclient.ErrConnect) || errors.Is(err, llamaclient.ErrRead) ||
		errors.Is(err, llamaclient.ErrWrite) || errors.As(err, &status) && status.Code >= 500
}
