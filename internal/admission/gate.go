package admission

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Gate is the front of one Policy. All methods are safe for concurrent use.
//
// The goroutine in Run owns policy, waiting and next; nothing else touches
// them. Callers send it events, which it handles one at a time: so whether a
// caller left before or after it was granted is decided there, once.
type Gate struct {
	events  chan any      // arrival, departure, drained, released, counted, newLimits, newCeiling or statsQuery
	started chan struct{} // closed when Run begins
	done    chan struct{} // closed when Run has ended
	running atomic.Bool   // Run was called

	policy  *Policy
	waiting map[Ticket]chan<- answer // who has not been answered; each holds one
	next    Ticket

	idle  Stats // before Run; constant
	final Stats // after Run; written before done is closed
}

type answer struct {
	ticket Ticket
	err    error // nil = granted
}

type (
	arrival struct {
		lane     Lane
		answer   chan<- answer // buffered: the owner never waits for a caller
		ticketed chan<- Ticket // buffered
		since    time.Time     // when it began to wait; zero = now
	}
	departure struct{ ticket Ticket }
	drained   struct{ ticket Ticket }
	released  struct {
		ticket  Ticket
		outcome Outcome
	}
	counted    struct{ outcome Outcome }
	newLimits  struct{ limits Limits }
	newCeiling struct{ executing int }
	statsQuery struct{ reply chan<- Stats } // buffered
)

// NewGate makes a gate; it grants nothing until Run.
func NewGate(limits Limits) (*Gate, error) {
	if err := limits.Validate(); err != nil {
		return nil, fmt.Errorf("admission limits: %w", err)
	}
	policy := NewPolicy(limits)
	return &Gate{
		events:  make(chan any),
		started: make(chan struct{}),
		done:    make(chan struct{}),
		policy:  policy,
		waiting: make(map[Ticket]chan<- answer),
		idle:    policy.Stats(time.Time{}),
	}, nil
}

// Run owns the gate until ctx ends; then everyone who waits gets ErrClosed. It
// starts no goroutine and may be called once.
func (g *Gate) Run(ctx context.Context) error {
	if !g.running.CompareAndSwap(false, true) {
		return errors.New("admission gate runs already")
	}
	close(g.started)
	defer g.close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-g.events:
			g.handle(time.Now(), event)
		case <-timer.C:
			g.act(g.policy.Advance(time.Now()))
		}
		timer.Stop()
		if wake, ok := g.policy.Wake(); ok {
			timer.Reset(time.Until(wake))
		}
	}
}

func (g *Gate) close() {
	now := time.Now()
	for ticket, to := range g.waiting {
		to <- answer{ticket, ErrClosed}
	}
	g.policy.Close()
	g.final = g.policy.Stats(now)
	close(g.done)
}

func (g *Gate) handle(now time.Time, event any) {
	switch e := event.(type) {
	case arrival:
		g.next++
		e.ticketed <- g.next
		g.waiting[g.next] = e.answer
		since := now
		if !e.since.IsZero() && e.since.Before(now) {
			since = e.since
		}
		g.act(g.policy.ArriveSince(now, g.next, e.lane, since))
	case departure:
		// Its own time may be up at this moment, so it can still be answered.
		g.act(g.policy.Leave(now, e.ticket))
		delete(g.waiting, e.ticket)
	case drained:
		g.policy.Drain(e.ticket)
	case released:
		g.act(g.policy.Release(now, e.ticket, e.outcome))
	case counted:
		g.policy.Count(e.outcome)
	case newLimits:
		g.act(g.policy.SetLimits(now, e.limits))
	case newCeiling:
		g.act(g.policy.SetCeiling(now, e.executing))
	case statsQuery:
		e.reply <- g.policy.Stats(now)
	}
}

// act tells the callers concerned.
func (g *Gate) act(decisions []Decision) {
	for _, d := range decisions {
		a := answer{ticket: d.Ticket}
		if d.Verdict == Refused {
			a.err = &RejectedError{Reason: d.Reason, RetryAfter: d.RetryAfter}
		}
		g.waiting[d.Ticket] <- a
		delete(g.waiting, d.Ticket)
	}
}

