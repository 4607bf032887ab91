package trial

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
)

// Embedder is one way to an engine. Its errors may have a Code() string, which
// then stands in the sample. It must honour ctx.
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// Gate tells how the queue stands that a path goes through.
type Gate interface{ Stats() admission.Stats }

// Target is one path.
type Target struct {
	Name     string
	Embedder Embedder

	// Engine is what makes the vectors now. It is asked before and after.
	Engine func() (Engine, error)

	// Gate is the one its requests wait in; nil = they pass none.
	Gate Gate

	// Turn waits for the right to one request, whose time and deadline begin
	// only then; nil = none is needed. Its error ends the request as failed.
	Turn func(ctx context.Context) (done func(), err error)

	// Hold makes room for one step of requests that pass no gate, and waits
	// for its turn to do so. free ends it; abandoned says that the engine may
	// still work on requests nobody waits for, which free then outlasts. nil =
	// no room is needed.
	Hold func(ctx context.Context) (free func(abandoned bool), err error)
}

// CacheCounts are running totals of a cache in front of an engine.
type CacheCounts struct{ Hits, Joins, Misses uint64 }

// Config is what a trial is made of. Targets and Count are required.
type Config struct {
	Options
	Version string
	Targets []Target // at least one, in the order they are tried
	Count   Count

	// Alternate has every step made on all paths before the next one, the first
	// path changing from step to step: what else the machine does is then the
	// same for all of them.
	Alternate bool

	// Fit leaves out the sizes that an engine does not take, and says so;
	// otherwise there is no trial of it (TooShortError).
	Fit bool

	// MinCosine is how alike the vectors of one text must be on any two
	// paths; 0 = DefaultMinCosine, negative = they need not be.
	MinCosine float64

	Cache   func() CacheCounts // of the gated paths; nil = they have none
	GPU     func() func() GPU  // begins to watch the GPU, and ends it; nil = nobody can
	Machine Machine

	// Settle is how long work that nobody waits for any more may go on before
	// the next step begins all the same; 0 = DefaultSettle.
	Settle time.Duration

	// Progress is told of every request that ended. It must return at once;
	// it is never called twice at a time.
	Progress func(Progress)
}

const (
	DefaultMinCosine = 0.9999

	// DefaultSettle is the longest that the gateway lets an exchange take.
	DefaultSettle = 300 * time.Second
)

// Phase is what a trial is doing.
type Phase string

const (
	Preparing Phase = "preparing" // inputs are made
	Running   Phase = "running"
	Settling  Phase = "settling" // waiting for work that nobody waits for any more
)

func (p Phase) String() string { return string(p) }

// Progress is where a trial stands.
type Progress struct {
	Phase       Phase  `json:"phase"`
	Path        string `json:"path,omitempty"`
	Concurrency int    `json:"concurrency,omitempty"`
	Size        Size   `json:"size,omitempty"`
	Done        int    `json:"done"` // requests, of all paths
	Total       int    `json:"total"`
	Bad         int    `json:"bad"` // of those done: late, invalid, failed
}

// TooShortError says that the engine does not take inputs of the workload.
type TooShortError struct{ MaxTokens, Need int }

func (e *TooShortError) Error() string {
	return fmt.Sprintf("the engine takes inputs of at most %d tokens, the trial needs %d; start it with a longer context (-c) or fewer slots (-np)", e.MaxTokens, e.Need)
}

// Run makes a trial. It returns a report whatever becomes of the requests; an
// error means that there was no trial, or that ctx ended it.
func Run(ctx context.Context, cfg Config) (Report, error) {
	r, err := begin(&cfg)
	if err != nil {
		return Report{}, err
	}
	r.tell(Progress{Phase: Preparing})
	w := writer{count: cfg.Count, random: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), used: map[string]bool{}}
	if r.texts, err = w.inputs(ctx, r.steps, cfg.Distinct); err != nil {
		return Report{}, fmt.Errorf("make the inputs: %w", err)
	}
	watched := sync.OnceFunc(r.watch())
	defer watched()
	if err := r.requests(ctx); err != nil {
		return Report{}, err
	}
	if err := r.rest(ctx); err != nil {
		return Report{}, err
	}
	watched()
	r.conclude()
	return r.report, nil
}

