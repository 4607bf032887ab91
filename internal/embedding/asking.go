package embedding

import (
	"context"
	"errors"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/vector"
)

// asking is one request on its way to its answer; its caller's goroutine owns
// it. Each distinct text of it is known already, in the air for another
// request, or its own to compute; only its own take a permit. What was in the
// air and did not land is asked for again.
type asking struct {
	service  *Service
	lane     admission.Lane
	truncate bool
	arrived  time.Time     // its waiting time counts from here, however often it asks
	notified chan struct{} // 1-buffered: one of the joined flights has ended

	original []string // as the caller gave them
	instance Instance // the fields below are for its fingerprint and limit
	inputs   []string // original, cut where that was asked for
	cut      []int    // inputs that were cut
	of       []int    // text of each input

	// One for each distinct input.
	texts []text
	keys  []vector.Key
	got   []vector.Embedding // Vector is nil where there is none yet

	permit   *admission.Permit // for the next plan; usually nil
	counted  bool              // the gate has counted the outcome
	underway bool              // it has been planned before
}

type text struct {
	first  int     // input
	times  int     // how many inputs are this text
	tokens int     // when they have been counted; else 0
	flight *flight // own or joined, until it has ended; else nil
	source source
}

// source is where a text's vector comes from.
type source string

const (
	sourceNone   source = ""
	sourceCached source = "cached"
	sourceJoined source = "joined"
	sourceOwn    source = "own"
)

// answer gets the vectors.
func (a *asking) answer(ctx context.Context) (Result, error) {
	for {
		if err := a.plan(ctx); errors.Is(err, errSucceeded) {
			continue
		} else if err != nil {
			return Result{}, err
		}
		own := a.enter()
		if len(own) > 0 {
			if err := a.lead(ctx, own); err != nil {
				return Result{}, err
			}
		}
		if len(own) == 0 && a.permit != nil {
			// Others have it all in hand meanwhile. Nobody waits while it
			// holds a permit.
			a.permit.Release(admission.Uncounted)
			a.permit = nil
		}
		again, err := a.wait(ctx)
		if err != nil {
			return Result{}, err
		}
		if !again {
			return a.result(ctx)
		}
	}
}

// plan makes the texts for the engine of now and looks for those known.
func (a *asking) plan(ctx context.Context) error {
	instance, err := a.present(ctx)
	if err != nil {
		return err
	}
	a.underway = true
	if a.texts == nil || instance.Fingerprint != a.instance.Fingerprint || instance.MaxTokens != a.instance.MaxTokens {
		a.service.flights.leave(a)
		a.instance, a.texts = instance, nil
		if err := a.adopt(ctx); err != nil {
			return err
		}
	}
	a.instance = instance
	if err := a.refuseQuarantined(ctx); err != nil {
		return err
	}
	a.lookUp(ctx)
	return nil
}

// adopt cuts the inputs where that is asked for, and finds the distinct ones.
func (a *asking) adopt(ctx context.Context) error {
	counts, err := a.truncated(ctx)
	if err != nil {
		return err
	}
	n := len(a.inputs)
	a.texts, a.keys, a.of = make([]text, 0, n), make([]vector.Key, 0, n), make([]int, n)
	var known map[vector.Key]int
	if n > 1 {
		known = make(map[vector.Key]int, n)
	}
	for i, input := range a.inputs {
		key := vector.KeyOf(a.instance.Fingerprint, input)
		place, ok := known[key]
		if !ok {
			place = len(a.texts)
			a.texts = append(a.texts, text{first: i, tokens: counts[i]})
			a.keys = append(a.keys, key)
			if known != nil {
				known[key] = place
			}
		}
		a.texts[place].times++
		a.of[i] = place
	}
	a.got = make([]vector.Embedding, len(a.texts))
	return nil
}

// lookUp takes what the cache has.
func (a *asking) lookUp(ctx context.Context) {
	s := a.service
	if s.cache == nil {
		return
	}
	s.cache.Load(ctx, a.keys, a.got)
	for i := range a.texts {
		if t := &a.texts[i]; a.got[i].Vector != nil && t.source == sourceNone {
			t.source = sourceCached
			s.hits.Add(1)
		}
	}
}

// enter joins what is in the air and returns what is a's own.
func (a *asking) enter() []*flight {
	if a.complete() {
		return nil
	}
	own, hits, joins := a.service.flights.enter(a)
	a.service.hits.Add(uint64(hits))
	a.service.joins.Add(uint64(joins))
	a.service.misses.Add(uint64(len(own)))
	return own
}

