package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/upstream"
	"github.com/ondol-app/ondol/internal/vector"
)

// The defaults of Config.
const (
	DefaultTotal  = 300 * time.Second
	DefaultSettle = 300 * time.Second // a long batch on a slow machine; then the engine is replaced
	DefaultWrite  = 60 * time.Second
)

// defaultRetry is offered while an engine that vanished has not said more.
const defaultRetry = time.Second

// Config of a Relay. Role, Gate and Engine are required; zero times mean the
// defaults, a nil Logger none.
type Config struct {
	Role   Role
	Gate   *admission.Gate
	Engine Engine
	Total  time.Duration // of an exchange that is no stream, from its permit
	Settle time.Duration // for abandoned work to end before the engine is replaced
	Write  time.Duration // for the client to take one chunk
	Logger *slog.Logger
}

// Relay is the door to one role's engine. Its methods are safe for concurrent
// use.
type Relay struct {
	config Config
	live   live

	stopping context.Context // ends with Run's context
	stop     context.CancelFunc

	mu       sync.Mutex
	closed   bool           // guarded by mu; nothing begins any more
	underway sync.WaitGroup // exchanges and settlements; Add under mu while not closed
}

// New makes a relay.
func New(config Config) (*Relay, error) {
	if config.Role == "" || config.Gate == nil || config.Engine == nil {
		return nil, errors.New("relay: role, gate and engine are required")
	}
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{{&config.Total, DefaultTotal}, {&config.Settle, DefaultSettle}, {&config.Write, DefaultWrite}} {
		if *d.value == 0 {
			*d.value = d.standard
		}
		if *d.value < 0 {
			return nil, fmt.Errorf("relay: time limit %v, must be positive", *d.value)
		}
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Relay{config: config, live: live{streams: map[*exchange]struct{}{}}}
	r.stopping, r.stop = context.WithCancel(context.Background())
	return r, nil
}

// Run returns when ctx has ended and with it every exchange; those under way
// are ended.
func (r *Relay) Run(ctx context.Context) error {
	<-ctx.Done()
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop()
	r.underway.Wait()
	return nil
}

// Role is what this relay is for.
func (r *Relay) Role() Role { return r.config.Role }

// Stats is the gate now.
func (r *Relay) Stats() admission.Stats { return r.config.Gate.Stats() }

// Model is the name of the model served now, or why there is none.
func (r *Relay) Model() (string, error) {
	instance, err := r.current()
	return instance.Model, err
}

// exchange is one request at the engine, from its permit to its end.
type exchange struct {
	relay    *Relay
	permit   *admission.Permit
	instance Instance
	began    time.Time

	caller context.Context         // its end means that the caller left
	ctx    context.Context         // of the upstream exchange
	cancel context.CancelCauseFunc // closes the connection to the engine
	done   func()                  // gives back what begin took
}

// errLeft ends an exchange whose caller is gone.
var errLeft = errors.New("caller left")

// begin waits for a permit and takes the engine. finish must follow.
func (r *Relay) begin(ctx context.Context, total time.Duration) (*exchange, error) {
	// No engine, no queue: waiting would only delay the same answer.
	if _, err := r.current(); err != nil {
		r.config.Gate.Count(admission.EngineUnavailable)
		return nil, err
	}
	permit, err := r.config.Gate.Acquire(ctx, admission.LaneClient)
	if errors.Is(err, admission.ErrClosed) {
		return nil, &upstream.UnavailableError{State: "stopping", Err: err}
	}
	if err != nil {
		return nil, err
	}
	// The engine may have gone or changed while the request waited.
	instance, err := r.current()
	if err == nil && !r.enter() {
		err = &upstream.UnavailableError{State: "stopping"}
	}
	if err != nil {
		permit.Release(admission.EngineUnavailable)
		return nil, err
	}
	e := &exchange{relay: r, permit: permit, instance: instance, began: time.Now(), caller: ctx}
	limited, release := context.WithoutCancel(ctx), func() {}
	if total > 0 {
		limited, release = context.WithTimeoutCause(limited, total, &upstream.TimeoutError{After: total})
	}
	e.ctx, e.cancel = context.WithCancelCause(limited)
	left := context.AfterFunc(ctx, func() { e.cancel(errLeft) })
	stopping := context.AfterFunc(r.stopping, func() { e.cancel(&upstream.UnavailableError{State: "stopping"}) })
	e.done = func() {
		left()
		stopping()
		e.cancel(nil)
		release()
		r.underway.Done()
	}
	return e, nil
}

// enter counts an exchange unless the relay is closing.
func (r *Relay) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.underway.Add(1)
	return true
}