// run is one trial under way; the goroutine of Run owns it.
type run struct {
	cfg       *Config
	steps     []Step
	texts     []string      // by input
	vectors   [][][]float32 // by target and input; nil = no valid one
	abandoned bool          // a gated request was given up: its work may still go on
	fitted    bool          // sizes were left out
	report    Report
	bad       int

	holdsRefused int64
}

func begin(cfg *Config) (*run, error) {
	if len(cfg.Targets) == 0 || cfg.Count == nil {
		return nil, errors.New("a trial needs paths and a way to count tokens")
	}
	if cfg.Deadline == 0 {
		cfg.Deadline = DefaultDeadline
	}
	if cfg.Deadline < MinDeadline || cfg.Deadline > MaxDeadline {
		return nil, fmt.Errorf("deadline %v: must be %v to %v", cfg.Deadline, MinDeadline, MaxDeadline)
	}
	if cfg.Settle == 0 {
		cfg.Settle = DefaultSettle
	}
	if cfg.MinCosine == 0 {
		cfg.MinCosine = DefaultMinCosine
	}
	r := &run{cfg: cfg, steps: Steps(cfg.Quick), vectors: make([][][]float32, len(cfg.Targets))}
	now := time.Now().UTC()
	r.report = Report{
		ID: now.Format(idLayout), Version: cfg.Version, Started: now, Quick: cfg.Quick, Distinct: cfg.Distinct,
		DeadlineMS: cfg.Deadline.Milliseconds(), Machine: cfg.Machine,
		Verdict: Verdict{Reasons: []Reason{}}, Agreement: []Agreement{}, Samples: []Sample{}, Notes: []Note{},
		Caveats: []Caveat{CaveatSmallSample, CaveatWorkloads},
	}
	for _, target := range cfg.Targets {
		engine, err := target.Engine()
		if err != nil {
			return nil, err
		}
		if err := r.fit(engine.MaxTokens); err != nil {
			return nil, err
		}
		r.report.Paths = append(r.report.Paths, Path{Name: target.Name, Gated: target.Gate != nil, Engine: engine})
	}
	inputs := 0
	for _, step := range r.steps {
		inputs += step.Requests
	}
	r.report.Requests = inputs * len(cfg.Targets)
	for i := range cfg.Targets {
		r.vectors[i] = make([][]float32, inputs)
	}
	return r, nil
}

// fit sees to it that the engine takes the workload's inputs; 0 = not known.
func (r *run) fit(longest int) error {
	if longest == 0 || longest >= Medium.Tokens() {
		return nil
	}
	if !r.cfg.Fit || longest < Short.Tokens() {
		return &TooShortError{MaxTokens: longest, Need: Medium.Tokens()}
	}
	r.fitted = true
	r.steps = slices.DeleteFunc(r.steps, func(s Step) bool { return s.Size.Tokens() > longest })
	return nil
}

// idLayout sorts as the times do, and is a file's name on any system.
const idLayout = "20060102T150405.000Z"

func (r *run) tell(p Progress) {
	if r.cfg.Progress == nil {
		return
	}
	p.Done, p.Total, p.Bad = len(r.report.Samples), r.report.Requests, r.bad
	r.cfg.Progress(p)
}

// gate is the first that a path goes through; nil when none does.
func (r *run) gate() Gate {
	for _, target := range r.cfg.Targets {
		if target.Gate != nil {
			return target.Gate
		}
	}
	return nil
}

// watch begins what is measured over the whole run; the function it returns
// ends it.
func (r *run) watch() (ended func()) {
	gpu := func() GPU { return GPU{Reason: "no_meter"} }
	if r.cfg.GPU != nil {
		gpu = r.cfg.GPU()
	}
	var before CacheCounts
	if r.cfg.Cache != nil {
		before = r.cfg.Cache()
	}
	gate := r.gate()
	var then admission.Stats
	if gate != nil {
		then = gate.Stats()
	}
	return func() {
		r.report.Ended = time.Now().UTC()
		r.report.GPU = gpu()
		if r.cfg.Cache != nil {
			now := r.cfg.Cache()
			r.report.Cache = &Cache{Hits: now.Hits - before.Hits, Joins: now.Joins - before.Joins, Misses: now.Misses - before.Misses}
		}
		if gate != nil {
			now := gate.Stats()
			r.report.Others = r.others(then, now)
			r.report.AtEnd = atEnd(now)
		}
	}
}

