package embedding

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/vector"
	"github.com/ondol-app/ondol/internal/vectorcache"
)

// DefaultTotal bounds one request at the engine, counted from its permit.
const DefaultTotal = 300 * time.Second

// defaultRetry is offered while an engine that vanished has not said more.
const defaultRetry = time.Second

// DefaultCheckEvery is after how many vectors the engine is checked (contract
// section 2).
const DefaultCheckEvery = 1000

// Config of a Service. Gate and Engine are required; a nil Cache means that
// nothing is kept, Total 0 means DefaultTotal, a nil Logger none.
type Config struct {
	Gate       *admission.Gate
	Engine     Engine
	Cache      *vectorcache.Cache
	Quarantine Quarantine // nil = forgotten with the service
	Total      time.Duration
	Logger     *slog.Logger

	Checker    Checker // nil = the engine is not checked
	CheckEvery int     // vectors between two checks; 0 = DefaultCheckEvery

	// Woke is when the machine woke last, as far as is known when it is asked;
	// zero = it has not slept. Until the engine was checked after that, none
	// of its vectors comes out. Nil = it never sleeps. Needs a Checker.
	Woke func() time.Time

	// Notify is told what happened; it returns at once. Nil = nobody listens.
	Notify func(event.Event)
}

// Service is the door to one engine role. Its methods are safe for
// concurrent use.
type Service struct {
	gate   *admission.Gate
	engine Engine
	cache  *vectorcache.Cache // nil = none
	total  time.Duration
	logger *slog.Logger
	notify func(event.Event)

	flights    *flights
	counting   *turnstile // for token counts
	crew       *crew
	quarantine *quarantine
	vigil      *vigil

	checker    Checker // nil = none
	every      int
	sinceCheck atomic.Int64  // valid vectors
	kick       chan struct{} // 1-buffered: a check is due

	stopping context.Context // ends with Run's context
	stop     context.CancelFunc

	holding sync.Mutex // held while the gate is set to what the engine needs

	mu        sync.Mutex
	closed    bool           // guarded by mu; no exchange begins any more
	given     givenUp        // guarded by mu
	exchanges sync.WaitGroup // Add under mu while not closed

	checked  atomic.Uint64
	rejected atomic.Uint64
	hits     atomic.Uint64
	misses   atomic.Uint64
	joins    atomic.Uint64
	last     atomic.Pointer[lastInvalid]
}

type lastInvalid struct {
	at      time.Time
	reasons []vector.Reason
}

