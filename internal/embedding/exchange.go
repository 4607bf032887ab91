package embedding

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/trust"
	"github.com/ondol-app/ondol/internal/upstream"
	"github.com/ondol-app/ondol/internal/vector"
)

// exchange is what one request has computed, from its permit to the permit's
// release. run owns it, on a goroutine that outlives the caller; await is the
// caller. party settles, once, whether the caller left or was answered, so
// that the outcome counted is the one the caller saw.
type exchange struct {
	service  *Service
	permit   *admission.Permit // released by run, on every path
	instance Instance
	done     func() // gives the instance back; called by run, on every path
	lane     admission.Lane
	own      []*flight // all have ended when run has answered
	decides  bool      // a success of it is the success of its request

	// Of run alone.
	calling []*flight            // of the call under way, or the last one
	visit   *visit               // of that call
	lost    *vector.InvalidError // an input is at fault: only suspects are still tried
	carried bool                 // its engine was lost once through nobody's fault
	apart   bool                 // suspects were invalid in company of an engine found sound

	party atomic.Int32
	reply chan error // buffered: run never waits for the caller
}

const (
	partyOpen int32 = iota
	partyLeft
	partyAnswered
)

// await is the caller's side.
func (e *exchange) await(ctx context.Context) error {
	select {
	case err := <-e.reply:
		return err
	case <-ctx.Done():
	}
	if e.party.CompareAndSwap(partyOpen, partyLeft) {
		e.permit.Drain()
		return context.Cause(ctx)
	}
	return <-e.reply // it was just being answered
}

// run makes the exchange. ctx carries no cancellation of the caller.
func (e *exchange) run(ctx context.Context) {
	defer func() { e.done() }() // it may board another
	ctx, cancel := context.WithTimeoutCause(ctx, e.service.total, &TimeoutError{After: e.service.total})
	defer cancel()
	err := e.embed(ctx)
	if errors.Is(err, errAgain) {
		err, e.decides = nil, false
	}
	answered := e.party.CompareAndSwap(partyOpen, partyAnswered)

	var timeout *TimeoutError
	if errors.As(err, &timeout) {
		if answered {
			e.permit.Drain()
			e.reply <- err
		}
		e.outlast(timeout)
		return
	}
	outcome := outcomeOf(err)
	switch {
	case !answered:
		outcome = admission.CancelledExecuting
	case err == nil && !e.decides:
		outcome = admission.Uncounted
	}
	// First the permit, then the answer: a caller that has its answer finds
	// itself no more among the executing.
	e.permit.Release(outcome)
	e.reply <- err
}

// outlast holds the permit until the engine that did not answer is gone:
// hanging up on it would not free its slot.
func (e *exchange) outlast(timeout *TimeoutError) {
	if len(e.calling) == 1 && !e.visit.company() {
		e.offend(e.service.stopping, e.calling[0], trust.ReasonHang)
	}
	e.service.giveUp(e.instance, trust.FaultHang, timeout.Error(), e.calling)
	e.permit.Release(admission.UpstreamTimeout)
}

// errAbandoned ends an exchange whose caller has left; nobody sees it.
var errAbandoned = errors.New("caller left")

// embed makes the engine calls, one after another; what a call brings lands
// before the next begins. Every flight has ended when it returns.
func (e *exchange) embed(ctx context.Context) error {
	flights := e.service.flights
	left := e.service.quarantine.suspects(e.own)
	dim := e.instance.Dim
	began := time.Now()
	longest := time.Duration(0) // of the calls so far
	for len(left) > 0 {
		switch {
		case ctx.Err() != nil:
			flights.fail(left, &failure{err: context.Cause(ctx)})
			return context.Cause(ctx)
		case e.hopeless(left):
			flights.fail(left, takeoff)
			return e.lost
		case e.party.Load() == partyLeft:
			if left = e.finish(left, e.service.total-time.Since(began), longest); len(left) == 0 {
				return errAbandoned
			}
		}
		if err := e.service.believe(ctx, e.instance); err != nil {
			// What follows was not at the engine: nothing is held against it.
			err = fmt.Errorf("%w: %w", llamaclient.ErrConnect, err)
			if left, err = e.judge(ctx, finding{left[:1], left[1:], nil, err, time.Since(began)}); err != nil {
				return err
			}
			continue
		}
		start := time.Now()
		call, embeddings, err := e.next(ctx, left, dim)
		if err == nil {
			err = e.service.believe(ctx, e.instance) // the machine may have slept meanwhile
		}
		longest = max(longest, time.Since(start))
		rest := left[len(call):]
		if err == nil {
			flights.land(call, embeddings)
			e.service.computed(len(call))
			left, dim = rest, len(embeddings[0].Vector)
			continue
		}
		var invalid *vector.InvalidError
		if errors.As(err, &invalid) {
			e.service.noteInvalid(invalid)
			if call[0].suspect {
				left = e.convict(call[0], rest, invalid.Problems[0])
				continue
			}
		}
		if left, err = e.judge(ctx, finding{call, rest, e.visit, err, time.Since(began)}); err != nil {
			return err
		}
	}
	if e.lost != nil {
		return e.lost
	}
	return nil
}

