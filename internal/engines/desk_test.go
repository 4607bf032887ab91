package engines

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// table plays everything around a desk: two engines, a trial, a timer. It
// holds what must be true whatever happens in whatever order.
type table struct {
	t      *testing.T
	desk   desk
	random *rand.Rand

	live, other int    // which engine; other 0 = none
	next        int    // the next engine's number
	running     bool   // the live one was not held
	queue       []news // what is sure to follow, in any order
	ending      bool   // the other was told to end
	trial       bool   // an examination or a filling is under way
	armed       bool   // the probation's timer runs

	log []string // for a failure
}

func (w *table) step(n news) {
	phase := w.desk.phase
	acts, no := w.desk.step(n)
	w.log = append(w.log, string(phase)+" "+string(n.what))
	if no != "" {
		if len(acts) > 0 || w.desk.phase != phase {
			w.fail("a refusal changed something")
		}
		return
	}
	for _, a := range acts {
		w.log = append(w.log, "  "+string(a))
		w.act(a)
	}
	w.check()
}

func (w *table) act(a act) {
	switch a {
	case doHold:
		if w.other != 0 {
			w.fail("the live engine is stopped while another is there")
		}
		w.running = false
		w.queue = append(w.queue, news{what: held})
	case doRelease:
		w.running = true
	case doLaunch:
		if w.other != 0 {
			w.fail("a third engine")
		}
		w.next++
		w.other, w.ending = w.next, false
	case doExamine, doFill:
		if w.trial {
			w.fail("two pieces of work at once")
		}
		w.trial = true
	case doCancel:
		w.trial = false
	case doSwap:
		if w.other == 0 {
			w.fail("a swap with nobody")
		}
		w.live, w.other = w.other, w.live
	case doArm:
		w.armed = true
	case doDisarm:
		w.armed = false
	case doSave:
		w.queue = append(w.queue, news{what: saved}, news{what: unsaved})
	case doEnd:
		if w.other == 0 {
			w.fail("nobody is to end")
		}
		w.ending = true
		w.queue = append(w.queue, news{what: gone})
	}
}

func (w *table) check() {
	d := &w.desk
	switch {
	case d.phase == Idle && (w.other != 0 || w.trial || w.armed || !w.running):
		w.fail("idle, and something is left")
	case (d.phase == Checking || d.phase == Filling) != w.trial:
		w.fail("work under way does not fit the phase")
	case (d.phase == Probation) != w.armed:
		w.fail("the timer does not fit the phase")
	case d.inPlace && w.running && w.other != 0 && d.phase != Probation && d.phase != Retiring:
		w.fail("in place, and both run")
	case w.ending && d.phase != Retiring:
		w.fail("an engine ends outside of retiring")
	}
}

func (w *table) fail(why string) {
	w.t.Helper()
	w.t.Fatalf("%s: %+v\n%v", why, w.desk, w.log[max(len(w.log)-30, 0):])
}

// possible is everything that may happen now.
func (w *table) possible() []news {
	list := []news{{what: wantTrial}, {what: wantTrial, inPlace: true}, {what: wantRollback}, {what: wantRollback, inPlace: true},
		{what: wantPromote}, {what: wantPromote, fill: true}, {what: wantDrop}, {what: liveBroke}, {what: overdue}}
	if w.other != 0 && !w.ending {
		list = append(list, news{what: ready}, news{what: ready}, news{what: broke})
	}
	if w.desk.phase == Checking {
		list = append(list, news{what: examined}, news{what: examined})
	}
	if w.desk.phase == Filling {
		list = append(list, news{what: filled}, news{what: unfilled})
	}
	return append(append(list, w.queue...), w.queue...)
}

func (w *table) happen(n news) {
	if i := slices.Index(w.queue, n); i >= 0 {
		w.queue = slices.Delete(w.queue, i, i+1)
		if n.what == saved || n.what == unsaved { // one of the two comes
			other := news{what: unsaved}
			if n.what == unsaved {
				other.what = saved
			}
			if j := slices.Index(w.queue, other); j >= 0 {
				w.queue = slices.Delete(w.queue, j, j+1)
			}
			if w.desk.phase != Probation {
				return // the owner settles what comes too late
			}
		}
		if n.what == gone {
			w.other, w.ending = 0, false
		}
	}
	if n.what == examined || n.what == filled || n.what == unfilled {
		w.trial = false
	}
	w.step(n)
}

// Whatever happens in whatever order: one engine is live, at most one beside
// it, nothing is left behind, and once nobody wants anything more all is at
// rest with the live engine running.
func TestDeskInAnyOrder(t *testing.T) {
	promoted, back := 0, 0
	for seed := range uint64(3000) {
		w := &table{t: t, desk: desk{phase: Idle}, random: rand.New(rand.NewPCG(seed, 7)), live: 1, next: 1, running: true}
		for range 60 {
			before := w.live
			list := w.possible()
			w.happen(list[w.random.IntN(len(list))])
			switch {
			case w.live > before:
				promoted++
			case w.live < before:
				back++
			}
		}
		for range 10 { // nobody wants anything more
			switch {
			case len(w.queue) > 0:
				w.happen(w.queue[0])
			case w.desk.phase == Probation:
				w.happen(news{what: overdue})
			case w.desk.phase != Idle:
				w.happen(news{what: wantDrop})
			}
		}
		if w.desk.phase != Idle || w.other != 0 || !w.running || w.trial || w.armed {
			w.fail("not at rest in the end")
		}
	}
	if promoted < 500 || back < 100 {
		t.Errorf("%d promotions and %d ways back: the walk does not get anywhere", promoted, back)
	}
}

