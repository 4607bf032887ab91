package engines

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ondol-app/ondol/internal/canary"
	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/trust"
)

// Defaults of Config.
const (
	DefaultProbation = 30 * time.Second
	DefaultKeep      = 7 * 24 * time.Hour
)

// Index is what holds vectors of the engines.
type Index interface {
	// Fill has it filled with the candidate's vectors beside those of the live
	// engine, and returns when none is missing.
	Fill(ctx context.Context, setup Setup, candidate *llamaserver.Server, progress func(Progress)) error

	// Switched tells that another engine is live, as soon as it is.
	Switched(ctx context.Context)
}

// Config of a Keeper. Build, Places, Bench and Save are required.
type Config struct {
	Live   Setup
	Build  func(Setup, Place) (llamaserver.Config, error) // finds the model, chooses flags, refuses what cannot be
	Places [2]Place
	Bench  Bench
	Save   func(Setup) error // makes it the settings' engine, of the next start too

	// Fits refuses, best with a *RefusedError, a candidate that cannot serve, or
	// that memory does not hold beside the live engine; nil = nothing is known.
	Fits  func(setup Setup, beside bool) error
	Index Index  // nil = none needs filling
	File  string // what is remembered of candidates; empty = nothing

	Probation time.Duration // how long the earlier engine is kept warm; 0 = DefaultProbation
	Keep      time.Duration // how long it can be brought back; 0 = DefaultKeep
	Notify    func(event.Event)
	Logger    *slog.Logger
}

// Keeper holds the engines. All methods may be called from any goroutine.
type Keeper struct {
	config     Config
	generation atomic.Uint64
	requests   chan request
	kicks      chan struct{} // 1-buffered: the owner is to look at its engines
	closed     chan struct{} // closed when Run returns
	state      atomic.Pointer[State]

	mu          sync.Mutex
	live        *member                    // guarded by mu; never nil; the owner alone writes it
	other       *member                    // guarded by mu; nil when there is none; likewise
	subscribers map[chan struct{}]struct{} // guarded by mu
}

