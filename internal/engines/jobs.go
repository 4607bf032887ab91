package engines

import (
	"context"
	"strconv"
	"time"

	"github.com/ondol-app/ondol/internal/llamaserver"
)

// Names of the trial's paths.
const (
	pathLive      = "live"
	pathCandidate = "candidate"
)

// hold stops the live engine, so that another can run in its place. For a
// trial it is measured first: afterwards there is nothing to compare with.
func (o *owner) hold() {
	k, live, job := o.keeper, o.keeper.live, o.begins()
	back := o.state.Candidate.Rollback || o.desk.phase == Replacing
	x := o.newExam()
	o.do(job, func(ctx context.Context) message {
		if !back {
			tell := o.teller(job)
			x.live = x.measure(ctx, pathLive, live.server, tell)
			x.workload(ctx, tell, x.live)
		}
		if ctx.Err() != nil {
			return message{news: news{what: held}}
		}
		if err := live.server.Stop(context.WithoutCancel(ctx)); err != nil {
			k.config.Logger.Error("Stop the live engine for another", "error", err)
		}
		return message{news: news{what: held}}
	})
}

// newExam makes the examination of the present candidate.
func (o *owner) newExam() *exam {
	c := o.state.Candidate
	o.exam = &exam{bench: o.keeper.config.Bench, quick: c.Order.Quick, inPlace: c.Order.InPlace}
	return o.exam
}

// examine measures the candidate, and the live engine where that was not done
// before it was stopped.
func (o *owner) examine() {
	k, job := o.keeper, o.begins()
	x, live, other := o.exam, k.live, k.other
	if x == nil {
		x = o.newExam()
	}
	o.do(job, func(ctx context.Context) message {
		began := time.Now()
		tell := o.teller(job)
		if x.live == nil {
			x.live = x.measure(ctx, pathLive, live.server, tell)
		}
		x.candidate = x.measure(ctx, pathCandidate, other.server, tell)
		switch {
		case x.inPlace:
			x.workload(ctx, tell, x.candidate)
		case x.candidate.err != nil:
			// It is refused; the live engine need not work for that.
		case x.sameModel():
			x.race(ctx, tell)
		default: // one text is not as long for both
			x.workload(ctx, tell, x.live)
			x.workload(ctx, tell, x.candidate)
		}
		if x.candidate.err != nil && other.breaks(ctx) {
			return message{} // the owner sees it too, and why
		}
		verdict := x.judge()
		verdict.At, verdict.TookMS = began.UTC(), time.Since(began).Milliseconds()
		return message{news: news{what: examined}, does: func(o *owner) { o.judged(verdict) }}
	})
}

// judged takes the verdict down.
func (o *owner) judged(v *Verdict) {
	o.noteEngine(o.keeper.other)
	o.change(func(c *Candidate) {
		c.Verdict, c.Progress, c.Outcome = v, nil, Refused
		if v.Pass {
			c.Outcome = Passed
		}
	})
	o.tell(KindChecked, "passed", strconv.Itoa(len(v.Findings)-len(v.Against())), "checks", strconv.Itoa(len(v.Findings)))
	o.remember()
}

// fill has the index filled with the candidate's vectors.
func (o *owner) fill() {
	k, job := o.keeper, o.begins()
	other, tell := k.other, o.teller(job)
	o.do(job, func(ctx context.Context) message {
		err := k.config.Index.Fill(ctx, other.setup, other.server, tell)
		if err != nil {
			p := &llamaserver.Problem{Code: "index", Message: err.Error(), Remedy: llamaserver.RemedyLog, At: time.Now().UTC()}
			return message{news: news{what: unfilled}, does: func(o *owner) { o.change(func(c *Candidate) { c.Problem, c.Progress = p, nil }) }}
		}
		if !other.ready() {
			return message{news: news{what: unfilled}} // look has it by now, or will
		}
		return message{news: news{what: filled}, does: func(o *owner) { o.change(func(c *Candidate) { c.Progress = nil }) }}
	})
}

// teller takes the progress of a piece of work to the owner.
func (o *owner) teller(job int) func(Progress) {
	return func(p Progress) {
		o.post(message{job: job, does: func(o *owner) { o.change(func(c *Candidate) { c.Progress = &p }) }})
	}
}
