package admission

import (
	"slices"
	"time"

	"github.com/ondol-app/ondol/internal/metrics"
)

// Ticket names one request; the owner of the policy chooses it and never uses
// one twice.
type Ticket uint64

// Verdict is what a decision says.
type Verdict string

const (
	Granted Verdict = "granted"
	Refused Verdict = "refused"
)

// Decision is what follows from an event for one request. The owner must act
// on each of them, in order.
type Decision struct {
	Ticket  Ticket
	Verdict Verdict
	// Set when refused.
	Reason     Outcome
	RetryAfter time.Duration
}

type waiter struct {
	ticket  Ticket
	arrived time.Time // may be before it came to the queue; see ArriveSince
}

type holder struct {
	lane     Lane
	since    time.Time // when granted
	draining bool
}

// Policy is the state machine of one gate. Every method that tells it of an
// event takes the time of it, which must not run backwards, and returns the
// decisions that follow. It is not safe for concurrent use: one goroutine
// owns it.
//
// Invariants between events, unless it is held: a client, or upkeep, waits only
// while every permit is taken; background work waits only while every permit is
// taken, a client waits, Limits.Background is used up, or it is paused. Each lane is in the
// order in which it came to the queue.
type Policy struct {
	limits     Limits
	ceiling    int  // of executing requests, below Limits.Executing; 0 = none
	held       bool // nobody is granted
	paused     bool // background work is granted nothing
	clients    []waiter
	background []waiter
	upkeep     []waiter
	holders    map[Ticket]*holder
	ofLane     map[Lane]int // holders by lane

	service  serviceTime
	overload episodes
	totals   map[Outcome]uint64
	waits    *metrics.Histogram // of granted clients
	holds    *metrics.Histogram // of released permits that were used, draining included
}

// NewPolicy makes an idle policy. The limits must be valid.
func NewPolicy(limits Limits) *Policy {
	p := &Policy{
		limits:  limits,
		holders: make(map[Ticket]*holder),
		ofLane:  make(map[Lane]int),
		totals:  make(map[Outcome]uint64),
		waits:   metrics.NewHistogram(metrics.DurationBounds()),
		holds:   metrics.NewHistogram(metrics.DurationBounds()),
	}
	for _, outcome := range Outcomes() {
		p.totals[outcome] = 0
	}
	return p
}

// Arrive puts a new request in its lane. The decisions may concern itself: it
// is granted or refused at once, or else it waits.
func (p *Policy) Arrive(now time.Time, ticket Ticket, lane Lane) []Decision {
	return p.ArriveSince(now, ticket, lane, now)
}

// ArriveSince is Arrive for a request that has waited elsewhere since arrived,
// which is not after now. It comes to the end of its lane like any other, but
// what it has waited already counts.
func (p *Policy) ArriveSince(now time.Time, ticket Ticket, lane Lane, arrived time.Time) []Decision {
	// Whoever has waited too long leaves first: its place may be the one.
	decisions := p.expire(now)
	switch {
	case lane == LaneUpkeep:
		p.upkeep = append(p.upkeep, waiter{ticket, arrived})
	case lane == LaneBackground:
		p.background = append(p.background, waiter{ticket, arrived})
	case now.Sub(arrived) >= p.limits.Wait:
		return append(decisions, p.refuse(now, ticket, QueueTimeout))
	case len(p.clients) < p.limits.Waiting || p.free() > 0 && len(p.clients) == 0:
		p.clients = append(p.clients, waiter{ticket, arrived})
	default:
		return append(decisions, p.refuse(now, ticket, QueueFull))
	}
	return p.grant(now, decisions)
}

// Leave says that the caller is gone and will not use a permit: it stops
// waiting, or the permit it was granted but never took comes back unused.
func (p *Policy) Leave(now time.Time, ticket Ticket) []Decision {
	decisions := p.expire(now)
	same := func(w waiter) bool { return w.ticket == ticket }
	before := len(p.clients) + len(p.background)
	p.clients = slices.DeleteFunc(p.clients, same)
	p.background = slices.DeleteFunc(p.background, same)
	p.upkeep = slices.DeleteFunc(p.upkeep, same)
	h := p.drop(ticket)
	if len(p.clients)+len(p.background) < before || h != nil && h.lane != LaneUpkeep {
		p.totals[CancelledWaiting]++
	}
	return p.grant(now, decisions)
}

