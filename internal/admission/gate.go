package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Gate is the front of one Policy. All methods are safe for concurrent use.
//
// Everything under mu is one state machine. Callers tell it their events
// themselves, one at a time: so whether a caller left before or after it was
// granted is decided there, once. Run tells it of time that passes.
type Gate struct {
	started chan struct{} // closed when Run begins
	running atomic.Bool   // Run was called
	kick    chan struct{} // 1-buffered: Run must look earlier than at due

	mu      sync.Mutex // never held while anything is waited for
	open    bool       // Run runs
	policy  *Policy
	waiting map[Ticket]chan<- error // who has not been answered; each has room for it
	next    Ticket
	due     time.Time // when Run looks again; zero = when it is kicked
	rest    Stats     // before Run idle, after Run as it ended

	busy       chan struct{} // 1-buffered; see Busy
	background chan struct{} // 1-buffered; see Background
	watcher    func(Episode) // set before Run; nil = nobody
}

// NewGate makes a gate; it grants nothing until Run.
func NewGate(limits Limits) (*Gate, error) {
	if err := limits.Validate(); err != nil {
		return nil, fmt.Errorf("admission limits: %w", err)
	}
	policy := NewPolicy(limits)
	return &Gate{
		started:    make(chan struct{}),
		kick:       make(chan struct{}, 1),
		policy:     policy,
		waiting:    make(map[Ticket]chan<- error),
		busy:       make(chan struct{}, 1),
		background: make(chan struct{}, 1),
		rest:       policy.Stats(time.Time{}),
	}, nil
}

// Watch has f called with every overload that begins or ends, in order. It must
// return at once and call nothing of the gate, and Watch must be called before Run.
func (g *Gate) Watch(f func(Episode)) { g.watcher = f }

// Busy gets a value when a request comes to a gate that was idle, requests in
// quick succession counting as one.
func (g *Gate) Busy() <-chan struct{} { return g.busy }

// Background gets a value when background work comes to a gate that had none,
// works in quick succession counting as one.
func (g *Gate) Background() <-chan struct{} { return g.background }

// BackgroundWork is how much background work executes or waits now.
func (g *Gate) BackgroundWork() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.policy.BackgroundWork()
}

// Run keeps the gate open until ctx ends; then everyone who waits gets
// ErrClosed. It starts no goroutine and may be called once.
func (g *Gate) Run(ctx context.Context) error {
	if !g.running.CompareAndSwap(false, true) {
		return errors.New("admission gate runs already")
	}
	g.mu.Lock()
	g.open = true
	g.mu.Unlock()
	close(g.started)
	defer g.close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-g.kick:
		case <-timer.C:
		}
		timer.Stop()
		if due := g.advance(); !due.IsZero() {
			timer.Reset(time.Until(due))
		}
	}
}

// advance tells the policy that time has passed, and returns when to do so
// again; zero = when kicked.
func (g *Gate) advance() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.act(g.policy.Advance(time.Now()))
	g.tell()
	g.due, _ = g.policy.Wake()
	return g.due
}

func (g *Gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	for _, to := range g.waiting {
		to <- ErrClosed
	}
	g.policy.Close()
	g.tell()
	g.rest = g.policy.Stats(now)
	g.open = false
}

// do lets an event be told to the policy; false when Run does not run.
func (g *Gate) do(event func(now time.Time)) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.open {
		return false
	}
	event(time.Now())
	g.tell()
	if wake, ok := g.policy.Wake(); ok && (g.due.IsZero() || wake.Before(g.due)) {
		g.due = wake
		signal(g.kick)
	}
	return true
}

// signal fills a 1-buffered channel. One that is pending already stands for
// this one as well.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// tell hands what is new about overloads to who watches. It needs the lock, so
// that what is told is in order.
func (g *Gate) tell() {
	for _, e := range g.policy.Episodes() {
		if g.watcher != nil {
			g.watcher(e)
		}
	}
}

// act tells the callers concerned. It needs the lock, as arrive and leave do.
func (g *Gate) act(decisions []Decision) {
	for _, d := range decisions {
		var answer error
		if d.Verdict == Refused {
			answer = &RejectedError{Reason: d.Reason, RetryAfter: d.RetryAfter}
		}
		g.waiting[d.Ticket] <- answer
		delete(g.waiting, d.Ticket)
	}
}

