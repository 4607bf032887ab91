package yielding

import (
	"errors"
	"fmt"
	"time"

	"github.com/ondol-app/ondol/internal/gpu"
)

// Reason is why indexing pauses.
type Reason string

const (
	GPU      Reason = "gpu"       // other programs use it
	Thermal  Reason = "thermal"   // the machine is hot and slows itself down
	Memory   Reason = "memory"    // it is short of memory
	LowPower Reason = "low_power" // its owner asked it to save power
	Battery  Reason = "battery"   // it runs without mains
)

func (r Reason) String() string { return string(r) }

// Reasons lists all of them, the weightiest first.
func Reasons() []Reason { return []Reason{Memory, Thermal, GPU, LowPower, Battery} }

// Limits say when.
type Limits struct {
	Busy    float64       // others' share of the GPU above which it is theirs, 0 to 1; at 1 never
	Quiet   float64       // and below which it is not any more; below Busy
	Onset   time.Duration // how long it must be busy
	Calm    time.Duration // how long no reason must show before a pause ends
	Battery bool          // pause without mains
	Low     bool          // pause in low power mode
}

// DefaultLimits are the figures of the contract.
func DefaultLimits() Limits {
	return Limits{Busy: 0.25, Quiet: 0.10, Onset: 3 * time.Second, Calm: 15 * time.Second, Battery: true, Low: true}
}

// Validate says what is wrong with l, if anything.
func (l Limits) Validate() error {
	switch {
	case l.Busy <= 0 || l.Busy > 1:
		return fmt.Errorf("others' share of the GPU: %v, must be above 0 and at most 1", l.Busy)
	case l.Quiet <= 0 || l.Quiet >= l.Busy:
		return fmt.Errorf("others' share of the GPU to resume at: %v, must be above 0 and below %v", l.Quiet, l.Busy)
	case l.Onset < 0 || l.Calm < 0:
		return errors.New("times must not be negative")
	}
	return nil
}

// Policy is the state machine. It is not safe for concurrent use.
type Policy struct {
	limits  Limits
	latches map[Reason]*latch
}

// latch is one reason: on once it has shown for long enough, off once the
// contrary has.
type latch struct {
	on    bool
	since time.Time // when what would turn it began to show; zero = it does not
}

// NewPolicy makes a policy that does not pause. The limits must be valid.
func NewPolicy(limits Limits) *Policy {
	p := &Policy{limits: limits}
	p.Reset()
	return p
}

// SetLimits changes the limits, which must be valid.
func (p *Policy) SetLimits(limits Limits) { p.limits = limits }

// Reset forgets everything seen and ends a pause.
func (p *Policy) Reset() {
	p.latches = make(map[Reason]*latch)
	for _, r := range Reasons() {
		p.latches[r] = &latch{}
	}
}

// Observe takes what the machine shows at a moment, which must not run
// backwards.
func (p *Policy) Observe(now time.Time, s gpu.Status) {
	others := 0. // not known pauses nothing
	if s.Others != nil {
		others = min(*s.Others, 1)
	}
	p.turn(now, GPU, others > p.limits.Busy, others < p.limits.Quiet, p.limits.Onset)
	p.at(now, Thermal, s.Thermal == gpu.ThermalSerious || s.Thermal == gpu.ThermalCritical)
	p.at(now, Memory, s.MemoryPressure == gpu.PressureWarning || s.MemoryPressure == gpu.PressureCritical)
	p.at(now, Battery, p.limits.Battery && s.OnBattery != nil && *s.OnBattery)
	p.at(now, LowPower, p.limits.Low && s.LowPower != nil && *s.LowPower)
}

// at turns a reason that the machine judges itself: it counts at once.
func (p *Policy) at(now time.Time, r Reason, shows bool) { p.turn(now, r, shows, !shows, 0) }

func (p *Policy) turn(now time.Time, r Reason, over, under bool, onset time.Duration) {
	l := p.latches[r]
	contrary, long := over, onset
	if l.on {
		contrary, long = under, p.limits.Calm
	}
	if !contrary {
		l.since = time.Time{}
		return
	}
	if l.since.IsZero() {
		l.since = now
	}
	if now.Sub(l.since) >= long {
		*l = latch{on: !l.on}
	}
}

// Reasons are those of the pause, the weightiest first; none = it does not pause.
func (p *Policy) Reasons() []Reason {
	var list []Reason
	for _, r := range Reasons() {
		if p.latches[r].on {
			list = append(list, r)
		}
	}
	return list
}