// send hands the owner an event; false when Run has ended.
func (g *Gate) send(event any) bool {
	select {
	case g.events <- event:
		return true
	case <-g.done:
		return false
	}
}

func (g *Gate) hasStarted() bool {
	select {
	case <-g.started:
		return true
	default:
		return false
	}
}

// Count adds a request to the totals that ended without a permit of its own
// outcome: turned away before it came to Acquire, or served without the
// engine. So the gate's figures tell of all requests.
func (g *Gate) Count(outcome Outcome) {
	if g.hasStarted() {
		g.send(counted{outcome})
	}
}

// Acquire waits for a permit. It returns a *RejectedError, the cause of ctx's
// end, or ErrClosed; a caller that leaves frees its place at once and leaves
// no permit taken behind. The background and upkeep lanes wait for as long as
// ctx lets them.
func (g *Gate) Acquire(ctx context.Context, lane Lane) (*Permit, error) {
	return g.AcquireSince(ctx, lane, time.Time{})
}

// AcquireSince is Acquire for a request that has waited elsewhere since
// arrived: its place is at the end, but its waiting time counts from then. The
// zero time means now.
func (g *Gate) AcquireSince(ctx context.Context, lane Lane, arrived time.Time) (*Permit, error) {
	if lane != LaneClient && lane != LaneBackground && lane != LaneUpkeep {
		return nil, fmt.Errorf("acquire: no lane %q", lane)
	}
	answers := make(chan answer, 1)
	ticketed := make(chan Ticket, 1)
	select {
	case g.events <- arrival{lane, answers, ticketed, arrived}:
	case <-ctx.Done():
		g.Count(CancelledWaiting) // gone before it was seen
		return nil, context.Cause(ctx)
	case <-g.done:
		return nil, ErrClosed
	}
	select {
	case a := <-answers:
		if a.err != nil {
			return nil, a.err
		}
		if ctx.Err() != nil { // both at once: the caller is gone, the permit unused
			g.send(departure{a.ticket})
			return nil, context.Cause(ctx)
		}
		return &Permit{gate: g, ticket: a.ticket}, nil
	case <-ctx.Done():
		g.send(departure{<-ticketed})
		return nil, context.Cause(ctx)
	}
}

// SetLimits changes the limits of a running gate; before and after Run it is
// an error.
func (g *Gate) SetLimits(limits Limits) error {
	if err := limits.Validate(); err != nil {
		return fmt.Errorf("admission limits: %w", err)
	}
	if !g.hasStarted() {
		return errors.New("admission limits: the gate does not run yet")
	}
	if !g.send(newLimits{limits}) {
		return ErrClosed
	}
	return nil
}

// SetCeiling keeps the executing requests at n or fewer, whatever the limits
// allow; 0 lifts it. Before and after Run it does nothing.
func (g *Gate) SetCeiling(n int) {
	if g.hasStarted() {
		g.send(newCeiling{n})
	}
}

// Stats is the gate now; before Run it is idle, after Run as it ended.
func (g *Gate) Stats() Stats {
	if !g.hasStarted() {
		return g.idle
	}
	reply := make(chan Stats, 1)
	if !g.send(statsQuery{reply}) {
		return g.final
	}
	return <-reply
}

// Permit is the right to use the engine for one request.
type Permit struct {
	gate     *Gate
	ticket   Ticket
	released atomic.Bool
}

// Drain says that the caller is gone while the engine still works: the permit
// stays taken until Release.
func (p *Permit) Drain() { p.gate.send(drained{p.ticket}) }

// Release gives the permit back, with how the request ended. Only the first
// call counts.
func (p *Permit) Release(outcome Outcome) {
	if p.released.CompareAndSwap(false, true) {
		p.gate.send(released{p.ticket, outcome})
	}
}
