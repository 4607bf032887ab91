package engines

// Phase is where the engine beside the live one stands; see design.md.
type Phase string

const (
	Idle      Phase = "idle"      // there is none
	Starting  Phase = "starting"  // it is being started
	Checking  Phase = "checking"  // the trial is under way
	Checked   Phase = "checked"   // the verdict is there
	Filling   Phase = "filling"   // the index is being filled with its vectors, before it takes over
	Replacing Phase = "replacing" // in place: it is being started to take over
	Probation Phase = "probation" // it is live; the earlier one is kept warm until it has proved itself
	Retiring  Phase = "retiring"  // the one that is not needed finishes what it has and ends
)

func (p Phase) String() string { return string(p) }

// happening is what may happen to the desk.
type happening string

const (
	wantTrial    happening = "trial"    // a person orders a candidate
	wantPromote  happening = "promote"  // … wants it live
	wantDrop     happening = "drop"     // … does not want it any more
	wantRollback happening = "rollback" // … wants the earlier engine back
	held         happening = "held"     // the live engine has ended, in place
	ready        happening = "ready"    // the other engine is ready
	broke        happening = "broke"    // the other engine ended by itself, or never got ready
	examined     happening = "examined" // the verdict is there
	filled       happening = "filled"   // the index has its vectors
	unfilled     happening = "unfilled" // it cannot be filled
	liveBroke    happening = "live_broke"
	overdue      happening = "overdue" // the time of probation is over
	saved        happening = "saved"
	unsaved      happening = "unsaved"
	gone         happening = "gone" // the other engine is no more
)

// news is one happening with what decides about it.
type news struct {
	what    happening
	inPlace bool // trial, rollback: the live engine is stopped for it
	fill    bool // promote: the index is filled first
}

// act is what the owner has to do, in order.
type act string

const (
	doHold    act = "hold"    // stop the live engine; held follows
	doRelease act = "release" // let it run again
	doLaunch  act = "launch"  // start the other; ready or broke follow
	doExamine act = "examine" // examined follows
	doFill    act = "fill"    // filled or unfilled follow
	doCancel  act = "cancel"  // give the examination or the filling up; nothing of it follows
	doSwap    act = "swap"    // the other becomes live, the live one the other
	doArm     act = "arm"     // begin the probation; overdue follows
	doDisarm  act = "disarm"  // no overdue follows
	doSave    act = "save"    // saved or unsaved follow
	doEnd     act = "end"     // end the other once nobody uses it; gone follows
)

// desk decides. It is driven by happenings and answers with acts; it does
// nothing itself, so every course of events is tested without a process.
//
// Invariants: other is true from launch to gone; the live engine is held only
// in place and only while somebody else is to run in its stead; swap happens
// at most twice for one candidate, there and back.
type desk struct {
	phase   Phase
	inPlace bool  // the two never run at once
	fill    bool  // Replacing: the index is filled before it takes over
	back    bool  // rollback: no trial, it served before
	other   bool  // there is one beside the live engine
	holding bool  // hold was done, held has not followed
	stopped bool  // the live engine is held
	after   Phase // of Retiring: what follows
}

// refusal is why a wish cannot be had now.
type refusal string

const (
	refusedBusy refusal = "busy" // something else is under way
	refusedNone refusal = "none" // there is no candidate
)

// step takes one happening. What is no longer of interest changes nothing.
func (d *desk) step(n news) ([]act, refusal) {
	switch n.what {
	case wantTrial, wantRollback:
		return d.begin(n)
	case wantPromote:
		return d.promote(n)
	case wantDrop:
		return d.drop()
	case held:
		return d.heldNow(), ""
	case ready:
		return d.isReady(), ""
	case broke:
		return d.broken(), ""
	case examined:
		if d.phase != Checking {
			return nil, ""
		}
		if d.inPlace {
			return d.retire(Checked), ""
		}
		d.phase = Checked
	case filled, unfilled:
		switch {
		case d.phase != Filling:
			return nil, ""
		case n.what == filled:
			return d.takeOver(), ""
		case d.inPlace:
			return d.retire(Checked), ""
		}
		d.phase = Checked
	case liveBroke, unsaved:
		return d.giveWay(), ""
	case overdue:
		if d.phase == Probation {
			return []act{doSave}, ""
		}
	case saved:
		if d.phase == Probation {
			return append([]act{doDisarm}, d.retire(Idle)...), ""
		}
	case gone:
		return d.isGone(), ""
	}
	return nil, ""
}

