package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/upstream"
)

// Engine watches one remote engine. All methods may be called from any
// goroutine.
type Engine struct {
	config  Config
	base    *url.URL
	http    *upstream.Transport
	current atomic.Pointer[snapshot] // written by Run's goroutine alone
	told    State                    // the last one that was no Checking; Run's goroutine alone

	reports chan report  // from clients; 1-buffered, a second one says nothing new
	asks    chan request // from Replace and Recheck
	closed  chan struct{}
	running atomic.Bool

	mu          sync.Mutex // guards subscribers
	subscribers map[chan struct{}]struct{}
}

// snapshot is what readers see; never changed after it was published.
type snapshot struct {
	status   Status
	instance *Instance // nil unless ready
}

// report says that a client found its engine gone.
type report struct {
	generation uint64
	err        error
}

// request asks the owner to distrust a generation; 0 means whatever it is.
type request struct {
	generation uint64
	cause      string
	done       chan<- struct{} // buffered
}

// ErrClosed means that Run has returned.
var ErrClosed = errors.New("the remote engine is no longer watched")

// New checks the configuration; it opens nothing.
func New(config Config) (*Engine, error) {
	base, err := config.complete()
	if err != nil {
		return nil, err
	}
	transport, err := upstream.NewTransport(upstream.Config{Limits: config.Limits})
	if err != nil {
		return nil, fmt.Errorf("remote engine: %w", err)
	}
	e := &Engine{
		config: config, base: base, http: transport,
		reports: make(chan report, 1), asks: make(chan request), closed: make(chan struct{}),
		subscribers: map[chan struct{}]struct{}{}, told: Stopped,
	}
	outside := !upstream.Loopback(base)
	e.current.Store(&snapshot{status: Status{State: Stopped, Since: time.Now().UTC(), Kind: config.Kind, URL: base.String(),
		Outside: outside, Plain: outside && base.Scheme == "http", Model: config.Model}})
	return e, nil
}

// Run owns the engine's state until ctx ends. It may be called once.
func (e *Engine) Run(ctx context.Context) error {
	if !e.running.CompareAndSwap(false, true) {
		return errors.New("remote engine is watched already")
	}
	defer close(e.closed)
	defer e.http.Close()
	defer e.publish(Stopped, nil, nil)
	pause := e.config.Backoff.First
	for {
		e.publish(Checking, nil, nil)
		began := time.Now()
		err := e.serve(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) >= e.config.Backoff.Reset && e.current.Load().instance != nil {
			pause = e.config.Backoff.First
		}
		if !errors.Is(err, errAsked) {
			if !e.rest(ctx, err, pause) {
				return nil
			}
			pause = min(2*pause, e.config.Backoff.Max)
		}
	}
}

// errAsked ends a generation that somebody wanted to be looked at anew.
var errAsked = errors.New("asked to check")

// serve probes the engine and lives through one generation; it returns why
// that ended. Every exchange of the generation ends with it.
func (e *Engine) serve(ctx context.Context) error {
	life, end := context.WithCancelCause(ctx)
	defer end(upstream.ErrBroken)
	c := &Client{kind: e.config.Kind, base: e.base, model: e.config.Model, http: e.http, life: life}
	if e.config.Key != nil {
		key, err := e.config.Key(ctx)
		if err != nil {
			return fmt.Errorf("%w: %w", errKey, err)
		}
		c.key = key
	}
	found, digest, err := e.probe(ctx, c)
	if err != nil {
		return err
	}
	found.Generation = e.current.Load().status.Generation + 1
	c.report = func(err error) {
		select {
		case e.reports <- report{found.Generation, err}:
		default: // one is on its way
		}
	}
	e.publish(Ready, &found, func(s *Status) {
		s.Generation, s.Dimension, s.Digest, s.Fingerprint = found.Generation, found.Dim, digest, found.Fingerprint
	})
	return e.watch(ctx, c, found.Generation, digest, end)
}

// watch returns why a ready engine is no longer to be used.
func (e *Engine) watch(ctx context.Context, c *Client, generation uint64, digest string, end context.CancelCauseFunc) error {
	ticker := time.NewTicker(e.config.Recheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case r := <-e.reports:
			if r.generation == generation {
				return r.err
			}
		case a := <-e.asks:
			if a.generation == 0 || a.generation == generation {
				e.config.Logger.Info("Check a remote engine anew", "role", e.config.Role, "cause", a.cause)
				e.publish(Checking, nil, nil)
				end(upstream.ErrBroken) // no exchange of this generation is left when Replace returns
				a.done <- struct{}{}
				return errAsked
			}
			a.done <- struct{}{} // that one is gone already
		case <-ticker.C:
			looking, cancel := context.WithTimeoutCause(ctx, lookTime, errProbeTime)
			now, err := c.look(looking)
			cancel()
			if err != nil {
				return err
			}
			if now != digest {
				return errAsked // another model by the same name
			}
		}
	}
}

