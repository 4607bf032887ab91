package llamaserver

import (
	"time"

	"github.com/ondol-app/ondol/internal/trust"
)

// eventKind is what may happen to the engine.
type eventKind int

const (
	eventNone      eventKind = iota // only something was learnt
	eventStart                      // a person or the app wants it
	eventStop                       // nobody wants it
	eventRestart                    // a person wants a fresh one
	eventReplace                    // its user does not trust generation any longer
	eventShutdown                   // the app ends
	eventLoading                    // the process runs
	eventChecking                   // it says ok
	eventReady                      // the probe is valid
	eventHealthy                    // a health check succeeded
	eventUnhealthy                  // a health check failed
	eventEnded                      // no process is left; problem tells why, nil when it was asked to
	eventRetry                      // the back-off is over
	eventUnload                     // nobody has used it for long
	eventWake                       // somebody is about to use it
)

type event struct {
	kind       eventKind
	generation uint64   // replace: the one that is not trusted
	problem    *Problem // ended, unhealthy, replace
}

// effect is what the owner has to do after an event.
type effect int

const (
	doNothing effect = iota
	doLaunch         // start an engine; no other runs
	doEnd            // end it: SIGTERM, then SIGKILL. An ended event follows
	doKill           // end it at once. An ended event follows
)

// unhealthyLimit is how many health checks in a row may fail before the engine is taken for dead.
const unhealthyLimit = 3

// machine decides. It is driven by events with their times and answers with
// effects; it does nothing itself, so every transition is tested without a process.
//
// Invariants: active is true from doLaunch to the ended event; at most one
// engine is active, and draining, starting, loading, checking, ready and
// degraded all imply active. Unloaded implies asleep, and asleep implies wanted.
type machine struct {
	state      State
	cause      Cause
	since      time.Time
	retryAt    time.Time // zero unless failed and to be tried again
	generation uint64
	next       func() uint64 // the generation of the next start
	count      int           // automatic restarts
	lastError  *Problem
	ends       []ending // of the last starts, oldest first

	wanted    bool
	asleep    bool // unloaded, or about to be, or on its way back from that; nobody is refused meanwhile
	awaited   bool // of one that is being unloaded: somebody wants it back
	active    bool
	final     bool     // the app ends: nothing is started any more
	pending   *Problem // why a draining engine is being replaced; nil when it was asked for
	readyAt   time.Time
	unhealthy int // failed checks in a row
	restarts  restarts
}

// newMachine is a machine at rest. next numbers its starts, rising; nil counts
// from 1.
func newMachine(policy RestartPolicy, next func() uint64, now time.Time) *machine {
	m := &machine{state: Stopped, cause: CauseRequested, since: now, restarts: restarts{policy: policy}, next: next}
	if next == nil {
		m.next = func() uint64 { return m.generation + 1 }
	}
	return m
}

// step takes one event and says what to do.
func (m *machine) step(e event, now time.Time) effect {
	switch e.kind {
	case eventStart:
		return m.start(now)
	case eventStop, eventShutdown:
		m.wanted, m.asleep = false, false
		m.final = m.final || e.kind == eventShutdown
		m.pending = nil
		cause := CauseRequested
		if m.final {
			cause = CauseShutdown
		}
		return m.end(cause, now)
	case eventRestart:
		if !m.active {
			return m.start(now)
		}
		m.wanted, m.asleep = !m.final, false
		m.pending = nil
		m.restarts.reset()
		return m.drain(CauseRequested, doEnd, now)
	case eventReplace:
		if !m.active || e.generation != m.generation {
			return doNothing // that one is gone already
		}
		return m.replace(e.problem, CauseReplaced, now)
	case eventLoading:
		return m.progress(Starting, Loading, now)
	case eventChecking:
		return m.progress(Loading, Checking, now)
	case eventReady:
		m.readyAt, m.unhealthy, m.asleep = now, 0, false
		return m.progress(Checking, Ready, now)
	case eventHealthy:
		m.unhealthy = 0
		return m.progress(Degraded, Ready, now)
	case eventUnhealthy:
		return m.sick(e.problem, now)
	case eventEnded:
		return m.ended(e.problem, now)
	case eventRetry:
		if m.state != Failed || m.retryAt.IsZero() || m.retryAt.After(now) {
			return doNothing // overtaken by a person's wish
		}
		m.count++
		return m.launch(CauseRetry, now)
	case eventUnload:
		if m.state != Ready {
			return doNothing
		}
		m.asleep, m.awaited = true, false
		m.note(trust.EndUnloaded)
		return m.drain(CauseIdle, doEnd, now)
	case eventWake:
		m.awaited = true
		if m.state != Unloaded {
			return doNothing // on its way, or nobody's to wake
		}
		return m.launch(CauseWoken, now)
	}
	return doNothing
}

