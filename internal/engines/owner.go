package engines

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ondol-app/ondol/internal/llamaserver"
)

type requestKind string

const (
	askTrial    requestKind = "trial"
	askPromote  requestKind = "promote"
	askDrop     requestKind = "drop"
	askRollback requestKind = "rollback"
)

type request struct {
	kind      requestKind
	order     Order
	promotion Promotion
	reply     chan error // buffered; gets one value
}

// message is what the owner's own goroutines tell it; one field is set.
type message struct {
	gone *member // its supervisor has returned, with err
	err  error

	job  int  // which piece of work this is of; 0 = of none
	last bool // that has ended with it
	news news
	does func(*owner) // takes over what the work brought; may be nil
}

// owner is the one goroutine that drives the desk; nobody else touches its
// fields, nor writes the keeper's live and other.
type owner struct {
	keeper   *Keeper
	desk     desk
	state    State
	messages chan message
	work     sync.WaitGroup // every goroutine it started
	stopping bool

	job       int                // number of the piece of work under way
	cancelJob context.CancelFunc // nil when there is none
	exam      *exam              // of the candidate; nil before there was one
	wanted    *Promotion         // of a candidate that is to be live as soon as it may; nil once that was tried
	ending    bool               // the other is to end as soon as nobody uses it
	probation *time.Timer
	waiting   []chan error // who wants to know that the other is gone
	broken    error        // why Run must end
}

func newOwner(k *Keeper) *owner {
	timer := time.NewTimer(0)
	timer.Stop()
	return &owner{keeper: k, desk: desk{phase: Idle}, messages: make(chan message), probation: timer, state: k.State()}
}

// run returns after ctx has ended and no engine is left.
func (o *owner) run(ctx context.Context) error {
	defer o.probation.Stop()
	k := o.keeper
	if err := o.begin(); err != nil {
		return err
	}
	done, idle := ctx.Done(), make(chan struct{})
	for {
		select {
		case <-done:
			done = nil
			o.shutdown(idle)
		case <-idle:
			return o.broken
		case r := <-k.requests:
			o.request(r)
		case m := <-o.messages:
			if o.take(m) && done != nil {
				done = nil
				o.shutdown(idle)
			}
		case <-k.kicks:
			o.look()
		case <-o.probation.C:
			o.step(news{what: overdue})
		}
		o.promoteAsOrdered()
		o.publish()
	}
}

// begin ends what an app that was killed left behind, in the live engine's
// place too, and starts the live engine.
func (o *owner) begin() error {
	k := o.keeper
	if err := llamaserver.Sweep(k.config.Places[1].RunDir); err != nil {
		return fmt.Errorf("end an earlier candidate: %w", err)
	}
	known, err := load(k.config.File)
	if err != nil {
		k.config.Logger.Warn("Candidates are forgotten", "error", err)
	}
	o.state.Candidate, o.state.Earlier = known.Candidate, known.Earlier
	o.start(k.now())
	o.publish()
	return nil
}

// shutdown ends everything; idle is closed when all that was started returned.
func (o *owner) shutdown(idle chan struct{}) {
	o.stopping = true
	o.cancel()
	k := o.keeper
	k.live.cancel()
	if k.other != nil {
		k.other.cancel()
	}
	go func() {
		o.work.Wait()
		close(idle)
	}()
}

// post hands the owner a message; it is taken before run returns.
func (o *owner) post(m message) { o.messages <- m }

// take takes a message; it says whether the keeper cannot go on.
func (o *owner) take(m message) (fatal bool) {
	switch {
	case m.gone != nil:
		return o.memberGone(m.gone, m.err)
	case m.job != 0 && m.job != o.job:
		return false // of work that was given up
	}
	if m.does != nil {
		m.does(o)
	}
	if m.job != 0 && m.last {
		o.cancelJob = nil
	}
	o.step(m.news)
	return false
}

func (o *owner) memberGone(m *member, err error) (fatal bool) {
	k := o.keeper
	if m == k.live {
		if !o.stopping && err == nil {
			err = errors.New("the engine's supervisor ended")
		}
		o.broken = errors.Join(o.broken, err)
		return !o.stopping
	}
	if err != nil {
		k.config.Logger.Error("Engine beside the live one ended badly", "error", err)
	}
	k.mu.Lock()
	k.other = nil
	k.mu.Unlock()
	o.ending = false
	o.noteEngine(m)
	o.step(news{what: gone})
	for _, reply := range o.waiting {
		reply <- err
	}
	o.waiting = nil
	return false
}

// look sees what the engines have come to.
func (o *owner) look() {
	k := o.keeper
	if o.desk.phase == Probation {
		if p := k.live.failed(); p != nil {
			o.giveWay(p, liveBroke)
		}
	}
	m := k.other
	if m == nil {
		return
	}
	if o.ending {
		o.endUnused()
		return
	}
	switch o.desk.phase {
	case Starting, Replacing, Checking, Checked, Filling:
		o.noteEngine(m)
		if p := m.failed(); p != nil {
			o.giveUp(p)
		} else if m.ready() {
			o.step(news{what: ready})
		}
	}
}