// Drain says that the caller of a granted request is gone while the engine
// still works on it: the permit stays taken.
func (p *Policy) Drain(ticket Ticket) {
	if h := p.holders[ticket]; h != nil {
		h.draining = true
	}
}

// Release gives a permit back. A ticket that holds none is ignored. Uncounted
// leaves the totals as they are.
func (p *Policy) Release(now time.Time, ticket Ticket, outcome Outcome) []Decision {
	decisions := p.expire(now)
	if h := p.drop(ticket); h != nil && h.lane != LaneUpkeep {
		held := now.Sub(h.since)
		if outcome != Uncounted {
			p.totals[outcome]++
		}
		p.holds.Observe(held)
		// An engine that is away answers quickly; that is not how long
		// service takes.
		if h.lane == LaneClient && outcome != EngineUnavailable {
			p.service.observe(held)
		}
	}
	return p.grant(now, decisions)
}

// Count adds a request that ended without coming to the queue.
func (p *Policy) Count(outcome Outcome) { p.totals[outcome]++ }

// SetLimits changes the limits, which must be valid.
func (p *Policy) SetLimits(now time.Time, limits Limits) []Decision {
	p.limits = limits
	return p.Advance(now)
}

// SetCeiling keeps the executing requests at n or fewer, whatever the limits
// allow; 0 lifts it. Like lower limits it takes nothing away.
func (p *Policy) SetCeiling(now time.Time, n int) []Decision {
	p.ceiling = n
	return p.Advance(now)
}

// SetHeld grants nobody until it is lifted: who comes waits in the queue, as
// long and with as many others as the limits say. It takes nothing away.
func (p *Policy) SetHeld(now time.Time, held bool) []Decision {
	p.held = held
	return p.Advance(now)
}

// PauseBackground grants background work nothing until it is called with false,
// whatever the limits allow. Like lower limits it takes nothing away.
func (p *Policy) PauseBackground(now time.Time, paused bool) []Decision {
	p.paused = paused
	return p.Advance(now)
}

// BackgroundWork is how much background work holds a permit or waits.
func (p *Policy) BackgroundWork() int { return p.ofLane[LaneBackground] + len(p.background) }

// Close forgets who waits and holds: the end of the gate, nothing follows.
// The totals stay; who still waited counts as cancelled.
func (p *Policy) Close() {
	p.totals[CancelledWaiting] += uint64(len(p.clients) + len(p.background))
	p.totals[CancelledExecuting] += uint64(len(p.holders) - p.ofLane[LaneUpkeep])
	p.clients, p.background, p.upkeep = nil, nil, nil
	clear(p.holders)
	clear(p.ofLane)
	p.overload.end()
}

// Advance says that time has passed.
func (p *Policy) Advance(now time.Time) []Decision {
	return p.grant(now, p.expire(now))
}

// Episodes hands over the overloads that have begun or ended since the last call.
func (p *Policy) Episodes() []Episode { return p.overload.take() }

// Wake is when Advance must be called at the latest; false = no need.
func (p *Policy) Wake() (time.Time, bool) {
	var wake time.Time
	if p.overload.now != nil {
		wake = p.overload.now.Last.Add(EpisodeQuiet)
	}
	if len(p.clients) > 0 {
		if overdue := p.oldest().Add(p.limits.Wait); wake.IsZero() || overdue.Before(wake) {
			wake = overdue
		}
	}
	return wake, !wake.IsZero()
}

// oldest is when the client that has waited longest arrived; there is one. It
// need not be the first in the queue.
func (p *Policy) oldest() time.Time {
	oldest := p.clients[0].arrived
	for _, client := range p.clients[1:] {
		if client.arrived.Before(oldest) {
			oldest = client.arrived
		}
	}
	return oldest
}

