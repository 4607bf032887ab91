package embedding

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/vector"
)

// exchange is one request at the engine, from its permit to the permit's
// release. run owns it, on a goroutine that outlives the caller; await is the
// caller. party settles, once, whether the caller left or was answered, so
// that the outcome counted is the one the caller saw.
type exchange struct {
	service  *Service
	permit   *admission.Permit // released by run, on every path
	instance Instance
	inputs   []string

	party atomic.Int32
	reply chan answer // buffered: run never waits for the caller
}

const (
	partyOpen int32 = iota
	partyLeft
	partyAnswered
)

type answer struct {
	result Result
	err    error
}

// await is the caller's side.
func (e *exchange) await(ctx context.Context) (Result, error) {
	select {
	case a := <-e.reply:
		return a.result, a.err
	case <-ctx.Done():
	}
	if e.party.CompareAndSwap(partyOpen, partyLeft) {
		e.permit.Drain()
		return Result{}, context.Cause(ctx)
	}
	a := <-e.reply // it was just being answered
	return a.result, a.err
}

// run makes the exchange. ctx carries no cancellation of the caller.
func (e *exchange) run(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.service.total, &TimeoutError{After: e.service.total})
	defer cancel()
	result, err := e.embed(ctx)
	answered := e.party.CompareAndSwap(partyOpen, partyAnswered)

	var timeout *TimeoutError
	if errors.As(err, &timeout) {
		if answered {
			e.permit.Drain()
			e.reply <- answer{err: err}
		}
		e.outlast(timeout)
		return
	}
	outcome := outcomeOf(err)
	if !answered {
		outcome = admission.CancelledExecuting
	}
	// First the permit, then the answer: a caller that has its answer finds
	// itself no more among the executing.
	e.permit.Release(outcome)
	e.reply <- answer{result, err}
}

// outlast holds the permit until the engine that did not answer is gone:
// hanging up on it would not free its slot.
func (e *exchange) outlast(timeout *TimeoutError) {
	generation := e.instance.Generation
	if err := e.service.engine.Replace(e.service.stopping, generation, timeout.Error()); err != nil {
		e.service.logger.Error("Replace an engine that does not answer",
			slog.Uint64("generation", generation), slog.Any("error", err))
	}
	e.permit.Release(admission.UpstreamTimeout)
}

// errAbandoned ends an exchange whose caller has left; nobody sees it.
var errAbandoned = errors.New("caller left")

// embed makes the engine calls, one after another. When the caller has left,
// the call under way is the last: there is nobody to make the others for.
func (e *exchange) embed(ctx context.Context) (Result, error) {
	result := Result{
		Vectors:     make([][]float32, 0, len(e.inputs)),
		Model:       e.instance.Model,
		Fingerprint: e.instance.Fingerprint,
		Dim:         e.instance.Dim,
	}
	start := time.Now()
	for _, run := range batches(e.inputs, e.instance.BatchTokens) {
		if e.party.Load() == partyLeft {
			return Result{}, errAbandoned
		}
		if ctx.Err() != nil {
			return Result{}, context.Cause(ctx)
		}
		inputs := e.inputs[run[0]:run[1]]
		want := vector.Expect{Count: len(inputs), Dim: result.Dim, Normalized: !e.instance.Unnormalized}
		reply, err := e.instance.Client.Embed(ctx, inputs, want)
		if err == nil {
			err = vector.Check(reply.Vectors, want) // the law holds for any client
		}
		if err != nil {
			return Result{}, e.judge(ctx, err, run[0], time.Since(start))
		}
		e.service.checked.Add(uint64(len(inputs)))
		result.Vectors = append(result.Vectors, reply.Vectors...)
		result.Tokens += reply.PromptTokens
		result.Dim = len(result.Vectors[0])
	}
	return result, nil
}

// judge gives an engine call's error the form the caller knows. The call was
// for the inputs from offset on.
func (e *exchange) judge(ctx context.Context, err error, offset int, elapsed time.Duration) error {
	var invalid *vector.InvalidError
	if errors.As(err, &invalid) {
		e.service.noteInvalid(invalid)
		return invalid.Shift(offset)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var long *llamaclient.ContextError
	if errors.As(err, &long) {
		return e.tooLong(ctx, long, offset)
	}
	return e.service.translate(fmt.Errorf("embed: %w", err), elapsed)
}

// tooLong finds the input the engine meant: it does not say which.
func (e *exchange) tooLong(ctx context.Context, said *llamaclient.ContextError, offset int) error {
	found := &TooLongError{Index: offset, Tokens: said.Tokens, Limit: said.Limit}
	for i, input := range e.inputs[offset:] {
		if len(input)+maxSpecialTokens <= said.Limit {
			continue
		}
		counts, err := e.service.count(ctx, e.instance, []string{input})
		if err != nil {
			return err
		}
		if counts[0] > said.Limit {
			found.Index, found.Tokens = offset+i, counts[0]
			break
		}
	}
	return found
}

func (s *Service) noteInvalid(invalid *vector.InvalidError) {
	s.rejected.Add(1)
	var reasons []vector.Reason
	for _, problem := range invalid.Problems {
		if !slices.Contains(reasons, problem.Reason) {
			reasons = append(reasons, problem.Reason)
		}
	}
	s.last.Store(&lastInvalid{at: time.Now().UTC(), reasons: reasons})
}

// translate maps what a client reports to this package's errors; what it does
// not know stays as it is. elapsed is how long the engine was given.
func (s *Service) translate(err error, elapsed time.Duration) error {
	var timeout *TimeoutError
	var status *llamaclient.StatusError
	switch {
	case errors.As(err, &timeout):
		return timeout
	case errors.Is(err, llamaclient.ErrRead), errors.Is(err, llamaclient.ErrWrite):
		return &TimeoutError{After: elapsed} // it may still be at work, as after the total
	case errors.Is(err, llamaclient.ErrConnect), errors.Is(err, llamaclient.ErrBroken), errors.Is(err, llamaclient.ErrPoolWait):
		return s.vanished(err)
	case errors.As(err, &status) && status.Code == http.StatusServiceUnavailable:
		return s.vanished(err)
	}
	return err
}

// vanished says what the supervisor knows by now of an engine that does not
// answer; it may not have noticed yet.
func (s *Service) vanished(err error) error {
	var known *UnavailableError
	if _, unavailable := s.current(); errors.As(unavailable, &known) {
		return &UnavailableError{State: known.State, RetryAfter: known.RetryAfter, Err: err}
	}
	return &UnavailableError{State: "lost", RetryAfter: defaultRetry, Err: err}
}

func outcomeOf(err error) admission.Outcome {
	var invalid *vector.InvalidError
	var unavailable *UnavailableError
	switch {
	case err == nil:
		return admission.Served
	case errors.As(err, &invalid):
		return admission.InvalidVector
	case errors.As(err, &unavailable):
		return admission.EngineUnavailable
	}
	return admission.Failed
}
