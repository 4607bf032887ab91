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
	"github.com/ondol-app/ondol/internal/vector"
)

// DefaultTotal bounds one request at the engine, counted from its permit.
const DefaultTotal = 300 * time.Second

// defaultRetry is offered while an engine that vanished has not said more.
const defaultRetry = time.Second

// Config of a Service. Gate and Engine are required; Total 0 means
// DefaultTotal, a nil Logger none.
type Config struct {
	Gate   *admission.Gate
	Engine Engine
	Total  time.Duration
	Logger *slog.Logger
}

// Service is the door to one engine role. Its methods are safe for
// concurrent use.
type Service struct {
	gate   *admission.Gate
	engine Engine
	total  time.Duration
	logger *slog.Logger

	stopping context.Context // ends with Run's context
	stop     context.CancelFunc

	mu        sync.Mutex
	closed    bool           // guarded by mu; no exchange begins any more
	exchanges sync.WaitGroup // Add under mu while not closed

	checked  atomic.Uint64
	rejected atomic.Uint64
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
	if config.Total == 0 {
		config.Total = DefaultTotal
	}
	if config.Total < 0 {
		return nil, fmt.Errorf("embedding: total time limit %v, must be positive", config.Total)
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Service{gate: config.Gate, engine: config.Engine, total: config.Total, logger: config.Logger}
	s.stopping, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Run returns when ctx has ended and with it every exchange, those whose
// caller has gone included. That takes at most the total time limit, and no
// longer than the engine lives: an engine that stops ends them all.
func (s *Service) Run(ctx context.Context) error {
	<-ctx.Done()
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
// When ctx ends while the engine works, Embed returns at once; the running
// engine call goes on without it and keeps the permit until it ends.
func (s *Service) Embed(ctx context.Context, request Request) (Result, error) {
	if len(request.Inputs) == 0 {
		return Result{}, errors.New("embed: no input")
	}
	// No engine, no queue: waiting would only delay the same answer.
	instance, err := s.current()
	if err != nil {
		s.gate.Count(admission.EngineUnavailable)
		return Result{}, err
	}
	if err := s.checkLengths(ctx, instance, request.Inputs); err != nil {
		return Result{}, err
	}
	permit, err := s.gate.Acquire(ctx, request.Lane)
	if errors.Is(err, admission.ErrClosed) {
		return Result{}, &UnavailableError{State: "stopping", Err: err}
	}
	if err != nil {
		return Result{}, err
	}
	// The engine may have gone or changed while the request waited.
	if instance, err = s.current(); err != nil {
		permit.Release(admission.EngineUnavailable)
		return Result{}, err
	}
	e := &exchange{
		service: s, permit: permit, instance: instance, inputs: request.Inputs,
		reply: make(chan answer, 1),
	}
	if !s.begin(ctx, e) {
		permit.Release(admission.EngineUnavailable)
		return Result{}, &UnavailableError{State: "stopping"}
	}
	return e.await(ctx)
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
// It needs no permit: counting takes none of the engine's slots.
func (s *Service) CountTokens(ctx context.Context, texts []string) ([]int, error) {
	instance, err := s.current()
	if err != nil {
		return nil, err
	}
	return s.count(ctx, instance, texts)
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
	v := Validity{Checked: s.checked.Load(), Rejected: s.rejected.Load()}
	if last := s.last.Load(); last != nil {
		v.LastInvalid, v.LastReasons = &last.at, last.reasons
	}
	return v
}

// current is the engine's instance, or always an *UnavailableError.
func (s *Service) current() (Instance, error) {
	instance, err := s.engine.Current()
	var unavailable *UnavailableError
	switch {
	case err == nil:
		return instance, nil
	case errors.As(err, &unavailable):
		return Instance{}, unavailable
	}
	return Instance{}, &UnavailableError{State: "unknown", RetryAfter: defaultRetry, Err: err}
}

func (s *Service) count(ctx context.Context, instance Instance, texts []string) ([]int, error) {
	start := time.Now()
	counts, err := instance.Client.CountTokens(ctx, texts)
	if err != nil {
		return nil, s.translate(fmt.Errorf("count tokens: %w", err), time.Since(start))
	}
	if len(counts) != len(texts) {
		return nil, fmt.Errorf("count tokens: %d counts for %d texts", len(counts), len(texts))
	}
	return counts, nil
}

// checkLengths refuses what surely does not fit, without taking a permit.
func (s *Service) checkLengths(ctx context.Context, instance Instance, inputs []string) error {
	indices := suspects(inputs, instance.MaxTokens)
	if indices == nil {
		return nil
	}
	texts := make([]string, len(indices))
	for i, index := range indices {
		texts[i] = inputs[index]
	}
	counts, err := s.count(ctx, instance, texts)
	if err != nil {
		return err
	}
	for i, tokens := range counts {
		if tokens > instance.MaxTokens {
			return &TooLongError{Index: indices[i], Tokens: tokens, Limit: instance.MaxTokens}
		}
	}
	return nil
}
