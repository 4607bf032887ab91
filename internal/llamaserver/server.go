package llamaserver

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ondol-app/ondol/internal/canary"
	news "github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/process"
	"github.com/ondol-app/ondol/internal/trust"
	"github.com/ondol-app/ondol/internal/upstream"
)

// Config describes the engine. RunDir, LogDir and Profile.Flags are required;
// zero times, policy and limits mean the defaults.
type Config struct {
	Binary    string   // path of llama-server; empty = see Locate
	Model     string   // path of the GGUF file
	Profile   Profile  // its Flags may differ from the built-in profile's
	Env       []string // KEY=value, beside the few variables that are passed on
	RunDir    string   // socket, key, process record; made, and closed to others
	LogDir    string   // llama-server.log and its older parts
	HashCache string   // file that remembers models' SHA-256; empty = hash at every start
	Autostart bool     // start as soon as Run begins

	// CheckMemory says before a start what an engine of this version (as it
	// tells it) takes to run the model with the flags, and why that is too much.
	// nil = any start is tried.
	CheckMemory func(model string, flags []string, version string) (Memory, *Problem) `json:"-"`

	// Worked is the computing time a process took so far; nil = process.CPUTime.
	Worked func(pid int) (time.Duration, error) `json:"-"`

	// NextGeneration numbers the starts where engines beside this one are
	// numbered too, each number once and rising; nil = 1, 2, 3 …
	NextGeneration func() uint64 `json:"-"`

	LoadTimeout   time.Duration // from the process's start until ready; default 10 min
	ProbeTimeout  time.Duration // for the checks before it is ready, and for each call of later ones; default 5 min
	HealthEvery   time.Duration // between health checks while ready; default 15 s
	HealthTimeout time.Duration // for one health check; default 10 s
	Silence       time.Duration // without a sign of work while calls are under way, after which it is replaced; default DefaultSilence
	StopGrace     time.Duration // between SIGTERM and SIGKILL; default 10 s
	Restart       RestartPolicy
	Limits        llamaclient.Limits
	Logger        *slog.Logger // nil = none

	// References is where canaries' references are kept; nil = each start makes its own.
	References     References    `json:"-"`
	Concurrency    int           // calls its user makes at once: canaries are tried two at once from 2 on
	ReferenceDelay time.Duration // between ready and the run that makes a reference without the GPU; default 5 s

	// ReferenceFits says whether such a run, a second engine with flags of its
	// own beside the one with the live flags, fits into memory; nil = none is made.
	ReferenceFits func(model string, live, second []string, version string) bool `json:"-"`

	Role     upstream.Role        // what the engine is for, as its events tell; empty = embed
	Notify   func(news.Event)     `json:"-"` // gets every change of state at once, in order; must not block; nil = nobody
	Evidence func(trust.Evidence) `json:"-"` // gets what is known whenever something went wrong; must not block; nil = nobody
}

// Events of an engine.
const (
	// KindState: it came to another state. role, from, to, cause, and problem
	// (a Code) where one is behind it.
	KindState news.Kind = "engine.state"

	KindCanaryFailed news.Kind = "canary.failed"        // code, text (the canary's name), detail
	KindCanaryPassed news.Kind = "canary.passed"        // after they had failed
	KindOneAtATime   news.Kind = "engine.one_at_a_time" // text, detail: from now on it computes one text at a time
	KindTogether     news.Kind = "engine.together"      // it may compute several again

	KindLogLost news.Kind = "engine.log_lost" // error: its log cannot be written; it goes on
	KindLogBack news.Kind = "engine.log_back"
)

// ErrClosed means that Run has returned.
var ErrClosed = errors.New("the engine's supervisor has ended")

// Server supervises one llama-server. All methods may be called from any goroutine.
type Server struct {
	config   Config
	log      *engineLog
	requests chan request
	wake     chan struct{} // 1-buffered
	checking chan struct{} // holds one value while canaries run on the ready engine
	closed   chan struct{} // closed when Run returns
	current  atomic.Pointer[snapshot]

	mu          sync.Mutex // guards subscribers
	subscribers map[chan struct{}]struct{}
}

