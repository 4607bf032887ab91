package gpu

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// Every is the time between two readings. A driver credits work when it is
	// done, so a shorter one says less.
	Every = time.Second
	// smooth is how many intervals a share is the mean of.
	smooth = 3
	// lookTime is how long after a look the figures are kept current.
	lookTime = 30 * time.Second
	// firstWait is how long a look waits for figures when there are none.
	firstWait = 300 * time.Millisecond
	// stale is the age at which a reading says nothing of now.
	stale = smooth * Every
)

// Source is where figures come from.
type Source struct {
	Reader     Reader            // nil = there is none
	Missing    Reason            // why, where Reader is nil
	Err        error             // of the reader that could not be opened; nil = none
	Conditions func() Conditions // nil = none are told
}

// Config of a Sampler. Open, Ours and Executing are required.
type Config struct {
	Open func() Source // called once, by Run, when somebody looks first
	// Ours lists the processes of the app's engines. false: work of ours is done
	// by processes that nobody can tell, so there are no shares.
	Ours      func() (pids []int, known bool)
	Executing func() bool // an engine of ours is at work
	Logger    *slog.Logger
}

// Sampler keeps a Status current while somebody looks. All methods are safe for
// concurrent use.
type Sampler struct {
	config Config
	wake   chan struct{} // 1-buffered: somebody looks

	mu      sync.Mutex
	joined  int           // guarded by mu; who looks until they say otherwise
	until   time.Time     // guarded by mu; a look keeps the figures current until then
	status  Status        // guarded by mu
	changed chan struct{} // guarded by mu; closed, and another one made, with every sample

	// Owned by the goroutine of Run.
	source    *Source
	last      sample
	intervals []interval
	failed    string // error of the last reading, as it was logged
}

// sample is one reading.
type sample struct {
	at        time.Time // zero = none
	reading   Reading
	executing bool
}

// interval is what went on between two readings.
type interval struct {
	d         time.Duration
	shares    Shares
	executing bool // we were, at one of its ends
}

// New makes a sampler; it reads nothing before Run.
func New(config Config) (*Sampler, error) {
	if config.Open == nil || config.Ours == nil || config.Executing == nil {
		return nil, errors.New("gpu: Open, Ours and Executing are required")
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	return &Sampler{
		config: config, wake: make(chan struct{}, 1), changed: make(chan struct{}), status: Status{Reason: ReasonUnread},
	}, nil
}

// Join keeps the figures current until leave is called.
func (s *Sampler) Join() (leave func()) {
	s.mu.Lock()
	s.joined++
	s.mu.Unlock()
	s.poke()
	return sync.OnceFunc(func() {
		s.mu.Lock()
		s.joined--
		s.mu.Unlock()
	})
}

// Changed is closed with the next sample.
func (s *Sampler) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Latest is the figures as they stand, without asking for newer ones. Figures
// of another time are left out.
func (s *Sampler) Latest() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.At == nil || time.Since(*s.status.At) > stale {
		return Status{Available: s.status.Available, Reason: s.status.Reason}
	}
	return s.status
}

// Look is Latest for somebody who will look again: the figures stay current for
// a while. Where there are none it waits a moment for the first. Shares need
// two readings and are there a second later.
func (s *Sampler) Look(ctx context.Context) Status {
	s.mu.Lock()
	s.until = time.Now().Add(lookTime)
	s.mu.Unlock()
	s.poke()
	changed := s.Changed()
	now := s.Latest()
	if now.At != nil {
		return now
	}
	wait := time.NewTimer(firstWait)
	defer wait.Stop()
	select {
	case <-ctx.Done():
	case <-wait.C:
	case <-changed:
	}
	return s.Latest()
}

func (s *Sampler) poke() {
	select {
	case s.wake <- struct{}{}:
	default: // one is pending
	}
}

// Run reads while somebody looks, until ctx ends.
func (s *Sampler) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		}
		s.follow(ctx)
	}
}

// follow reads until nobody looks any more.
func (s *Sampler) follow(ctx context.Context) {
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for s.wanted() {
		s.take()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *Sampler) wanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.joined > 0 || time.Now().Before(s.until)
}

// take makes one sample and hands it to who looks.
func (s *Sampler) take() {
	if s.source == nil {
		source := s.config.Open()
		if source.Err != nil {
			s.config.Logger.Warn("The GPU cannot be watched", "error", source.Err)
		}
		s.source = &source
	}
	at := time.Now()
	status := s.figures(at)
	utc := at.UTC()
	status.At = &utc
	if s.source.Conditions != nil {
		status.Conditions = s.source.Conditions()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
	close(s.changed)
	s.changed = make(chan struct{})
}

// figures reads the counters and makes shares of them and of those before.
func (s *Sampler) figures(at time.Time) Status {
	if s.source.Reader == nil {
		return Status{Reason: s.source.Missing}
	}
	reading, err := s.source.Reader.Read()
	s.report(err)
	switch {
	case errors.Is(err, ErrNone):
		return Status{Reason: ReasonNoGPU}
	case err != nil:
		s.last, s.intervals = sample{}, nil
		return Status{Reason: ReasonUnreadable}
	case reading.Utilization == nil && reading.MemoryInUse == nil && reading.Clients == nil:
		return Status{Reason: ReasonNoCounters}
	}
	now := sample{at: at, reading: reading, executing: s.config.Executing()}
	s.note(s.last, now)
	s.last = now
	status := Status{Available: true, Utilization: reading.Utilization, MemoryInUse: reading.MemoryInUse, WorkingSet: reading.WorkingSet}
	if ours, others, ok := mean(s.intervals); ok {
		status.Ours, status.Others = &ours, &others
	}
	working := slices.DeleteFunc(slices.Clone(s.intervals), func(i interval) bool { return !i.executing })
	if _, others, ok := mean(working); ok {
		status.Contention = &others
	}
	return status
}

// note adds the interval from one sample to the next. After a gap nothing of
// before is of now.
func (s *Sampler) note(before, now sample) {
	d := now.at.Sub(before.at)
	if before.at.IsZero() || d > stale {
		s.intervals = nil
		return
	}
	pids, known := s.config.Ours()
	if !known {
		s.intervals = nil
		return
	}
	i := interval{d: d, executing: before.executing || now.executing}
	var ok bool
	i.shares, ok = Between(before.reading, now.reading, d, func(pid int) bool { return slices.Contains(pids, pid) })
	if !ok && now.reading.Utilization != nil && !i.executing {
		// Nothing is told of processes; but while we do nothing, it is others.
		i.shares, ok = Shares{Others: *now.reading.Utilization}, true
	}
	if !ok {
		s.intervals = nil
		return
	}
	s.intervals = append(s.intervals, i)
	if extra := len(s.intervals) - smooth; extra > 0 {
		s.intervals = slices.Delete(s.intervals, 0, extra)
	}
}

// mean is the shares over all intervals; false where there are none.
func mean(intervals []interval) (ours, others float64, ok bool) {
	var seconds float64
	for _, i := range intervals {
		seconds += i.d.Seconds()
		ours += i.shares.Ours * i.d.Seconds()
		others += i.shares.Others * i.d.Seconds()
	}
	if seconds == 0 {
		return 0, 0, false
	}
	return ours / seconds, others / seconds, true
}

// report logs an error when it is another than the last one.
func (s *Sampler) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != s.failed && err != nil && !errors.Is(err, ErrNone) {
		s.config.Logger.Warn("Read the GPU's counters", "error", err)
	}
	s.failed = text
}