// rest publishes why the engine is not usable and waits; false when ctx ended.
func (e *Engine) rest(ctx context.Context, err error, pause time.Duration) bool {
	now := time.Now().UTC()
	state, problem := problemOf(err, now)
	if e.current.Load().status.State != state {
		e.config.Logger.Warn("Remote engine is not usable", slog.String("role", e.config.Role.String()),
			slog.String("state", state.String()), slog.String("code", string(problem.Code)), slog.String("problem", problem.Message))
	}
	at := now.Add(pause)
	e.publish(state, nil, func(s *Status) { s.LastError, s.RetryAt = problem, &at })
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-e.reports: // of a generation that is gone
		case a := <-e.asks:
			a.done <- struct{}{}
			if a.generation == 0 {
				return true // a person does not want to wait
			}
		}
	}
}

// publish makes a new snapshot from the last one.
func (e *Engine) publish(state State, instance *Instance, change func(*Status)) {
	next := &snapshot{status: e.current.Load().status, instance: instance}
	if next.status.State != state {
		next.status.State, next.status.Since = state, time.Now().UTC()
	}
	next.status.RetryAt = nil
	if change != nil {
		change(&next.status)
	}
	e.tell(&next.status)
	e.current.Store(next)
	e.mu.Lock()
	defer e.mu.Unlock()
	for subscriber := range e.subscribers {
		select {
		case subscriber <- struct{}{}:
		default: // it has not taken the last one yet, and will see this change with it
		}
	}
}

// tell records a change of state. An engine that is away is checked again and
// again; only what comes of it is news.
func (e *Engine) tell(now *Status) {
	if now.State == Checking || now.State == e.told {
		return
	}
	before := e.told
	e.told = now.State
	if e.config.Notify == nil {
		return
	}
	news := event.New(KindState, "role", e.config.Role.String(), "from", before.String(), "to", now.State.String(), "url", now.URL)
	if (now.State == Unreachable || now.State == Refused) && now.LastError != nil {
		news.Args["problem"] = string(now.LastError.Code)
	}
	e.config.Notify(news)
}

// Snapshot is the engine's status now.
func (e *Engine) Snapshot() Status {
	status := e.current.Load().status
	if status.LastError != nil {
		last := *status.LastError
		status.LastError = &last
	}
	return status
}

// unknownWait is told to who asks for an engine that nobody watches yet.
const unknownWait = 5 * time.Second

// Current is the engine to ask, or a *NotReadyError.
func (e *Engine) Current() (Instance, error) {
	now := e.current.Load()
	if now.instance != nil {
		return *now.instance, nil
	}
	wait := unknownWait
	if at := now.status.RetryAt; at != nil {
		wait = time.Until(*at)
	}
	return Instance{}, &NotReadyError{State: now.status.State, RetryAfter: max(wait, time.Second)}
}

// Changed returns a channel that gets a value after every change of Snapshot,
// changes in quick succession counting as one, and a function that ends this.
func (e *Engine) Changed() (changed <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	e.mu.Lock()
	e.subscribers[c] = struct{}{}
	e.mu.Unlock()
	return c, func() {
		e.mu.Lock()
		delete(e.subscribers, c)
		e.mu.Unlock()
	}
}

// Replace gives that generation up: its connections are closed, and nobody is
// sent to the engine before it has answered a probe again. The work it may
// still be at cannot be ended from here. It returns at once when that
// generation is gone already.
func (e *Engine) Replace(ctx context.Context, generation uint64, cause string) error {
	return e.ask(ctx, request{generation: generation, cause: cause})
}

// Recheck probes the engine now, whatever its state.
func (e *Engine) Recheck(ctx context.Context) error {
	return e.ask(ctx, request{cause: "asked for"})
}

func (e *Engine) ask(ctx context.Context, r request) error {
	if s := e.current.Load().status; r.generation != 0 && (s.State != Ready || s.Generation != r.generation) {
		return nil
	}
	done := make(chan struct{}, 1)
	r.done = done
	select {
	case e.asks <- r:
	case <-e.closed:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	<-done // the owner answers what it took
	return nil
}