// snapshot is what readers see: made by the owner, never changed after.
type snapshot struct {
	status   Status
	instance *Instance     // nil unless ready or degraded
	asleep   *Instance     // nil unless it was unloaded and can be woken, or is being
	load     time.Duration // how long the last start took; 0 = not known
	began    time.Time     // when the start under way, or the last one, began

	ends []ending // of the last starts
}

type request struct {
	event event
	reply chan error // buffered; gets one value

	result     *canary.Result // canaries were run on generation
	generation uint64

	unusedSince time.Time // unload
}

// New checks the configuration. It touches nothing: the engine is looked for
// when it is started.
func New(config Config) (*Server, error) {
	if config.RunDir == "" || config.LogDir == "" {
		return nil, errors.New("engine: no run or log folder given")
	}
	if len(config.Profile.Flags) == 0 {
		return nil, errors.New("engine: the profile has no flags")
	}
	if err := checkFlags(config.Profile.Flags); err != nil {
		return nil, err
	}
	for _, path := range []*string{&config.RunDir, &config.LogDir, &config.Model} {
		if *path == "" {
			continue
		}
		abs, err := filepath.Abs(*path) // the engine runs in another folder
		if err != nil {
			return nil, err
		}
		*path = abs
	}
	setDefault(&config.LoadTimeout, 10*time.Minute)
	setDefault(&config.ProbeTimeout, 5*time.Minute)
	setDefault(&config.ReferenceDelay, referenceDelay)
	setDefault(&config.HealthEvery, 15*time.Second)
	setDefault(&config.HealthTimeout, 10*time.Second)
	setDefault(&config.Silence, DefaultSilence)
	setDefault(&config.StopGrace, 10*time.Second)
	if config.Restart == (RestartPolicy{}) {
		config.Restart = DefaultRestartPolicy()
	}
	if config.Worked == nil {
		config.Worked = process.CPUTime
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Role == "" {
		config.Role = upstream.RoleEmbed
	}
	if config.Notify == nil {
		config.Notify = func(news.Event) {}
	}
	if config.Evidence == nil {
		config.Evidence = func(trust.Evidence) {}
	}
	s := &Server{
		config:      config,
		log:         newEngineLog(filepath.Join(config.LogDir, logName), config.Logger, config.Notify),
		requests:    make(chan request),
		wake:        make(chan struct{}, 1),
		checking:    make(chan struct{}, 1),
		closed:      make(chan struct{}),
		subscribers: map[chan struct{}]struct{}{},
	}
	o := newOwner(s)
	s.current.Store(o.snapshot())
	return s, nil
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

// Run owns the engine until ctx ends, then ends the engine and returns once
// it is gone. The error tells when that could not be seen. It may be called once.
func (s *Server) Run(ctx context.Context) error {
	defer close(s.closed)
	if err := os.MkdirAll(s.config.LogDir, 0o700); err != nil {
		return err
	}
	o := newOwner(s)
	err := o.run(ctx)
	return errors.Join(err, s.log.close())
}

// Start asks for a running engine and returns when the owner has heard it; the
// restart budget begins anew. It does not wait for ready: see Changed.
func (s *Server) Start(ctx context.Context) error { return s.ask(ctx, event{kind: eventStart}) }

// Stop ends the engine and returns when its exit was seen.
func (s *Server) Stop(ctx context.Context) error { return s.ask(ctx, event{kind: eventStop}) }

// Restart ends the engine, if one runs, and starts another. It returns when
// the old one's exit was seen.
func (s *Server) Restart(ctx context.Context) error { return s.ask(ctx, event{kind: eventRestart}) }

// Replace kills the engine of that generation, which its user does not trust
// any longer (cause tells why), and starts another under the restart budget.
// It returns when the old one's exit was seen, at once when it is gone already.
func (s *Server) Replace(ctx context.Context, generation uint64, cause string) error {
	return s.GiveUp(ctx, generation, trust.Fault{Cause: cause})
}

// GiveUp is Replace with what the user found out.
func (s *Server) GiveUp(ctx context.Context, generation uint64, fault trust.Fault) error {
	code := Code(fault.Code)
	if code == "" {
		code = CodeReplaced
	}
	p := problem(code, "the engine was replaced: %s", fault.Cause)
	p.inputs = fault.Inputs
	return s.ask(ctx, event{kind: eventReplace, generation: generation, problem: p})
}

func (s *Server) ask(ctx context.Context, e event) error { return s.send(ctx, request{event: e}) }

func (s *Server) send(ctx context.Context, r request) error {
	r.reply = make(chan error, 1)
	select {
	case s.requests <- r:
	case <-s.closed:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-r.reply:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Snapshot is the engine's status now.
func (s *Server) Snapshot() Status {
	status := s.current.Load().status
	status.Flags = slices.Clone(status.Flags)
	if status.LastError != nil {
		last := *status.LastError
		last.Log = slices.Clone(last.Log)
		status.LastError = &last
	}
	if status.Canary != nil {
		result := *status.Canary
		status.Canary = &result // its figures are never changed
	}
	return status
}

// unknownWait is told to who asks for an engine that nobody is about to start.
const unknownWait = 30 * time.Second

// Current is the engine to ask, or a *NotReadyError.
func (s *Server) Current() (Instance, error) {
	c := s.current.Load()
	if c.instance != nil {
		return *c.instance, nil
	}
	return Instance{}, &NotReadyError{
		State: c.status.State, RetryAfter: c.wait(time.Now()),
		Final:  c.status.State == Stopped || c.status.State == Failed && c.status.RetryAt == nil,
		Asleep: c.asleep,
	}
}

// End says how the start of that generation ended; trust.EndNone while it has
// not, and for one long gone.
func (s *Server) End(generation uint64) trust.End {
	for _, e := range s.current.Load().ends {
		if e.generation == generation {
			return e.end
		}
	}
	return trust.EndNone
}

// wait estimates when an engine will be ready, by how long the last start took.
// A start that has lasted longer than that, or the first of all, is expected to
// take half as long again as it has taken: with nothing else known, what has
// gone on for long goes on for long.
func (c *snapshot) wait(now time.Time) time.Duration {
	load := max(c.load, 2*time.Second)
	wait := unknownWait
	switch c.status.State {
	case Starting, Loading, Checking:
		elapsed := now.Sub(c.began)
		wait = max(load-elapsed, elapsed/2)
	case Draining, Unloaded:
		wait = load
	case Failed:
		if c.status.RetryAt != nil {
			wait = c.status.RetryAt.Sub(now) + load
		}
	}
	return max(wait, time.Second)
}

// Changed returns a channel that gets a value after every change of Snapshot,
// changes in quick succession counting as one, and a function that ends this.
func (s *Server) Changed() (changed <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	s.mu.Lock()
	s.subscribers[c] = struct{}{}
	s.mu.Unlock()
	return c, func() {
		s.mu.Lock()
		delete(s.subscribers, c)
		s.mu.Unlock()
	}
}

// publish is called by the owner alone.
func (s *Server) publish(c *snapshot) {
	c.began = c.status.Since
	if c.status.State != Starting {
		c.began = s.current.Load().began
	}
	s.current.Store(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	for subscriber := range s.subscribers {
		select {
		case subscriber <- struct{}{}:
		default: // it has not taken the last one yet, and will see this change with it
		}
	}
}

// LogTail returns the last n lines of the engine's log, oldest first.
func (s *Server) LogTail(n int) ([]string, error) {
	return readTail(s.LogPath(), n)
}

// LogPath is the file the engine's output goes to; older parts lie beside it.
func (s *Server) LogPath() string { return filepath.Join(s.config.LogDir, logName) }