func (a *asking) complete() bool {
	for i := range a.got {
		if a.got[i].Vector == nil {
			return false
		}
	}
	return true
}

// lead takes a permit for a's own texts and has them computed. Whatever
// happens, they have ended when it returns; without an error they need not
// all have landed.
func (a *asking) lead(ctx context.Context, own []*flight) error {
	s := a.service
	err := a.rouse(ctx)
	if err == nil {
		err = s.checkLengths(ctx, a.instance, a.lane, own)
	}
	if err == nil {
		err = a.acquire(ctx)
	}
	var instance Instance
	var done func()
	if err == nil {
		// The engine may have gone or changed while the request waited.
		_, err = a.present(ctx)
	}
	if err == nil {
		instance, done, err = s.borrow(ctx, a.instance, a.arrived)
	}
	if err != nil {
		s.flights.fail(own, takeoff)
		if errors.Is(err, errSucceeded) {
			return nil // a permit serves the next plan
		}
		return err
	}
	own = s.flights.launch(own)
	if len(own) == 0 {
		done()
		return nil
	}
	e := &exchange{
		service: s, permit: a.permit, instance: instance, done: done, lane: a.lane, own: own,
		decides: a.decides(own), reply: make(chan error, 1),
	}
	if !s.begin(ctx, e) {
		done()
		s.flights.fail(own, takeoff)
		return &UnavailableError{State: "stopping"}
	}
	a.permit = nil // it is the exchange's now
	err = e.await(ctx)
	a.counted = err != nil || e.decides
	var invalid *vector.InvalidError
	if errors.As(err, &invalid) {
		return s.flights.blame(a) // all the inputs concerned, by their places in the request
	}
	return err
}

// acquire takes a permit unless a has one.
func (a *asking) acquire(ctx context.Context) error {
	if a.permit != nil {
		return nil
	}
	permit, err := a.service.gate.AcquireSince(ctx, a.lane, a.arrived)
	if errors.Is(err, admission.ErrClosed) {
		return &UnavailableError{State: "stopping", Err: err}
	}
	a.permit, a.counted = permit, err != nil
	return err
}

// decides says whether the exchange of own is all that is left to do, so that
// its outcome is that of the request.
func (a *asking) decides(own []*flight) bool {
	mine := 0
	for i := range a.texts {
		if a.countable(i) {
			return false
		}
		if a.texts[i].source == sourceOwn {
			mine++
		} else if a.got[i].Vector == nil {
			return false
		}
	}
	return mine == len(own) // or else some were taken over
}

// wait waits for the joined flights; again says that some did not land.
func (a *asking) wait(ctx context.Context) (again bool, err error) {
	for {
		pending, retry, err := a.service.flights.collect(a)
		if err != nil || retry > 0 || pending == 0 {
			return retry > 0, err
		}
		select {
		case <-a.notified:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// invalid names the inputs whose flights brought no valid vector; it needs the
// lock of flights.
func (a *asking) invalid() *vector.InvalidError {
	found := &vector.InvalidError{}
	for i, place := range a.of {
		f := a.texts[place].flight
		if f == nil || f.failure == nil || f.failure.reason == "" {
			continue
		}
		if f.failure.whole {
			return &vector.InvalidError{Problems: []vector.Problem{{Index: vector.WholeReply, Reason: f.failure.reason}}}
		}
		found.Problems = append(found.Problems, vector.Problem{Index: i, Reason: f.failure.reason})
	}
	return found
}

// result puts the answer together when every text has its vector.
func (a *asking) result(ctx context.Context) (Result, error) {
	tokens, err := a.tokens(ctx)
	if err != nil {
		return Result{}, err
	}
	r := Result{
		Vectors: make([][]float32, len(a.inputs)), Tokens: tokens, Truncated: a.cut,
		Model: a.instance.Model, Fingerprint: a.instance.Fingerprint,
	}
	for i, place := range a.of {
		r.Vectors[i] = a.got[place].Vector
		switch a.texts[place].source {
		case sourceCached:
			r.Cached++
		case sourceJoined:
			r.Joined++
		}
	}
	r.Dim = len(r.Vectors[0])
	return r, nil
}

// settle gives back what is left of the request, and has its outcome counted
// once.
func (a *asking) settle(ctx context.Context, err error) {
	if err != nil {
		a.service.flights.leave(a)
	}
	outcome := outcomeOf(err)
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		outcome = admission.CancelledWaiting // it was not served when it left
	}
	switch {
	case a.permit != nil:
		a.permit.Release(outcome)
	case !a.counted:
		a.service.gate.Count(outcome)
	}
}