// next makes the next engine call: a suspect's trial, or as many flights as
// make a good call.
func (e *exchange) next(ctx context.Context, left []*flight, dim int) (call []*flight, embeddings []vector.Embedding, err error) {
	s := e.service
	if left[0].suspect {
		embedding, err := e.try(ctx, left[0], dim)
		return left[:1], []vector.Embedding{embedding}, err
	}
	n := 1
	if !e.instance.OneAtATime {
		s.flights.urgent(left)
		n = batch(left, e.instance.BatchTokens)
	}
	call = left[:n]
	visit, err := s.crew.enter(ctx, e.instance.OneAtATime)
	if err != nil {
		return call, nil, err
	}
	defer visit.leave()
	e.visit, e.calling = visit, call
	if embeddings, err = e.call(ctx, call, dim); err == nil {
		e.calling = nil
	}
	return call, embeddings, err
}

// finish says what to go on with when the caller has left; the rest ends here.
// A client's request is finished: its retry then finds all of it done, where
// it would else cost the engine the same again, and again. Indexing asks
// another time, so only what others wait for is computed. A call that the
// total might end is not begun for nobody: that would cost the engine its life.
func (e *exchange) finish(left []*flight, remaining, longest time.Duration) []*flight {
	flights := e.service.flights
	if e.service.stopping.Err() != nil || remaining <= longest {
		flights.fail(left, takeoff)
		return nil
	}
	if e.lane == admission.LaneClient {
		return left
	}
	wanted, unwanted := flights.wanted(left)
	flights.fail(unwanted, takeoff)
	return wanted
}

// call is one engine call.
func (e *exchange) call(ctx context.Context, call []*flight, dim int) ([]vector.Embedding, error) {
	inputs := make([]string, len(call))
	for i, f := range call {
		inputs[i] = f.text
	}
	want := vector.Expect{Count: len(call), Dim: dim, Normalized: !e.instance.Unnormalized}
	reply, err := e.instance.Client.Embed(ctx, inputs, want)
	if err == nil {
		err = vector.Check(reply.Vectors, want) // the law holds for any client
	}
	if err != nil {
		return nil, err
	}
	e.service.checked.Add(uint64(len(call)))
	embeddings := make([]vector.Embedding, len(call))
	for i, tokens := range shares(call, reply.PromptTokens) {
		counted := len(call) == 1 && reply.PromptTokens > 0 || call[i].tokens > 0
		embeddings[i] = vector.Embedding{Vector: reply.Vectors[i], Tokens: tokens, Counted: counted}
	}
	return embeddings, nil
}

// tooLong finds the input the engine meant: it does not say which.
func (e *exchange) tooLong(ctx context.Context, said *llamaclient.ContextError, call []*flight) error {
	found := &TooLongError{Index: call[0].input, Tokens: said.Tokens, Limit: said.Limit}
	for _, f := range call {
		if !suspect(f.text, said.Limit) {
			continue
		}
		counts, err := e.service.count(ctx, e.instance, admission.LaneBackground, []string{f.text})
		if err != nil { // what the engine said stands; this may be the one
			found.Index = f.input
			break
		}
		if counts[0] > said.Limit {
			found.Index, found.Tokens = f.input, counts[0]
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
	return &UnavailableError{State: upstream.StateLost, RetryAfter: defaultRetry, Err: err}
}

func outcomeOf(err error) admission.Outcome {
	var invalid *vector.InvalidError
	var unavailable *UnavailableError
	var timeout *TimeoutError
	var rejected *admission.RejectedError
	switch {
	case err == nil:
		return admission.Served
	case errors.As(err, &rejected): // by the queue for counting; the gate counts its own
		return rejected.Reason
	case errors.As(err, &timeout):
		return admission.UpstreamTimeout
	case errors.As(err, &invalid):
		return admission.InvalidVector
	case errors.As(err, &unavailable):
		return admission.EngineUnavailable
	}
	return admission.Failed
}
