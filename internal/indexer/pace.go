package indexer

import "time"

// Bounds of a batch for the engine.
const (
	paceStart  = 512       // tokens of the first batch
	paceMin    = 256       // tokens a batch may always have
	paceMax    = 16384     // tokens
	maxInputs  = 64        // texts
	paceLosing = 0.7       // a slower measurement moves the speed by no more than this factor
	paceGrowth = 2.0       // and a faster one by no more than this
	paceHold   = 3.0 / 4.0 // of the time allowed is aimed at: speed varies
)

// pacer sizes batches so that one hold of the engine's permit stays near a
// given time. What it measures includes the wait for the permit, so one slow
// measurement says little: it is followed step by step.
type pacer struct {
	hold  time.Duration // the time that one batch should take
	speed float64       // tokens a second; 0 before the first measurement
}

// budget is the number of tokens for the next batch.
func (p *pacer) budget() int {
	if p.speed == 0 {
		return paceStart
	}
	return min(max(int(p.speed*p.hold.Seconds()*paceHold), paceMin), paceMax)
}

// observe learns from a batch that was embedded.
func (p *pacer) observe(tokens int, took time.Duration) {
	if tokens <= 0 || took <= 0 {
		return
	}
	measured := float64(tokens) / took.Seconds()
	if p.speed > 0 {
		measured = min(max(measured, p.speed*paceLosing), p.speed*paceGrowth)
	}
	p.speed = measured
}
