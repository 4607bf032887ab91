package llamaserver

import (
	"context"
	"time"

	news "github.com/ondol-app/ondol/internal/event"
)

// owner is the one goroutine that drives the machine; nobody else touches its fields.
type owner struct {
	server  *Server
	machine *machine
	facts   facts
	inspect inspector    // lent to the engine
	engine  *engine      // nil when none is active
	updates chan update  // from the engine
	waiting []chan error // who wants to know when the draining engine has ended
	retry   *time.Timer
}

func newOwner(s *Server) *owner {
	retry := time.NewTimer(0)
	retry.Stop()
	return &owner{
		server:  s,
		machine: newMachine(s.config.Restart, time.Now().UTC()),
		facts:   facts{model: Model{Path: s.config.Model, Name: modelName(s.config.Model)}},
		updates: make(chan update),
		retry:   retry,
	}
}

// run returns after ctx has ended and no engine is left.
func (o *owner) run(ctx context.Context) error {
	defer o.retry.Stop()
	if o.server.config.Autostart {
		o.step(event{kind: eventStart})
	}
	done := ctx.Done()
	for !o.machine.final || o.machine.active {
		select {
		case <-done:
			done = nil // seen
			o.step(event{kind: eventShutdown})
		case r := <-o.server.requests:
			o.request(r)
		case u := <-o.updates:
			o.update(u)
		case <-o.retry.C:
			o.step(event{kind: eventRetry})
		}
	}
	if p := o.machine.lastError; p != nil && p.Code == CodeStuck {
		return p
	}
	return nil
}

func (o *owner) request(r request) {
	gone := r.event.kind == eventReplace && r.event.generation != o.machine.generation
	if p := r.event.problem; p != nil {
		p.At, p.Log = time.Now().UTC(), o.server.log.last()
	}
	o.step(r.event)
	if o.machine.state == Draining && r.event.kind != eventStart && !gone {
		o.waiting = append(o.waiting, r.reply)
		return
	}
	r.reply <- nil
}

func (o *owner) update(u update) {
	if u.learn != nil {
		u.learn(&o.facts)
	}
	if u.kind == eventEnded {
		o.engine, o.facts.instance, o.facts.pid = nil, nil, 0
		for _, reply := range o.waiting {
			if u.problem != nil && u.problem.Code == CodeStuck {
				reply <- u.problem
			} else {
				reply <- nil
			}
		}
		o.waiting = nil
	}
	o.step(event{kind: u.kind, problem: u.problem})
}

// step lets the machine decide, acts, and tells the world.
func (o *owner) step(e event) {
	before := o.machine.state
	switch o.machine.step(e, time.Now().UTC()) {
	case doLaunch:
		o.launch()
	case doEnd:
		o.engine.end(false)
	case doKill:
		o.engine.end(true)
	}
	o.arm()
	o.tell(before)
	o.server.publish(o.snapshot())
}

func (o *owner) launch() {
	// Not a child of Run's context: the machine decides when an engine ends.
	ctx, cancel := context.WithCancel(context.Background())
	e := &engine{
		config: &o.server.config, log: o.server.log, inspector: &o.inspect, generation: o.machine.generation, cancel: cancel,
		emit: func(u update) { o.updates <- u },
	}
	o.engine = e
	go func() { // its last word is taken before run returns
		defer cancel()
		e.emit(update{kind: eventEnded, problem: e.run(ctx)})
	}()
}

// arm sets the timer to when the machine wants to try again, if it does.
func (o *owner) arm() {
	o.retry.Stop()
	if at := o.machine.retryAt; !at.IsZero() {
		o.retry.Reset(time.Until(at))
	}
}

func (o *owner) tell(before State) {
	m := o.machine
	if m.state == before {
		return
	}
	e := news.New(KindState, "role", o.server.config.Role.String(), "from", before.String(), "to", m.state.String(), "cause", m.cause.String())
	if m.lastError != nil && (m.state == Failed || m.state == Degraded || m.cause == CauseProblem || m.cause == CauseReplaced) {
		e.Args["problem"] = string(m.lastError.Code)
	}
	o.server.config.Notify(e)
	logger := o.server.config.Logger.With("from", before, "to", m.state, "cause", m.cause, "start", m.generation)
	switch {
	case m.state == Failed && m.lastError != nil:
		logger.Error("engine failed", "code", m.lastError.Code, "problem", m.lastError.Message, "retry_at", m.retryAt)
	case m.state == Degraded && m.lastError != nil:
		logger.Warn("engine degraded", "problem", m.lastError.Message)
	default:
		logger.Info("engine state", "pid", o.facts.pid)
	}
}

func (o *owner) snapshot() *snapshot {
	m, f := o.machine, o.facts
	c := &snapshot{load: f.load, status: Status{
		State: m.state, Cause: m.cause, Since: m.since, Generation: m.generation, Restarts: m.count, LastError: m.lastError,
		PID: f.pid, Binary: f.binary, Version: f.version, Profile: o.server.config.Profile.Name, Flags: f.flags,
		Model: f.model, Memory: f.memory, Fingerprint: f.fingerprint, Probe: f.probe,
	}}
	if c.status.Flags == nil {
		c.status.Flags = o.server.config.Profile.Flags
	}
	if !m.retryAt.IsZero() {
		at := m.retryAt
		c.status.RetryAt = &at
	}
	if m.state == Ready || m.state == Degraded {
		c.instance = f.instance
	}
	return c
}