// arrive gives a request its ticket; since is when it began to wait, zero = now.
func (g *Gate) arrive(now time.Time, lane Lane, since time.Time, to chan<- error) Ticket {
	if g.policy.Idle() {
		signal(g.busy)
	}
	if lane == LaneBackground && g.policy.BackgroundWork() == 0 {
		signal(g.background)
	}
	g.next++
	g.waiting[g.next] = to
	if since.IsZero() || since.After(now) {
		since = now
	}
	g.act(g.policy.ArriveSince(now, g.next, lane, since))
	return g.next
}

// leave is for a caller that has gone, whatever it has been told meanwhile.
func (g *Gate) leave(now time.Time, ticket Ticket) {
	// Its own time may be up at this moment, so it can still be answered.
	g.act(g.policy.Leave(now, ticket))
	delete(g.waiting, ticket)
}

// Count adds a request to the totals that ended without a permit of its own
// outcome: turned away before it came to Acquire, or served without the
// engine. So the gate's figures tell of all requests.
func (g *Gate) Count(outcome Outcome) {
	g.do(func(time.Time) { g.policy.Count(outcome) })
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
	select {
	case <-g.started:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		g.Count(CancelledWaiting) // gone before it was seen
		return nil, context.Cause(ctx)
	}
	answer := make(chan error, 1)
	permit := &Permit{gate: g}
	if !g.do(func(now time.Time) { permit.ticket = g.arrive(now, lane, arrived, answer) }) {
		return nil, ErrClosed
	}
	select {
	case err := <-answer:
		if err != nil {
			return nil, err
		}
		if ctx.Err() == nil {
			return permit, nil
		}
		// Both at once: the caller is gone, the permit unused.
	case <-ctx.Done():
	}
	g.do(func(now time.Time) { g.leave(now, permit.ticket) })
	return nil, context.Cause(ctx)
}

// SetLimits changes the limits of a running gate; before and after Run it is
// an error.
func (g *Gate) SetLimits(limits Limits) error {
	if err := limits.Validate(); err != nil {
		return fmt.Errorf("admission limits: %w", err)
	}
	select {
	case <-g.started:
	default:
		return errors.New("admission limits: the gate does not run yet")
	}
	if !g.do(func(now time.Time) { g.act(g.policy.SetLimits(now, limits)) }) {
		return ErrClosed
	}
	return nil
}

// SetCeiling keeps the executing requests at n or fewer, whatever the limits
// allow; 0 lifts it. Before and after Run it does nothing.
func (g *Gate) SetCeiling(n int) {
	g.do(func(now time.Time) { g.act(g.policy.SetCeiling(now, n)) })
}

// SetHeld grants nobody until it is lifted, while there is nobody to work; see
// Policy.SetHeld. Before and after Run it does nothing.
func (g *Gate) SetHeld(held bool) {
	g.do(func(now time.Time) { g.act(g.policy.SetHeld(now, held)) })
}

// PauseBackground grants background work nothing until it is called with false.
// What executes goes on. Before and after Run it does nothing.
func (g *Gate) PauseBackground(paused bool) {
	g.do(func(now time.Time) { g.act(g.policy.PauseBackground(now, paused)) })
}

// Stats is the gate now; before Run it is idle, after Run as it ended.
func (g *Gate) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.open {
		return g.rest
	}
	return g.policy.Stats(time.Now())
}

// Permit is the right to use the engine for one request.
type Permit struct {
	gate     *Gate
	ticket   Ticket
	released atomic.Bool
}

// Drain says that the caller is gone while the engine still works: the permit
// stays taken until Release.
func (p *Permit) Drain() {
	p.gate.do(func(time.Time) { p.gate.policy.Drain(p.ticket) })
}

// Release gives the permit back, with how the request ended. Only the first
// call counts.
func (p *Permit) Release(outcome Outcome) {
	if p.released.CompareAndSwap(false, true) {
		p.gate.do(func(now time.Time) { p.gate.act(p.gate.policy.Release(now, p.ticket, outcome)) })
	}
}