// New builds the live engine's supervisor; nothing is started. An error is
// Build's, about Config.Live.
func New(config Config) (*Keeper, error) {
	if config.Build == nil || config.Save == nil || config.Bench.Passages == nil || config.Bench.Turn == nil {
		return nil, errors.New("engines: Build, Save and Bench are required")
	}
	if config.Probation == 0 {
		config.Probation = DefaultProbation
	}
	if config.Keep == 0 {
		config.Keep = DefaultKeep
	}
	if config.Notify == nil {
		config.Notify = func(event.Event) {}
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	k := &Keeper{
		config: config, requests: make(chan request), kicks: make(chan struct{}, 1), closed: make(chan struct{}),
		subscribers: make(map[chan struct{}]struct{}),
	}
	var err error
	if k.live, err = k.build(config.Live, 0); err != nil {
		return nil, err
	}
	k.state.Store(&State{Phase: Idle, Since: time.Now().UTC(), Live: config.Live})
	return k, nil
}

func (k *Keeper) build(setup Setup, place int) (*member, error) {
	config, err := k.config.Build(setup, k.config.Places[place])
	if err != nil {
		return nil, err
	}
	config.RunDir, config.LogDir = k.config.Places[place].RunDir, k.config.Places[place].LogDir
	config.Autostart = true
	config.NextGeneration = func() uint64 { return k.generation.Add(1) }
	m := &member{setup: setup, place: place}
	if notify := config.Notify; notify != nil {
		config.Notify = func(e event.Event) {
			if k.now() == m { // of a candidate, its own events tell
				notify(e)
			}
		}
	}
	if m.server, err = llamaserver.New(config); err != nil {
		return nil, err
	}
	return m, nil
}

// Run owns the engines until ctx ends, then ends them and returns once they
// are gone. It may be called once.
func (k *Keeper) Run(ctx context.Context) error {
	defer close(k.closed)
	return newOwner(k).run(ctx)
}

// now is the live engine.
func (k *Keeper) now() *member {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.live
}

// Current is the live engine to ask, or a *llamaserver.NotReadyError.
func (k *Keeper) Current() (llamaserver.Instance, error) { return k.now().current() }

// Borrow is Current for whoever is about to use the instance: when another
// engine takes over, this one is not ended before done was called. done may be
// called more than once.
func (k *Keeper) Borrow() (instance llamaserver.Instance, done func(), err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := k.live
	if instance, err = m.current(); err != nil {
		return llamaserver.Instance{}, nil, err
	}
	m.uses++
	return instance, sync.OnceFunc(func() { k.giveBack(m) }), nil
}

func (k *Keeper) giveBack(m *member) {
	k.mu.Lock()
	m.uses--
	last := m.uses == 0 && m != k.live
	k.mu.Unlock()
	if last {
		k.poke()
	}
}

// Replace ends the engine of that generation, whichever it is; see
// llamaserver.Server.Replace.
func (k *Keeper) Replace(ctx context.Context, generation uint64, cause string) error {
	return k.GiveUp(ctx, generation, trust.Fault{Cause: cause})
}

// GiveUp is Replace with what the user found out.
func (k *Keeper) GiveUp(ctx context.Context, generation uint64, fault trust.Fault) error {
	var err error
	for _, m := range k.members() { // to all but the one it names this means nothing
		if e := m.server.GiveUp(ctx, m.inner(generation), fault); !errors.Is(e, llamaserver.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// End says how the start of that generation ended, whichever engine's it was;
// see llamaserver.Server.End.
func (k *Keeper) End(generation uint64) trust.End {
	for _, m := range k.members() {
		if end := m.server.End(m.inner(generation)); end != trust.EndNone {
			return end
		}
	}
	return trust.EndNone
}

func (k *Keeper) members() []*member {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.other == nil {
		return []*member{k.live}
	}
	return []*member{k.live, k.other}
}

// Recheck runs the canaries on the live engine if it is of that generation;
// see llamaserver.Server.Recheck.
func (k *Keeper) Recheck(ctx context.Context, generation uint64, turn canary.Turn) (canary.Result, error) {
	k.mu.Lock()
	m := k.live
	m.uses++
	k.mu.Unlock()
	defer k.giveBack(m)
	return m.server.Recheck(ctx, m.inner(generation), turn)
}

// Live is the live engine's setup and status, of one moment.
func (k *Keeper) Live() (Setup, llamaserver.Status) {
	m := k.now()
	return m.setup, m.snapshot()
}

// Snapshot is the live engine's status.
func (k *Keeper) Snapshot() llamaserver.Status { return k.now().snapshot() }

// PIDs are the processes of all its engines that run: the live one's, and that
// of one beside it.
func (k *Keeper) PIDs() []int {
	k.mu.Lock()
	members := []*member{k.live, k.other}
	k.mu.Unlock()
	var list []int
	for _, m := range members {
		if m == nil {
			continue
		}
		if pid := m.server.Snapshot().PID; pid != 0 {
			list = append(list, pid)
		}
	}
	return list
}

// LogTail returns the last lines of the live engine's log, oldest first.
func (k *Keeper) LogTail(n int) ([]string, error) { return k.now().server.LogTail(n) }

// Start asks for a running live engine; see llamaserver.Server.Start.
func (k *Keeper) Start(ctx context.Context) error { return k.steer(ctx, (*llamaserver.Server).Start) }

// Stop ends the live engine and returns when its exit was seen.
func (k *Keeper) Stop(ctx context.Context) error { return k.steer(ctx, (*llamaserver.Server).Stop) }

// Restart ends the live engine and starts it again.
func (k *Keeper) Restart(ctx context.Context) error {
	return k.steer(ctx, (*llamaserver.Server).Restart)
}

// steer does what a person wants done to the live engine, unless that is held
// for a trial in place: then it is not his to start.
func (k *Keeper) steer(ctx context.Context, do func(*llamaserver.Server, context.Context) error) error {
	if s := k.State(); s.Candidate != nil && s.Candidate.Order.InPlace && s.Phase != Idle && s.Phase != Checked && s.Phase != Probation {
		return &RefusedError{Code: CodeHeld, Message: "the engine is stopped for a trial in its place",
			Remedy: "wait for its end, or end it with `ondol engine candidate stop`",
			Args:   map[string]string{"phase": s.Phase.String()}}
	}
	err := do(k.now().server, ctx)
	if errors.Is(err, llamaserver.ErrClosed) {
		return ErrClosed
	}
	return err
}

// Wake starts the live engine again if it was unloaded; see
// llamaserver.Server.Wake.
func (k *Keeper) Wake() { k.now().server.Wake() }

// Awaken is Wake, and waits until the live engine is ready.
func (k *Keeper) Awaken(ctx context.Context) error { return k.now().server.Awaken(ctx) }

// Unused is since when nobody has used the live engine; false while somebody
// does, and while there is another one or work on one.
func (k *Keeper) Unused() (since time.Time, ok bool) {
	if k.State().Phase != Idle {
		return time.Time{}, false
	}
	k.mu.Lock()
	m, used := k.live, k.live.uses > 0
	k.mu.Unlock()
	since, ok = m.server.Unused()
	return since, ok && !used
}

// Unload ends the live engine if nobody has used it since then, until somebody
// wakes it; see llamaserver.Server.Unload. Who borrows it at the same moment
// finds it gone, and its end says so.
func (k *Keeper) Unload(ctx context.Context, since time.Time) error {
	if now, ok := k.Unused(); !ok || now.After(since) {
		return llamaserver.ErrInUse
	}
	return k.now().server.Unload(ctx, since)
}

// State is where the engine beside the live one stands.
func (k *Keeper) State() State { return *k.state.Load() }

// Try starts a candidate and returns at once; State tells how it goes. A
// *RefusedError leaves everything as it is; another error is Build's.
func (k *Keeper) Try(ctx context.Context, order Order) (State, error) {
	return k.wish(ctx, request{kind: askTrial, order: order})
}

// Promotion says how to promote.
type Promotion struct {
	Force bool `json:"force,omitempty"` // against findings that are not fatal
	Now   bool `json:"now,omitempty"`   // do not fill the index first: until it is, search is short of meaning
}

// Promote makes the candidate live. It returns when new requests go to it, or,
// where that takes time first, when that has begun; State tells.
func (k *Keeper) Promote(ctx context.Context, p Promotion) (State, error) {
	return k.wish(ctx, request{kind: askPromote, promotion: p})
}

// Drop ends the candidate and returns when its process is gone; its verdict is
// kept.
func (k *Keeper) Drop(ctx context.Context) (State, error) {
	return k.wish(ctx, request{kind: askDrop})
}

// Rollback brings the earlier engine back: at once while it is kept warm, else
// by starting it; State tells how that goes.
func (k *Keeper) Rollback(ctx context.Context, inPlace bool) (State, error) {
	return k.wish(ctx, request{kind: askRollback, order: Order{InPlace: inPlace}})
}

func (k *Keeper) wish(ctx context.Context, r request) (State, error) {
	if err := k.ask(ctx, r); err != nil {
		return State{}, err
	}
	return k.State(), nil
}

func (k *Keeper) ask(ctx context.Context, r request) error {
	r.reply = make(chan error, 1)
	select {
	case k.requests <- r:
	case <-k.closed:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-r.reply:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Changed returns a channel that gets a value after every change of Snapshot
// or State, changes in quick succession counting as one, and a function that
// ends this.
func (k *Keeper) Changed() (changed <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	k.mu.Lock()
	k.subscribers[c] = struct{}{}
	k.mu.Unlock()
	return c, func() {
		k.mu.Lock()
		delete(k.subscribers, c)
		k.mu.Unlock()
	}
}

// publish is called by the owner alone.
func (k *Keeper) publish(s *State) {
	k.state.Store(s)
	k.mu.Lock()
	defer k.mu.Unlock()
	for subscriber := range k.subscribers {
		select {
		case subscriber <- struct{}{}:
		default: // it has not taken the last one yet, and will see this change with it
		}
	}
}

// poke has the owner look at its engines.
func (k *Keeper) poke() {
	select {
	case k.kicks <- struct{}{}:
	default: // it will look anyway
	}
}
