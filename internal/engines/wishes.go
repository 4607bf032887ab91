package engines

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/settings"
)

// Kinds of events.
const (
	KindStarted    event.Kind = "candidate.started"
	KindChecked    event.Kind = "candidate.checked"
	KindFailed     event.Kind = "candidate.failed"
	KindDropped    event.Kind = "candidate.dropped"
	KindPromoted   event.Kind = "engine.promoted"
	KindProved     event.Kind = "engine.proved"
	KindRolledBack event.Kind = "engine.rolled_back"
)

// request answers a wish.
func (o *owner) request(r request) {
	if o.stopping {
		r.reply <- ErrClosed
		return
	}
	var err error
	switch r.kind {
	case askTrial:
		err = o.try(r.order)
	case askPromote:
		err = o.promote(r.promotion)
	case askRollback:
		err = o.rollback(r.order.InPlace)
	case askDrop:
		if err = o.wishes(news{what: wantDrop}); err == nil {
			o.change(func(c *Candidate) {
				if c.Outcome == Pending {
					c.Outcome = Dropped
				}
			})
			o.tell(KindDropped)
			o.remember()
			if o.keeper.other != nil {
				o.publish()
				o.waiting = append(o.waiting, r.reply)
				return
			}
		}
	}
	o.publish() // whoever asked sees it
	r.reply <- err
}

func (o *owner) wishes(n news) error {
	if no := o.step(n); no != "" {
		return refused(no, o.desk.phase)
	}
	return nil
}

// try starts a candidate.
func (o *owner) try(order Order) error {
	return o.launchAs(news{what: wantTrial, inPlace: order.InPlace}, Candidate{
		Order: order, Setup: order.Apply(o.keeper.live.setup), At: time.Now().UTC(), Outcome: Pending,
	})
}

// rollback brings the earlier engine back.
func (o *owner) rollback(inPlace bool) error {
	if o.desk.phase == Probation {
		o.giveWay(nil, wantRollback)
		return nil
	}
	e := o.state.Earlier
	if e == nil || time.Now().After(e.Until) {
		return &RefusedError{Code: CodeNoEarlier, Message: "there is no earlier engine to go back to",
			Remedy: "an engine is kept for rollback for a limited time after a promotion; try it as a candidate instead",
			Args:   map[string]string{"kept": o.keeper.config.Keep.String()}}
	}
	return o.launchAs(news{what: wantRollback, inPlace: inPlace}, Candidate{
		Order: Order{InPlace: inPlace}, Setup: cloneSetup(e.Setup), Rollback: true, At: time.Now().UTC(), Outcome: Pending,
	})
}

// launchAs starts c beside the live engine, or in its place, when that can be.
func (o *owner) launchAs(n news, c Candidate) error {
	k := o.keeper
	ahead := o.desk // a copy: only whether it may
	if _, no := ahead.step(n); no != "" {
		return refused(no, o.desk.phase)
	}
	model, err := k.possible(c.Setup)
	if err != nil {
		return err
	}
	c.Model = strings.TrimSuffix(filepath.Base(model), ".gguf")
	if k.config.Fits != nil {
		if err := k.config.Fits(c.Setup, !n.inPlace); err != nil {
			return err
		}
	}
	o.state.Candidate, o.exam, o.wanted = &c, nil, c.Order.Promote
	o.tell(KindStarted)
	o.remember()
	return o.wishes(n)
}

// possible returns the path of the setup's model. It refuses what can be seen
// to fail before anything is started, or stopped for it.
func (k *Keeper) possible(setup Setup) (model string, err error) {
	config, err := k.config.Build(setup, k.config.Places[1])
	if err != nil {
		return "", impossible(err)
	}
	if _, err := k.build(setup, 1); err != nil {
		return "", impossible(err)
	}
	if _, err := os.Stat(config.Model); err != nil {
		return "", impossible(err)
	}
	return config.Model, nil
}

// impossible refuses a setup. What is wrong with it is among the arguments,
// where that has a sentence of its own: the code and the placeholders of a
// settings' problem, or "flag", or "missing" with the path.
func impossible(err error) *RefusedError {
	e := &RefusedError{Code: CodeImpossible, Message: err.Error(), Remedy: "correct the candidate's model, profile or flags",
		Args: map[string]string{}}
	if wrong, ok := errors.AsType[*settings.ProblemsError](err); ok && len(wrong.Problems) > 0 {
		maps.Copy(e.Args, wrong.Problems[0].Args)
		e.Args["problem"] = wrong.Problems[0].Code
	} else if reserved, ok := errors.AsType[*llamaserver.ReservedFlagError](err); ok {
		e.Args["problem"], e.Args["flag"] = "flag", reserved.Flag
	} else if at, ok := errors.AsType[*fs.PathError](err); ok {
		e.Args["problem"], e.Args["path"] = "missing", at.Path
	}
	e.Args["message"] = err.Error()
	return e
}

