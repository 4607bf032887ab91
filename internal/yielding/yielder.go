package yielding

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/gpu"
)

// What a Yielder tells of.
const (
	// KindPaused tells that indexing waits: reason, and for GPU others, percent.
	KindPaused event.Kind = "indexing.paused"
	// KindResumed tells that it goes on, or has nothing left to do: seconds, reason it had waited for last.
	KindResumed event.Kind = "indexing.resumed"
)

// linger is how long after the last background work the machine is still
// watched: between two batches there is none.
const linger = 30 * time.Second

// Sampler tells how the machine is, while somebody has joined.
type Sampler interface {
	Join() (leave func())
	Changed() <-chan struct{}
	Latest() gpu.Status
}

// Gate is where background work comes by.
type Gate interface {
	// Background gets a value when background work comes to a gate that had none.
	Background() <-chan struct{}
	// BackgroundWork is how much of it executes or waits.
	BackgroundWork() int
	// PauseBackground grants background work nothing until it is called with false.
	PauseBackground(paused bool)
}

// Config of a Yielder. Limits, Sampler and Gate are required.
type Config struct {
	Limits  Limits
	Sampler Sampler
	Gate    Gate
	Notify  func(event.Event) // nil = nobody listens
}

// State is why indexing waits. It is a value.
type State struct {
	Since   time.Time `json:"since"`
	Reasons []Reason  `json:"reasons"` // the weightiest first; at least one
}

// Yielder pauses and resumes background work. State and Pauses may be called
// from any goroutine.
type Yielder struct {
	config Config
	policy *Policy // of the goroutine of Run
	limits atomic.Pointer[Limits]
	state  atomic.Pointer[State]
	pauses atomic.Uint64
}

// New makes a yielder; it pauses nothing before Run.
func New(config Config) (*Yielder, error) {
	if config.Sampler == nil || config.Gate == nil {
		return nil, errors.New("yielding: Sampler and Gate are required")
	}
	if err := config.Limits.Validate(); err != nil {
		return nil, fmt.Errorf("yielding: %w", err)
	}
	if config.Notify == nil {
		config.Notify = func(event.Event) {}
	}
	y := &Yielder{config: config, policy: NewPolicy(config.Limits)}
	y.limits.Store(&config.Limits)
	return y, nil
}

// SetLimits changes the limits; they count from the next sample on.
func (y *Yielder) SetLimits(limits Limits) error {
	if err := limits.Validate(); err != nil {
		return fmt.Errorf("yielding: %w", err)
	}
	y.limits.Store(&limits)
	return nil
}

// State is why indexing waits; nil when it does not.
func (y *Yielder) State() *State { return y.state.Load() }

// Pauses is how often indexing had to wait since the start.
func (y *Yielder) Pauses() uint64 { return y.pauses.Load() }

// Run watches while there is background work, until ctx ends. It starts no
// goroutine.
func (y *Yielder) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-y.config.Gate.Background():
			y.watch(ctx)
		}
	}
}

// watch looks at every sample until there has been no background work for a
// while.
func (y *Yielder) watch(ctx context.Context) {
	defer y.config.Sampler.Join()()
	last := time.Now()
	for time.Since(last) < linger {
		changed := y.config.Sampler.Changed()
		if now := y.config.Sampler.Latest(); now.At != nil {
			y.observe(now)
		}
		select {
		case <-ctx.Done():
			return
		case <-y.config.Gate.Background():
			last = time.Now()
		case <-changed:
		}
		if y.config.Gate.BackgroundWork() > 0 {
			last = time.Now()
		}
	}
	y.policy.Reset()
	y.config.Gate.PauseBackground(false)
	y.resumed() // what waited has left
}

func (y *Yielder) observe(now gpu.Status) {
	y.policy.SetLimits(*y.limits.Load())
	y.policy.Observe(*now.At, now)
	reasons := y.policy.Reasons()
	y.config.Gate.PauseBackground(len(reasons) > 0)
	before := y.state.Load()
	switch {
	case len(reasons) == 0:
		y.resumed()
	case before == nil && y.config.Gate.BackgroundWork() > 0: // a pause that nobody waits in is told to nobody
		y.state.Store(&State{Since: time.Now().UTC(), Reasons: reasons})
		y.pauses.Add(1)
		told := event.New(KindPaused, "reason", reasons[0].String())
		if reasons[0] == GPU && now.Others != nil {
			told.Args["others"] = strconv.FormatFloat(math.Round(100**now.Others), 'f', 0, 64)
		}
		y.config.Notify(told)
	case before != nil && !slices.Equal(reasons, before.Reasons):
		y.state.Store(&State{Since: before.Since, Reasons: reasons})
	}
}

// resumed tells that a pause is over, if one was told of.
func (y *Yielder) resumed() {
	before := y.state.Swap(nil)
	if before == nil {
		return
	}
	seconds := strconv.FormatFloat(time.Since(before.Since).Seconds(), 'f', 0, 64)
	y.config.Notify(event.New(KindResumed, "seconds", seconds, "reason", before.Reasons[0].String()))
}