func (d *desk) begin(n news) ([]act, refusal) {
	if n.what == wantRollback && d.phase == Probation {
		return d.giveWay(), ""
	}
	if d.phase != Idle && !(d.phase == Checked && !d.other) {
		return nil, refusedBusy
	}
	*d = desk{phase: Starting, inPlace: n.inPlace, back: n.what == wantRollback}
	return d.launch(), ""
}

func (d *desk) launch() []act {
	if d.inPlace {
		d.holding = true
		return []act{doHold}
	}
	d.other = true
	return []act{doLaunch}
}

func (d *desk) promote(n news) ([]act, refusal) {
	switch {
	case d.phase == Idle:
		return nil, refusedNone
	case d.phase != Checked:
		return nil, refusedBusy
	case d.inPlace:
		d.phase, d.fill = Replacing, n.fill
		return d.launch(), ""
	case n.fill:
		d.phase = Filling
		return []act{doFill}, ""
	}
	return d.takeOver(), ""
}

func (d *desk) drop() ([]act, refusal) {
	switch d.phase {
	case Idle:
		return nil, refusedNone
	case Probation:
		return nil, refusedBusy // it is no candidate any more: rollback is the way
	case Retiring:
		d.after = Idle
		return nil, ""
	}
	return d.abandon(), ""
}

// abandon ends the candidate in whatever phase before its promotion.
func (d *desk) abandon() []act {
	var acts []act
	if d.phase == Checking || d.phase == Filling || d.holding {
		acts = append(acts, doCancel)
	}
	return append(acts, d.retire(Idle)...)
}

// retire ends the other, then goes on to after.
func (d *desk) retire(after Phase) []act {
	d.phase, d.after = Retiring, after
	switch {
	case d.other:
		return []act{doEnd}
	case d.holding:
		return nil // held follows
	}
	return d.isGone()
}

func (d *desk) heldNow() []act {
	if !d.holding {
		return nil
	}
	d.holding, d.stopped = false, true
	if d.phase == Retiring {
		return d.isGone()
	}
	d.other = true
	return []act{doLaunch}
}

func (d *desk) isReady() []act {
	switch {
	case d.phase == Starting && !d.back:
		d.phase = Checking
		return []act{doExamine}
	case d.phase == Replacing && d.fill:
		d.phase, d.fill = Filling, false
		return []act{doFill}
	case d.phase == Starting, d.phase == Replacing:
		return d.takeOver()
	}
	return nil
}

func (d *desk) takeOver() []act {
	d.phase = Probation
	return []act{doSwap, doArm}
}

// giveWay brings the earlier engine back.
func (d *desk) giveWay() []act {
	if d.phase != Probation {
		return nil
	}
	acts := []act{doSwap, doDisarm}
	if d.stopped {
		d.stopped = false
		acts = append(acts, doRelease)
	}
	return append(acts, d.retire(Idle)...)
}

func (d *desk) broken() []act {
	switch d.phase {
	case Starting, Checking, Checked, Filling, Replacing:
		return d.abandon()
	}
	return nil // in probation the other is the earlier one, which may have been stopped for memory
}

func (d *desk) isGone() []act {
	d.other = false
	if d.phase != Retiring {
		return nil
	}
	d.phase = d.after
	if d.stopped {
		d.stopped = false
		// After a swap that lasted the one that was held is the one that is gone.
		return []act{doRelease}
	}
	return nil
}