// promote makes the candidate live, if nothing speaks against it.
func (o *owner) promote(p Promotion) error {
	c, k := o.state.Candidate, o.keeper
	if o.desk.phase != Checked || c == nil || c.Verdict == nil {
		if o.desk.phase == Idle || o.desk.phase == Checked {
			return refused(refusedNone, o.desk.phase)
		}
		return refused(refusedBusy, o.desk.phase)
	}
	v := c.Verdict
	if !v.Pass && (!p.Force || v.Fatal()) {
		e := &RefusedError{Code: CodeChecks, Message: "the candidate did not pass its checks", Findings: v.Against(),
			Remedy: "see `ondol engine candidate status`", Args: map[string]string{"failed": strconv.Itoa(len(v.Against())), "fatal": strconv.FormatBool(v.Fatal())}}
		if !v.Fatal() {
			e.Remedy += "; --force promotes it all the same"
		}
		return e
	}
	if m := k.other; m != nil && !m.ready() {
		o.giveUp(m.failed())
		return refused(refusedNone, o.desk.phase)
	}
	fill := k.config.Index != nil && !p.Now && v.Candidate.Fingerprint != v.Live.Fingerprint
	return o.wishes(news{what: wantPromote, fill: fill})
}

// promoteAsOrdered makes a candidate live whose order says so, once it was
// judged and nothing speaks against it. It is tried once: what keeps it from
// being live is for people to see.
func (o *owner) promoteAsOrdered() {
	c := o.state.Candidate
	if o.wanted == nil || o.desk.phase != Checked || c == nil || c.Verdict == nil {
		return
	}
	p := *o.wanted
	o.wanted = nil
	p.Force = p.Force || c.Verdict.Unopposed()
	if err := o.promote(p); err != nil {
		o.keeper.config.Logger.Info("The candidate is not promoted", "because", err)
	}
}

// giveUp ends a candidate that failed.
func (o *owner) giveUp(p *llamaserver.Problem) {
	if p == nil {
		p = &llamaserver.Problem{Code: llamaserver.CodeUnresponsive, Message: "the engine is not ready", Remedy: llamaserver.RemedyLog, At: time.Now().UTC()}
	}
	o.change(func(c *Candidate) { c.Outcome, c.Problem, c.Progress = Failed, p, nil })
	o.tell(KindFailed, "problem", string(p.Code), "detail", p.Message)
	o.remember()
	o.step(news{what: broke})
}

// giveWay brings the earlier engine back during the probation.
func (o *owner) giveWay(p *llamaserver.Problem, why happening) {
	o.noteEngine(o.keeper.live)
	o.change(func(c *Candidate) { c.Outcome, c.Problem = RolledBack, p })
	problem, detail := "asked", ""
	if p != nil {
		problem, detail = string(p.Code), p.Message
	}
	o.step(news{what: why})
	o.tell(KindRolledBack, "problem", problem, "detail", detail)
	o.remember()
}

// promoted takes down that the candidate is live.
func (o *owner) promoted() {
	o.change(func(c *Candidate) { c.Outcome = Promoted })
	o.tell(KindPromoted)
	o.remember()
}

// save makes the live engine the settings' own. Until then a start would run
// the earlier one.
func (o *owner) save() {
	k := o.keeper
	m, setup := k.live, cloneSetup(k.live.setup)
	o.do(0, func(context.Context) message {
		if err := k.config.Save(setup); err != nil {
			return message{does: func(o *owner) { o.unsaved(m, err) }}
		}
		return message{does: func(o *owner) { o.proved(m) }}
	})
}

func (o *owner) unsaved(m *member, err error) {
	if o.desk.phase == Probation && o.keeper.live == m {
		o.giveWay(&llamaserver.Problem{Code: "settings", Message: "save the engine's settings: " + err.Error(), Remedy: llamaserver.RemedyHome, At: time.Now().UTC()}, unsaved)
	}
}

func (o *owner) proved(m *member) {
	if o.desk.phase != Probation || o.keeper.live != m {
		// Somebody had the earlier engine back while the settings were
		// written: they say the wrong thing now.
		o.saveAgain()
		return
	}
	earlier := o.keeper.other
	o.state.Earlier = &Earlier{Setup: cloneSetup(earlier.setup), Fingerprint: earlier.server.Snapshot().Fingerprint,
		Until: time.Now().UTC().Add(o.keeper.config.Keep)}
	o.noteEngine(o.keeper.live)
	o.change(func(c *Candidate) { c.Outcome = Proved })
	o.step(news{what: saved})
	o.tell(KindProved)
	o.remember()
}

// saveAgain writes the settings of the engine that is live after all.
func (o *owner) saveAgain() {
	k, setup := o.keeper, cloneSetup(o.keeper.live.setup)
	o.do(0, func(context.Context) message {
		if err := k.config.Save(setup); err != nil {
			k.config.Logger.Error("Save the settings of the engine that came back", "error", err)
		}
		return message{}
	})
}

// tell records an event about the candidate.
func (o *owner) tell(kind event.Kind, more ...string) {
	c := o.state.Candidate
	if c == nil {
		return
	}
	args := append([]string{"model", c.Model, "flags", strings.Join(c.Setup.Flags, " "), "outcome", c.Outcome.String()}, more...)
	o.keeper.config.Notify(event.New(kind, args...))
}