// The courses of events that people know, step by step.
func TestDeskCourses(t *testing.T) {
	beside := []news{{what: wantTrial}, {what: ready}, {what: examined}}
	inPlace := []news{{what: wantTrial, inPlace: true}, {what: held}, {what: ready}, {what: examined}, {what: gone}}
	for _, tt := range []struct {
		name  string
		news  []news
		acts  []act
		phase Phase
	}{
		{"trial", beside, []act{doLaunch, doExamine}, Checked},
		{"promotion that proves itself", append(beside[:3:3], news{what: wantPromote}, news{what: overdue}, news{what: saved}, news{what: gone}),
			[]act{doLaunch, doExamine, doSwap, doArm, doSave, doDisarm, doEnd}, Idle},
		{"the index first", append(beside[:3:3], news{what: wantPromote, fill: true}, news{what: filled}),
			[]act{doLaunch, doExamine, doFill, doSwap, doArm}, Probation},
		{"it breaks after the switch", append(beside[:3:3], news{what: wantPromote}, news{what: liveBroke}, news{what: gone}),
			[]act{doLaunch, doExamine, doSwap, doArm, doSwap, doDisarm, doEnd}, Idle},
		{"it never gets ready", []news{{what: wantTrial}, {what: broke}, {what: gone}}, []act{doLaunch, doEnd}, Idle},
		{"dropped during the trial", []news{{what: wantTrial}, {what: ready}, {what: wantDrop}, {what: gone}}, []act{doLaunch, doExamine, doCancel, doEnd}, Idle},
		{"trial in place", inPlace, []act{doHold, doLaunch, doExamine, doEnd, doRelease}, Checked},
		{"promotion in place", append(inPlace[:5:5], news{what: wantPromote}, news{what: held}, news{what: ready}),
			[]act{doHold, doLaunch, doExamine, doEnd, doRelease, doHold, doLaunch, doSwap, doArm}, Probation},
		{"promotion in place, the index first", append(inPlace[:5:5], news{what: wantPromote, fill: true}, news{what: held}, news{what: ready}, news{what: filled}),
			[]act{doHold, doLaunch, doExamine, doEnd, doRelease, doHold, doLaunch, doFill, doSwap, doArm}, Probation},
		{"in place, and the index cannot be filled", append(inPlace[:5:5], news{what: wantPromote, fill: true}, news{what: held}, news{what: ready}, news{what: unfilled}, news{what: gone}),
			[]act{doHold, doLaunch, doExamine, doEnd, doRelease, doHold, doLaunch, doFill, doEnd, doRelease}, Checked},
		{"promotion in place that fails", append(inPlace[:5:5], news{what: wantPromote}, news{what: held}, news{what: broke}, news{what: gone}),
			[]act{doHold, doLaunch, doExamine, doEnd, doRelease, doHold, doLaunch, doEnd, doRelease}, Idle},
		{"dropped before it was there", []news{{what: wantTrial, inPlace: true}, {what: wantDrop}, {what: held}}, []act{doHold, doCancel, doRelease}, Idle},
		{"rollback", []news{{what: wantRollback}, {what: ready}}, []act{doLaunch, doSwap, doArm}, Probation},
	} {
		d := desk{phase: Idle}
		var acts []act
		for _, n := range tt.news {
			more, no := d.step(n)
			if no != "" {
				t.Errorf("%s: %s is refused: %s", tt.name, n.what, no)
			}
			acts = append(acts, more...)
		}
		if !slices.Equal(acts, tt.acts) || d.phase != tt.phase {
			t.Errorf("%s: %v, %s; want %v, %s", tt.name, acts, d.phase, tt.acts, tt.phase)
		}
	}
}

func TestDeskRefuses(t *testing.T) {
	for _, tt := range []struct {
		phase Phase
		want  happening
		no    refusal
	}{
		{Idle, wantPromote, refusedNone}, {Idle, wantDrop, refusedNone}, {Starting, wantTrial, refusedBusy},
		{Checking, wantPromote, refusedBusy}, {Probation, wantDrop, refusedBusy}, {Probation, wantTrial, refusedBusy}, {Retiring, wantRollback, refusedBusy},
	} {
		d := desk{phase: tt.phase, other: true}
		if _, no := d.step(news{what: tt.want}); no != tt.no {
			t.Errorf("%s while %s: %q, want %q", tt.want, tt.phase, no, tt.no)
		}
	}
}