// New makes a service.
func New(config Config) (*Service, error) {
	if config.Gate == nil || config.Engine == nil {
		return nil, errors.New("embedding: gate and engine are required")
	}
	if config.Woke != nil && config.Checker == nil {
		return nil, errors.New("embedding: an engine that nobody can check cannot be checked after a sleep")
	}
	if config.Total == 0 {
		config.Total = DefaultTotal
	}
	if config.Total < 0 {
		return nil, fmt.Errorf("embedding: total time limit %v, must be positive", config.Total)
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.CheckEvery == 0 {
		config.CheckEvery = DefaultCheckEvery
	}
	if config.Notify == nil {
		config.Notify = func(event.Event) {}
	}
	s := &Service{
		gate: config.Gate, engine: config.Engine, cache: config.Cache, total: config.Total, logger: config.Logger,
		notify: config.Notify, checker: config.Checker, every: config.CheckEvery, kick: make(chan struct{}, 1),
		counting: newTurnstile(), crew: newCrew(), vigil: newVigil(config.Woke), quarantine: &quarantine{store: config.Quarantine, logger: config.Logger},
		flights: &flights{cache: config.Cache, byKey: make(map[vector.Key]*flight)},
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Run returns when ctx has ended and with it every exchange, those whose
// caller has gone included. That takes at most the total time limit, and no
// longer than the engine lives: an engine that stops ends them all.
func (s *Service) Run(ctx context.Context) error {
	var work sync.WaitGroup
	work.Go(func() { s.attend(ctx) })
	s.upkeep(ctx)
	work.Wait()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.exchanges.Wait()
	return nil
}

// Embed turns inputs into vectors. Errors: *UnavailableError,
// *admission.RejectedError, *TooLongError, *TimeoutError,
// *vector.InvalidError, *llamaclient.StatusError, or the cause of ctx's end.
//
// An input that is cached or being computed for somebody else is not computed
// again; a request with no other takes no permit. When ctx ends while the
// engine works, Embed returns at once; the exchange goes on without it, keeps
// the permit until it ends, and its vectors are cached.
func (s *Service) Embed(ctx context.Context, request Request) (Result, error) {
	if len(request.Inputs) == 0 {
		return Result{}, errors.New("embed: no input")
	}
	a := &asking{
		service: s, lane: request.Lane, truncate: request.Truncate, original: request.Inputs,
		arrived: time.Now(), notified: make(chan struct{}, 1),
	}
	result, err := a.answer(ctx)
	a.settle(ctx, err)
	return result, err
}

// begin starts the exchange unless the service is closing.
func (s *Service) begin(ctx context.Context, e *exchange) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.exchanges.Go(func() { e.run(context.WithoutCancel(ctx)) })
	return true
}

// CountTokens returns how many tokens the engine would embed for each text.
// It needs no permit, as counting takes none of the engine's slots; it waits
// its turn in the queue for counting, which indexing may do without limit.
func (s *Service) CountTokens(ctx context.Context, texts []string) ([]int, error) {
	for {
		instance, err := s.current()
		if err != nil {
			return nil, err
		}
		counts, err := s.count(ctx, instance, admission.LaneBackground, texts)
		if !errors.Is(err, errSucceeded) {
			return counts, err
		}
	}
}

// Info describes what the engine makes now, or says why there is none.
func (s *Service) Info() (Info, error) {
	instance, err := s.current()
	if err != nil {
		return Info{}, err
	}
	return Info{Model: instance.Model, Dim: instance.Dim, MaxTokens: instance.MaxTokens, Fingerprint: instance.Fingerprint}, nil
}

// Validity tells how the replies were judged.
func (s *Service) Validity() Validity {
	v := Validity{Checked: s.checked.Load(), Rejected: s.rejected.Load(), Quarantined: s.quarantine.size()}
	if last := s.last.Load(); last != nil {
		v.LastInvalid, v.LastReasons = &last.at, last.reasons
	}
	return v
}

// CacheStats tells where vectors came from.
func (s *Service) CacheStats() CacheStats {
	stats := CacheStats{Hits: s.hits.Load(), Misses: s.misses.Load(), Joins: s.joins.Load()}
	if s.cache != nil {
		kept := s.cache.Stats()
		stats.Entries, stats.Bytes, stats.DiskBytes = kept.Entries, kept.Bytes, kept.DiskBytes
	}
	return stats
}

// current is the engine's instance, or always an *UnavailableError.
func (s *Service) current() (Instance, error) {
	instance, err := s.engine.Current()
	if err != nil {
		return Instance{}, unavailable(err)
	}
	return instance, nil
}

// errSucceeded says that another engine, of another fingerprint, has taken the
// place of the one a request was planned for; it is planned anew.
var errSucceeded = errors.New("another engine has taken over")

// borrow is the engine's instance for use, if its vectors are those of planned;
// else errSucceeded, or an *UnavailableError. It waits for one that is asleep,
// as long as a request that arrived then may wait.
func (s *Service) borrow(ctx context.Context, planned Instance, arrived time.Time) (Instance, func(), error) {
	instance, done, err := s.engine.Borrow()
	for err != nil {
		if now, away := s.current(); away != nil || !now.Asleep {
			return Instance{}, nil, unavailable(err)
		}
		if err := s.awake(ctx, arrived); err != nil {
			return Instance{}, nil, err
		}
		instance, done, err = s.engine.Borrow()
	}
	if instance.Fingerprint != planned.Fingerprint {
		done()
		return Instance{}, nil, errSucceeded
	}
	return instance, done, nil
}

// unavailable is what an engine says of its absence as an *UnavailableError.
func unavailable(err error) error {
	if known, ok := errors.AsType[*UnavailableError](err); ok {
		return known
	}
	return &UnavailableError{State: "unknown", RetryAfter: defaultRetry, Err: err}
}
