package llamaserver

import (
	"context"
	"time"

	"github.com/ondol-app/ondol/internal/canary"
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
	began   time.Time // the last launch
}

func newOwner(s *Server) *owner {
	retry := time.NewTimer(0)
	retry.Stop()
	return &owner{
		server:  s,
		machine: newMachine(s.config.Restart, s.config.NextGeneration, time.Now().UTC()),
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
		case <-o.server.wake:
			o.step(event{kind: eventWake})
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
	if r.event.kind == eventUnload && !o.unused(r.unusedSince) {
		r.reply <- ErrInUse
		return
	}
	switch {
	case r.result != nil && r.generation == o.machine.generation:
		o.checked(*r.result)
	case r.event.kind == eventStart, r.event.kind == eventRestart:
		o.facts.aloneOnly = false // a person wants to see it tried
	}
	if p := r.event.problem; p != nil {
		p.At, p.Log = time.Now().UTC(), o.server.log.last()
	}
	o.step(r.event)
	if o.machine.state == Draining && r.event.kind != eventStart && r.event.kind != eventWake && !gone {
		o.waiting = append(o.waiting, r.reply)
		return
	}
	r.reply <- nil
}

// unused says whether the engine that runs has had no call since then.
func (o *owner) unused(since time.Time) bool {
	if o.facts.instance == nil {
		return false
	}
	return !o.facts.instance.Client.Activity().Last.After(since)
}

func (o *owner) update(u update) {
	if u.learn != nil {
		apart := o.facts.oneAtATime != nil
		u.learn(&o.facts)
		if apart && o.facts.oneAtATime == nil {
			o.server.config.Notify(news.New(KindTogether))
		}
	}
	if u.result != nil {
		o.checked(*u.result)
	}
	var answered []chan error
	if u.kind == eventEnded {
		if o.machine.asleep && o.facts.instance != nil {
			o.facts.asleep = o.facts.instance
		}
		o.engine, o.facts.instance, o.facts.pid = nil, nil, 0
		answered, o.waiting = o.waiting, nil
	}
	o.step(event{kind: u.kind, generation: o.machine.generation, problem: u.problem})
	// After the step: who is told that the engine has ended finds it so in Status.
	for _, reply := range answered {
		if u.problem != nil && u.problem.Code == CodeStuck {
			reply <- u.problem
		} else {
			reply <- nil
		}
	}
}

// step lets the machine decide, acts, and tells the world.
func (o *owner) step(e event) {
	before := o.machine.state
	effect := o.machine.step(e, time.Now().UTC())
	if p := e.problem; p != nil && (effect == doKill || e.kind == eventEnded && !permanent[p.Code]) {
		o.server.config.Evidence(o.evidence(p, before))
	}
	o.arm()
	o.tell(before)
	// First the word, then the deed: whose call breaks finds out why.
	o.server.publish(o.snapshot())
	switch effect {
	case doLaunch:
		o.launch()
	case doEnd:
		o.engine.end(false)
	case doKill:
		o.engine.end(true)
	}
}

// checked takes note of what canaries said.
func (o *owner) checked(r canary.Result) {
	notify := o.server.config.Notify
	last := o.facts.canary
	o.facts.canary = &r
	if r.OK() {
		if last != nil && !last.OK() {
			notify(news.New(KindCanaryPassed))
		}
		return
	}
	p := canaryProblem(r)
	p.At, p.Log = r.At, o.server.log.last()
	notify(news.New(KindCanaryFailed, "code", r.Code.String(), "text", r.Text, "detail", p.Message))
	if r.Code != canary.Together {
		return
	}
	o.facts.aloneOnly = o.facts.aloneOnly || r.Poisoned
	if o.facts.oneAtATime == nil {
		o.facts.oneAtATime = apart(r)
		notify(news.New(KindOneAtATime, "text", r.Text, "detail", o.facts.oneAtATime.Detail))
		o.server.config.Evidence(o.evidence(p, o.machine.state))
	}
	if i := o.facts.instance; i != nil && !i.OneAtATime { // readers have the old one: it is not touched
		changed := *i
		changed.OneAtATime = true
		o.facts.instance = &changed
	}
}

func (o *owner) launch() {
	// Not a child of Run's context: the machine decides when an engine ends.
	ctx, cancel := context.WithCancel(context.Background())
	e := &engine{
		config: &o.server.config, log: o.server.log, inspector: &o.inspect, generation: o.machine.generation, cancel: cancel,
		aloneOnly: o.facts.aloneOnly, emit: func(u update) { o.updates <- u },
	}
	o.engine, o.began = e, time.Now().UTC()
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
	c := &snapshot{load: f.load, ends: m.ends, status: Status{
		State: m.state, Cause: m.cause, Since: m.since, Generation: m.generation, Restarts: m.count, LastError: m.lastError,
		PID: f.pid, Binary: f.binary, Version: f.version, Profile: o.server.config.Profile.Name, Flags: f.flags,
		Model: f.model, Memory: f.memory, Fingerprint: f.fingerprint, Probe: f.probe, Canary: f.canary, OneAtATime: f.oneAtATime,
		LoadMS: f.load.Milliseconds(),
	}}
	if c.status.Flags == nil {
		c.status.Flags = o.server.config.Profile.Flags
	}
	if !m.retryAt.IsZero() {
		at := m.retryAt
		c.status.RetryAt = &at
	}
	switch {
	case m.state == Ready || m.state == Degraded:
		c.instance = f.instance
	case m.asleep && m.state == Draining:
		c.asleep = f.instance
	case m.asleep:
		c.asleep = f.asleep
		c.status.Fingerprint = f.asleep.Fingerprint // also while the next start looks for its program
	}
	return c
}