func atEnd(now admission.Stats) *AtEnd {
	return &AtEnd{Executing: now.Executing, Draining: now.Draining, Waiting: now.Waiting, Background: now.BackgroundExecuting}
}

// others is what the gate counted beside the trial's own requests: each of
// those that came to the gate, and each hold it refused, is one outcome in its
// totals.
func (r *run) others(then, now admission.Stats) *Others {
	var all, refused int64
	for outcome, count := range now.Totals {
		more := int64(count - then.Totals[outcome])
		all += more
		if outcome == admission.QueueFull || outcome == admission.QueueTimeout {
			refused += more
		}
	}
	all, refused = all-r.holdsRefused, refused-r.holdsRefused
	for _, s := range r.report.Samples {
		if !r.gated(s.Path) || s.Code == CodeNoAnswer {
			continue
		}
		all--
		if s.Code == admission.QueueFull.String() || s.Code == admission.QueueTimeout.String() {
			refused--
		}
	}
	return &Others{Requests: max(all, 0), Refused: max(refused, 0)}
}

func (r *run) gated(path string) bool {
	return slices.ContainsFunc(r.report.Paths, func(p Path) bool { return p.Gated && p.Name == path })
}

// rest waits until the gate is at rest: at once, unless somebody else is there
// or work was given up.
func (r *run) rest(ctx context.Context) error {
	gate := r.gate()
	if gate == nil {
		return nil
	}
	limit := restWait
	if r.abandoned {
		limit = r.cfg.Settle
		r.tell(Progress{Phase: Settling})
	}
	r.abandoned = false
	return idle(ctx, gate, limit)
}

const (
	// restWait is how long requests of others may keep the end of a trial waiting.
	restWait = 10 * time.Second

	// look is the time between two looks at the gate.
	look = 20 * time.Millisecond
)

// idle returns when the gate is at rest, or limit is over.
func idle(ctx context.Context, gate Gate, limit time.Duration) error {
	over := time.NewTimer(limit)
	defer over.Stop()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		if atEnd(gate.Stats()).Clients() == 0 {
			return nil
		}
		select {
		case <-ticker.C:
		case <-over.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// conclude judges the finished run.
func (r *run) conclude() {
	var required *float64
	if r.cfg.MinCosine > 0 {
		required = number(r.cfg.MinCosine)
	}
	for i := 1; i < len(r.cfg.Targets); i++ {
		r.report.Agreement = append(r.report.Agreement,
			agree(r.cfg.Targets[0].Name, r.cfg.Targets[i].Name, r.vectors[0], r.vectors[i], required))
	}
	r.report.Notes = r.notes()
	r.report.Verdict = judge(&r.report, r.changed())
}

func (r *run) notes() []Note {
	marks := NoteMarked
	if r.cfg.Distinct {
		marks = NoteDistinct
	}
	notes := []Note{marks}
	add := func(when bool, note Note) {
		if when {
			notes = append(notes, note)
		}
	}
	add(r.cfg.Quick, NoteQuick)
	add(r.fitted, NoteShort)
	add(r.cfg.Deadline < FullDeadline, NoteDeadline)
	add(slices.ContainsFunc(r.cfg.Targets, func(t Target) bool { return t.Hold != nil }), NoteHeld)
	add(r.report.Others != nil && r.report.Others.Requests > 0, NoteOthers)
	add(!r.report.GPU.Available, NoteNoGPU)
	return notes
}

// changed lists the paths whose engine is not the one they began with.
func (r *run) changed() []string {
	var names []string
	for i, target := range r.cfg.Targets {
		before := r.report.Paths[i].Engine
		now, err := target.Engine()
		if err != nil || now.Generation != before.Generation || now.Fingerprint != before.Fingerprint {
			names = append(names, target.Name)
		}
	}
	return names
}

func decimal(n int) string { return strconv.Itoa(n) }