// endUnused ends the other engine if nobody has borrowed it.
func (o *owner) endUnused() {
	k := o.keeper
	k.mu.Lock()
	unused := k.other != nil && k.other.uses == 0
	k.mu.Unlock()
	if unused {
		k.other.cancel()
	}
}

// step lets the desk decide and acts.
func (o *owner) step(n news) refusal {
	if o.stopping {
		return ""
	}
	before := o.desk.phase
	acts, no := o.desk.step(n)
	if no != "" {
		return no
	}
	for _, a := range acts {
		o.act(a)
	}
	if o.desk.phase != before {
		o.state.Since = time.Now().UTC()
		o.keeper.config.Logger.Info("Engine beside the live one", "from", before, "to", o.desk.phase, "because", n.what)
	}
	return ""
}

func (o *owner) act(a act) {
	k := o.keeper
	switch a {
	case doHold:
		o.hold()
	case doRelease:
		live := k.live
		o.do(0, func(ctx context.Context) message {
			if err := live.server.Start(ctx); err != nil {
				k.config.Logger.Error("Start the live engine again", "error", err)
			}
			return message{}
		})
	case doLaunch:
		o.launch()
	case doExamine:
		o.examine()
	case doFill:
		o.fill()
	case doCancel:
		o.cancel()
	case doSwap:
		o.swap()
	case doArm:
		until := time.Now().UTC().Add(k.config.Probation)
		o.state.Probation = &until
		o.probation.Reset(k.config.Probation)
		o.promoted()
	case doDisarm:
		o.state.Probation = nil
		o.probation.Stop()
	case doSave:
		o.save()
	case doEnd:
		o.ending = true
		o.endUnused()
	}
}

// do runs a piece of work beside the owner and has it take what comes of it.
func (o *owner) do(job int, work func(ctx context.Context) message) {
	ctx, cancel := context.WithCancel(context.Background())
	if job != 0 {
		o.cancelJob = cancel
	}
	o.work.Go(func() {
		defer cancel()
		m := work(ctx)
		m.last = true
		if m.news.what != held { // that must be known, also when nobody wants it any more
			m.job = job
		}
		o.post(m)
	})
}

// begins numbers a new piece of work that can be given up.
func (o *owner) begins() int {
	o.cancel()
	o.job++
	return o.job
}

// cancel gives up the work under way; what it still brings is dropped.
func (o *owner) cancel() {
	if o.cancelJob != nil {
		o.cancelJob()
		o.cancelJob = nil
		o.job++
	}
}

// launch starts the candidate that was ordered, in the place that is free.
func (o *owner) launch() {
	k := o.keeper
	m, err := k.build(o.state.Candidate.Setup, 1-k.live.place)
	if err != nil { // it was built before; what changed meanwhile is its file
		o.giveUp(&llamaserver.Problem{Code: llamaserver.CodeStart, Message: err.Error(), Remedy: llamaserver.RemedyLog, At: time.Now().UTC()})
		o.ending = false
		o.step(news{what: gone})
		return
	}
	k.mu.Lock()
	k.other = m
	k.mu.Unlock()
	o.start(m)
}

// swap makes the other engine live.
func (o *owner) swap() {
	k := o.keeper
	k.mu.Lock()
	k.other.rename(k.generation.Add(1))
	k.live, k.other = k.other, k.live
	k.mu.Unlock()
	k.live.restarts = k.live.server.Snapshot().Restarts
	o.state.Live = k.live.setup
	if k.config.Index != nil {
		o.do(0, func(ctx context.Context) message {
			k.config.Index.Switched(ctx)
			return message{}
		})
	}
}

func (o *owner) publish() {
	o.state.Phase = o.desk.phase
	s := o.state
	if c := s.Candidate; c != nil {
		shown := *c
		s.Candidate = &shown
	}
	o.keeper.publish(&s)
}

// change replaces the candidate by a changed copy: what was handed out stays
// as it was.
func (o *owner) change(how func(*Candidate)) {
	if o.state.Candidate == nil {
		return
	}
	changed := *o.state.Candidate
	how(&changed)
	o.state.Candidate = &changed
}

// noteEngine takes down how the candidate's engine is.
func (o *owner) noteEngine(m *member) {
	if o.state.Candidate == nil || !m.setup.Equal(o.state.Candidate.Setup) {
		return
	}
	now := m.server.Snapshot()
	o.change(func(c *Candidate) { c.Engine = &now })
}

// remember writes down what a later start is to know.
func (o *owner) remember() {
	r := record{Candidate: o.state.Candidate, Earlier: o.state.Earlier}
	if err := r.save(o.keeper.config.File); err != nil {
		o.keeper.config.Logger.Error("Write down what is known of candidates", "error", err)
	}
}

func cloneSetup(s Setup) Setup {
	s.Flags = slices.Clone(s.Flags)
	return s
}