// Stats describes the policy at now.
func (p *Policy) Stats(now time.Time) Stats {
	stats := Stats{
		Waiting:             len(p.clients),
		BackgroundExecuting: p.ofLane[LaneBackground],
		BackgroundWaiting:   len(p.background),
		BackgroundPaused:    p.paused,
		Limits: StatsLimits{Executing: p.executing(), Waiting: p.limits.Waiting,
			WaitMS: p.limits.Wait.Milliseconds(), Background: p.limits.Background},
		Totals:         make(map[Outcome]uint64, len(p.totals)),
		WaitSeconds:    p.waits.Snapshot(),
		ServiceSeconds: p.holds.Snapshot(),
	}
	for _, h := range p.holders {
		if h.draining {
			stats.Draining++
		} else {
			stats.Executing++
		}
	}
	if len(p.clients) > 0 {
		stats.OldestWaitMS = now.Sub(p.oldest()).Milliseconds()
	}
	for outcome, count := range p.totals {
		stats.Totals[outcome] = count
	}
	return stats
}

// executing is how many requests may execute now.
func (p *Policy) executing() int {
	if p.ceiling > 0 {
		return min(p.ceiling, p.limits.Executing)
	}
	return p.limits.Executing
}

// Idle reports whether nobody holds a permit; then nobody waits either, unless
// it is held.
func (p *Policy) Idle() bool { return len(p.holders) == 0 }

// free is how many permits can be given; negative after the limit was lowered.
func (p *Policy) free() int {
	if p.held {
		return 0
	}
	return p.executing() - len(p.holders)
}

// expire refuses the clients that have waited for Limits.Wait, and ends an
// overload that is over.
func (p *Policy) expire(now time.Time) []Decision {
	p.overload.advance(now)
	var decisions []Decision
	p.clients = slices.DeleteFunc(p.clients, func(client waiter) bool {
		overdue := now.Sub(client.arrived) >= p.limits.Wait
		if overdue {
			decisions = append(decisions, Decision{Ticket: client.ticket, Verdict: Refused, Reason: QueueTimeout})
		}
		return overdue
	})
	// What is offered to them depends on who is left.
	for i, d := range decisions {
		decisions[i] = p.refuse(now, d.Ticket, d.Reason)
	}
	return decisions
}

// grant gives free permits to upkeep, then to the clients in front, and what is
// left to background work. Upkeep is one step at a time that comes back for
// the next, so a client is served between any two.
func (p *Policy) grant(now time.Time, decisions []Decision) []Decision {
	for p.free() > 0 && len(p.upkeep) > 0 {
		next := p.upkeep[0]
		p.upkeep = slices.Delete(p.upkeep, 0, 1)
		decisions = append(decisions, p.hold(now, next.ticket, LaneUpkeep))
	}
	for p.free() > 0 && len(p.clients) > 0 {
		next := p.clients[0]
		p.clients = slices.Delete(p.clients, 0, 1)
		p.waits.Observe(now.Sub(next.arrived))
		decisions = append(decisions, p.hold(now, next.ticket, LaneClient))
	}
	for !p.paused && p.free() > 0 && len(p.background) > 0 && p.ofLane[LaneBackground] < p.limits.Background {
		next := p.background[0]
		p.background = slices.Delete(p.background, 0, 1)
		decisions = append(decisions, p.hold(now, next.ticket, LaneBackground))
	}
	return decisions
}

func (p *Policy) hold(now time.Time, ticket Ticket, lane Lane) Decision {
	p.holders[ticket] = &holder{lane: lane, since: now}
	p.ofLane[lane]++
	return Decision{Ticket: ticket, Verdict: Granted}
}

// drop takes the permit of ticket back and returns what held it, or nil.
func (p *Policy) drop(ticket Ticket) *holder {
	h := p.holders[ticket]
	if h != nil {
		delete(p.holders, ticket)
		p.ofLane[h.lane]--
	}
	return h
}

func (p *Policy) refuse(now time.Time, ticket Ticket, reason Outcome) Decision {
	p.totals[reason]++
	waited := time.Duration(0)
	switch {
	case reason == QueueTimeout:
		waited = p.limits.Wait
	case len(p.clients) > 0:
		waited = now.Sub(p.oldest())
	}
	p.overload.refused(now, reason, waited)
	return Decision{Ticket: ticket, Verdict: Refused, Reason: reason, RetryAfter: p.estimate(now)}
}
