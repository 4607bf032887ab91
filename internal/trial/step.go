package trial

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/upstream"
	"github.com/ondol-app/ondol/internal/vector"
)

// requests makes all of them, path after path or in turns; the rows are by path.
func (r *run) requests(ctx context.Context) error {
	paths := len(r.cfg.Targets)
	if !r.cfg.Alternate {
		for place := range paths {
			for step := range r.steps {
				if err := r.step(ctx, place, step); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for step := range r.steps {
		for i := range paths {
			if err := r.step(ctx, (step+i)%paths, step); err != nil {
				return err
			}
		}
	}
	place := func(name string) int {
		return slices.IndexFunc(r.report.Paths, func(p Path) bool { return p.Name == name })
	}
	slices.SortStableFunc(r.report.Rows, func(a, b Row) int { return cmp.Compare(place(a.Path), place(b.Path)) })
	return nil
}

// step sends one step of the workload down one path.
func (r *run) step(ctx context.Context, place, number int) error {
	first := 0
	for _, before := range r.steps[:number] {
		first += before.Requests
	}
	s := &stepRun{run: r, place: place, target: r.cfg.Targets[place], step: r.steps[number], first: first}
	if err := s.do(ctx); err != nil || !r.abandoned {
		return err
	}
	return r.rest(ctx) // the next step begins on an engine at rest
}

// stepRun is one step of one path under way.
type stepRun struct {
	run    *run
	place  int // of the target
	target Target
	step   Step
	first  int // input of its first request

	mu      sync.Mutex // guards what follows, and run while requests are under way
	next    int
	samples []Sample
}

// do makes the step's requests and sums them up. The error is ctx's.
func (s *stepRun) do(ctx context.Context) error {
	s.tell()
	free := func(bool) {}
	var refused error
	if s.target.Hold != nil {
		if free, refused = s.target.Hold(ctx); refused != nil {
			free = func(bool) {}
			if _, ok := errors.AsType[*admission.RejectedError](refused); ok {
				s.run.holdsRefused++
			}
		}
	}
	waited := s.observe()
	began := time.Now()
	if refused == nil {
		s.requests(ctx)
	} else if ctx.Err() == nil {
		for range s.step.Requests { // the path was never free
			s.add(s.failed(s.first+s.next, time.Now(), refused))
			s.next++
		}
	}
	elapsed := time.Since(began)
	longest := waited()
	abandoned := slices.ContainsFunc(s.samples, func(x Sample) bool { return x.Outcome == Late }) || ctx.Err() != nil
	if abandoned && s.target.Hold != nil && refused == nil {
		s.run.tell(Progress{Phase: Settling, Path: s.target.Name})
	}
	free(abandoned)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.run.abandoned = abandoned && s.target.Gate != nil
	s.run.report.Rows = append(s.run.report.Rows, row(s.target.Name, s.step, s.samples, elapsed, longest))
	return nil
}

// requests makes them all, as many at once as the step says.
func (s *stepRun) requests(ctx context.Context) {
	var wait sync.WaitGroup
	for range min(s.step.Concurrency, s.step.Requests) {
		wait.Go(func() {
			for ctx.Err() == nil {
				s.mu.Lock()
				input := s.first + s.next
				s.next++
				s.mu.Unlock()
				if input >= s.first+s.step.Requests {
					return
				}
				s.request(ctx, input)
			}
		})
	}
	wait.Wait()
}

// request makes one.
func (s *stepRun) request(ctx context.Context, input int) {
	if s.target.Turn != nil {
		done, err := s.target.Turn(ctx)
		if err != nil {
			if ctx.Err() == nil {
				s.add(s.failed(input, time.Now(), err))
			}
			return
		}
		defer done()
	}
	limit, cancel := context.WithTimeout(ctx, s.run.cfg.Deadline)
	defer cancel()
	began := time.Now()
	vectors, err := s.target.Embedder.Embed(limit, []string{s.run.texts[input]})
	took := time.Since(began)
	if ctx.Err() != nil {
		return // the trial is over; nobody counts
	}
	sample := s.sample(input, began, took)
	engine := s.run.report.Paths[s.place].Engine
	if err == nil {
		sample.look(vectors)
		err = vector.Check(vectors, vector.Expect{Count: 1, Dim: engine.Dimension, Normalized: engine.Normalized})
	}
	sample.Outcome, sample.Code = judgeReply(err, took >= s.run.cfg.Deadline || limit.Err() != nil)
	sample.Finite = sample.Finite || finite(err)
	if sample.Outcome == OK {
		s.mu.Lock()
		s.run.vectors[s.place][input] = vectors[0]
		s.mu.Unlock()
	}
	s.add(sample)
}

func (s *stepRun) sample(input int, began time.Time, took time.Duration) Sample {
	return Sample{
		Path: s.target.Name, Concurrency: s.step.Concurrency, Size: s.step.Size, Input: input,
		StartedMS: ms(began.Sub(s.run.report.Started)), ElapsedMS: ms(took), took: took,
	}
}

func (s *stepRun) failed(input int, at time.Time, err error) Sample {
	sample := s.sample(input, at, 0)
	sample.Outcome, sample.Code = judgeReply(err, false)
	return sample
}

func (s *stepRun) add(sample Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.samples = append(s.samples, sample)
	s.run.report.Samples = append(s.run.report.Samples, sample)
	if sample.Outcome != OK {
		s.run.bad++
	}
	s.tell()
}

// tell is called with mu held, or while no request is under way.
func (s *stepRun) tell() {
	s.run.tell(Progress{Phase: Running, Path: s.target.Name, Concurrency: s.step.Concurrency, Size: s.step.Size})
}

// observe watches the gate for the client that waits longest. The function it
// returns ends that and says how long; nil where there is no gate.
func (s *stepRun) observe() (ended func() *time.Duration) {
	if s.target.Gate == nil {
		return func() *time.Duration { return nil }
	}
	stop, done := make(chan struct{}), make(chan struct{})
	var longest time.Duration
	go func() {
		defer close(done)
		ticker := time.NewTicker(look)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				oldest := time.Duration(s.target.Gate.Stats().OldestWaitMS) * time.Millisecond
				longest = max(longest, oldest)
			case <-stop:
				return
			}
		}
	}()
	return func() *time.Duration {
		close(stop)
		<-done
		return &longest
	}
}

// look fills in what can be said of vectors whether they are valid or not.
func (s *Sample) look(vectors [][]float32) {
	if len(vectors) != 1 {
		return
	}
	v := vectors[0]
	s.Dimension = len(v)
	if norm := vector.Norm(v); len(v) > 0 && norm-norm == 0 { // neither NaN nor infinite, so no component is
		s.Norm, s.Finite = &norm, true
	}
}

// Codes of samples beside those that the paths' own errors have, and the
// reasons of package vector.
const (
	CodeDeadline = "deadline"
	CodeNoAnswer = "no_answer" // no answer came: connection refused, broken …
)

// judgeReply is what a reply comes to. One that is late is late, valid or not.
func judgeReply(err error, late bool) (Outcome, string) {
	if late {
		return Late, CodeDeadline
	}
	if err == nil {
		return OK, ""
	}
	if bad, ok := errors.AsType[*vector.InvalidError](err); ok {
		return Invalid, string(bad.Problems[0].Reason)
	}
	return Failed, codeOf(err)
}

func codeOf(err error) string {
	if coded, ok := errors.AsType[interface {
		error
		Code() string
	}](err); ok {
		return coded.Code()
	}
	if refused, ok := errors.AsType[*admission.RejectedError](err); ok {
		return refused.Reason.String()
	}
	if said, ok := errors.AsType[*upstream.StatusError](err); ok {
		return "http_" + decimal(said.Code)
	}
	if _, ok := errors.AsType[*upstream.ContextError](err); ok {
		return "context_length_exceeded"
	}
	return CodeNoAnswer
}

// finite says whether an answer that the path itself found invalid was of
// numbers all the same.
func finite(err error) bool {
	bad, ok := errors.AsType[*vector.InvalidError](err)
	if !ok {
		return false
	}
	for _, p := range bad.Problems {
		switch p.Reason {
		case vector.ReasonDimension, vector.ReasonZero, vector.ReasonNorm, vector.ReasonConstant:
		default:
			return false
		}
	}
	return true
}
