package control

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/gpu"
	"github.com/ondol-app/ondol/internal/yielding"
)

const (
	// sampleEvery is the shortest time between two samples.
	sampleEvery = 250 * time.Millisecond
	// sampleAnyway is after how many of them one is sent although nothing differs.
	sampleAnyway = 4
)

// Sample is the figures that change all the time: no event, never kept.
type Sample struct {
	At                  time.Time                    `json:"at"`
	Engine              string                       `json:"engine"` // its state
	Executing           int                          `json:"executing"`
	Draining            int                          `json:"draining"`
	Waiting             int                          `json:"waiting"`
	BackgroundExecuting int                          `json:"background_executing"`
	BackgroundWaiting   int                          `json:"background_waiting"`
	BackgroundPaused    bool                         `json:"background_paused"`
	OldestWaitMS        int64                        `json:"oldest_wait_ms"`
	Totals              map[admission.Outcome]uint64 `json:"totals"`
	GPU                 gpu.Status                   `json:"gpu"`
	Yielding            *yielding.State              `json:"yielding,omitempty"`
}

// Apply puts the figures into a status that is a little older.
func (s Sample) Apply(status *Status) {
	a := &status.Admission
	a.Executing, a.Draining, a.Waiting = s.Executing, s.Draining, s.Waiting
	a.BackgroundExecuting, a.BackgroundWaiting = s.BackgroundExecuting, s.BackgroundWaiting
	a.BackgroundPaused, a.OldestWaitMS, a.Totals = s.BackgroundPaused, s.OldestWaitMS, s.Totals
	status.GPU, status.Index.Yielding = s.GPU, s.Yielding
}

// sample is the figures now.
func (s *Server) sample(now time.Time) Sample {
	gate := s.cfg.Gate.Stats()
	return Sample{
		At: now.UTC(), Engine: s.cfg.Engine.Snapshot().State.String(),
		Executing: gate.Executing, Draining: gate.Draining, Waiting: gate.Waiting,
		BackgroundExecuting: gate.BackgroundExecuting, BackgroundWaiting: gate.BackgroundWaiting,
		BackgroundPaused: gate.BackgroundPaused, OldestWaitMS: gate.OldestWaitMS, Totals: gate.Totals,
		GPU: s.gpu(s.ending), Yielding: s.yielding(),
	}
}

// sampler takes one sample for all who listen, and none while nobody does.
type sampler struct {
	take func(now time.Time) Sample
	wake chan struct{} // 1-buffered: somebody listens

	mu        sync.Mutex
	listeners int           // guarded by mu
	message   []byte        // guarded by mu; the last sample, never written to
	news      chan struct{} // guarded by mu; closed, and another one made, with every sample
}

func newSampler(take func(now time.Time) Sample) *sampler {
	return &sampler{take: take, wake: make(chan struct{}, 1), news: make(chan struct{})}
}

// join counts a listener until leave is called.
func (s *sampler) join() (leave func()) {
	s.mu.Lock()
	s.listeners++
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return func() {
		s.mu.Lock()
		s.listeners--
		s.mu.Unlock()
	}
}

// changed is closed with the next sample.
func (s *sampler) changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.news
}

func (s *sampler) latest() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.message
}

func (s *sampler) listened() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listeners > 0
}

// run samples while somebody listens, until ctx ends.
func (s *sampler) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		}
		if err := s.serve(ctx); err != nil {
			return err
		}
	}
}

// serve samples until nobody listens any more.
func (s *sampler) serve(ctx context.Context) error {
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	var last string
	same := sampleAnyway
	for s.listened() {
		now := s.take(time.Now())
		at := now.At
		now.At = time.Time{}
		body, err := json.Marshal(now)
		if err != nil {
			return err
		}
		if same++; string(body) != last || same >= sampleAnyway {
			last, same = string(body), 0
			now.At = at
			if body, err = json.Marshal(now); err != nil {
				return err
			}
			s.publish(appendMessage(nil, MessageSample, 0, body))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
	return nil
}

func (s *sampler) publish(message []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.message = message
	close(s.news)
	s.news = make(chan struct{})
}