// finish gives the permit back, at once where the engine has ended the
// exchange, else when it is known to have ended its work. It returns the error
// for the caller.
func (e *exchange) finish(err error) error {
	if err == nil {
		e.permit.Release(admission.Served)
		e.done()
		return nil
	}
	left := errors.Is(err, errLeft)
	ended := endedByEngine(err)
	err = e.judge(err)
	outcome := outcomeOf(err)
	if left {
		outcome = admission.CancelledExecuting
	}
	if ended {
		e.permit.Release(outcome)
		e.done()
		return err
	}
	e.permit.Drain()
	e.cancel(err) // whatever is still open to the engine
	go func() {   // counted in underway until done
		defer e.done()
		e.settle(err)
		e.permit.Release(outcome)
	}()
	return err
}

// endedByEngine reports whether the engine itself ended the exchange, or
// never began it.
func endedByEngine(err error) bool {
	var invalid *vector.InvalidError
	var status *upstream.StatusError
	var long *upstream.ContextError
	return errors.As(err, &invalid) || errors.As(err, &status) || errors.As(err, &long) ||
		errors.Is(err, upstream.ErrConnect) || errors.Is(err, upstream.ErrPoolWait)
}

// judge gives an error of the exchange the form the caller knows.
func (e *exchange) judge(err error) error {
	var timeout *upstream.TimeoutError
	var status *upstream.StatusError
	switch {
	case errors.Is(err, errLeft):
		if cause := context.Cause(e.caller); cause != nil {
			return cause
		}
		return err // it did not take a chunk
	case errors.As(err, &timeout):
		return timeout
	case errors.Is(err, upstream.ErrRead), errors.Is(err, upstream.ErrWrite):
		return &upstream.TimeoutError{After: time.Since(e.began)}
	case errors.Is(err, upstream.ErrConnect), errors.Is(err, upstream.ErrBroken), errors.Is(err, upstream.ErrPoolWait):
		return e.relay.vanished(err, 0)
	case errors.As(err, &status) && (status.Code == 503 || status.Code == 429):
		return e.relay.vanished(err, status.RetryAfter)
	}
	return err
}

// vanished says what is known by now of an engine that does not answer; its
// supervisor may not have noticed yet.
func (r *Relay) vanished(err error, wait time.Duration) error {
	state := upstream.StateLost
	if status := (*upstream.StatusError)(nil); errors.As(err, &status) {
		state = "busy"
	}
	var known *upstream.UnavailableError
	if _, unavailable := r.current(); errors.As(unavailable, &known) {
		state, wait = known.State, max(wait, known.RetryAfter)
	}
	if wait == 0 {
		wait = defaultRetry
	}
	return &upstream.UnavailableError{State: state, RetryAfter: wait, Err: err}
}

// current is the engine's instance, or always an *upstream.UnavailableError.
func (r *Relay) current() (Instance, error) {
	instance, err := r.config.Engine.Current()
	var unavailable *upstream.UnavailableError
	switch {
	case err == nil:
		return instance, nil
	case errors.As(err, &unavailable):
		return Instance{}, unavailable
	}
	return Instance{}, &upstream.UnavailableError{State: "unknown", RetryAfter: defaultRetry, Err: err}
}

func outcomeOf(err error) admission.Outcome {
	var invalid *vector.InvalidError
	var unavailable *upstream.UnavailableError
	var timeout *upstream.TimeoutError
	switch {
	case errors.As(err, &invalid):
		return admission.InvalidVector
	case errors.As(err, &unavailable):
		return admission.EngineUnavailable
	case errors.As(err, &timeout):
		return admission.UpstreamTimeout
	}
	return admission.Failed
}