func (m *machine) enter(s State, c Cause, now time.Time) {
	m.state, m.cause, m.since = s, c, now
	m.retryAt = time.Time{}
}

func (m *machine) start(now time.Time) effect {
	if m.final {
		return doNothing
	}
	m.wanted, m.awaited = true, true
	if m.active {
		return doNothing // running, or draining: then it starts anew once that has ended
	}
	m.restarts.reset()
	return m.launch(CauseRequested, now)
}

func (m *machine) launch(c Cause, now time.Time) effect {
	m.active = true
	m.generation = m.next()
	m.readyAt, m.unhealthy = time.Time{}, 0
	m.enter(Starting, c, now)
	return doLaunch
}

// end goes to stopped, through draining when a process runs.
func (m *machine) end(c Cause, now time.Time) effect {
	if m.active {
		return m.drain(c, doEnd, now)
	}
	if m.state != Stopped {
		m.enter(Stopped, c, now)
	}
	return doNothing
}

func (m *machine) drain(c Cause, how effect, now time.Time) effect {
	if m.state == Draining {
		return doNothing // under way
	}
	m.enter(Draining, c, now)
	m.note(trust.EndAsked)
	return how
}

// maxEnds is how many ends are remembered: whoever was at an engine asks soon.
const maxEnds = 8

// ending is how a start ended.
type ending struct {
	generation uint64
	end        trust.End
}

// note takes down how the present start ends. The first word stands.
func (m *machine) note(end trust.End) {
	if n := len(m.ends); n > 0 && m.ends[n-1].generation == m.generation {
		return
	}
	m.ends = append(m.ends[max(0, len(m.ends)+1-maxEnds):len(m.ends):len(m.ends)], ending{m.generation, end}) // readers have the old ones
}

// endOf is what a problem of an engine in use says of its end.
func endOf(p *Problem) trust.End {
	switch p.Code {
	case CodeCrash, CodeWatchdog:
		return trust.EndCrash
	case CodeHang, CodeUnresponsive:
		return trust.EndHang
	}
	return trust.EndReplaced
}

// replace ends an engine that cannot be trusted, as a failure of its own.
func (m *machine) replace(p *Problem, c Cause, now time.Time) effect {
	if m.state == Draining {
		return doNothing
	}
	m.pending = p
	m.note(endOf(p))
	return m.drain(c, doKill, now)
}

// progress enters to, if the engine still stands at from; a step that a stop
// has overtaken changes nothing.
func (m *machine) progress(from, to State, now time.Time) effect {
	if m.state == from {
		m.enter(to, CauseProgress, now)
	}
	return doNothing
}

func (m *machine) sick(p *Problem, now time.Time) effect {
	if m.state != Ready && m.state != Degraded {
		return doNothing
	}
	m.lastError = p
	m.unhealthy++
	if m.unhealthy >= unhealthyLimit {
		return m.replace(p, CauseProblem, now)
	}
	if m.state == Ready {
		m.enter(Degraded, CauseProblem, now)
	}
	return doNothing
}

// ended decides what follows an engine that is gone.
func (m *machine) ended(p *Problem, now time.Time) effect {
	asked := m.state == Draining
	m.active = false
	if asked && p == nil {
		p, m.pending = m.pending, nil
	}
	if p != nil {
		m.lastError = p
		m.asleep = false // whoever waits is told why
		m.note(endOf(p))
	}
	switch {
	case p != nil && p.Code == CodeStuck:
		m.enter(Failed, CauseProblem, now) // it may still be there: "stopped" would be a lie, a second start a danger
		return doNothing
	case !m.wanted:
		cause := CauseRequested
		if m.final {
			cause = CauseShutdown
		}
		m.enter(Stopped, cause, now)
		return doNothing
	case p == nil && m.asleep && !m.awaited:
		m.enter(Unloaded, CauseIdle, now)
		return doNothing
	case p == nil && m.asleep:
		return m.launch(CauseWoken, now)
	case p == nil:
		return m.launch(CauseRequested, now)
	case permanent[p.Code]:
		m.enter(Failed, CauseProblem, now)
		return doNothing
	}
	var readyFor time.Duration
	if !m.readyAt.IsZero() {
		readyFor = now.Sub(m.readyAt)
	}
	backoff, ok := m.restarts.failed(now, readyFor)
	if !ok {
		m.enter(Failed, CauseBudget, now)
		return doNothing
	}
	m.enter(Failed, CauseProblem, now)
	m.retryAt = now.Add(backoff)
	return doNothing
}
