package engines

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ondol-app/ondol/internal/trial"
	"github.com/ondol-app/ondol/internal/vector"
)

// figures are what one round of the trial's workload came to, on one path.
type figures struct {
	rows    []trial.Row
	samples []trial.Sample // valid ones, in time
}

// workload puts the trial's requests through engines of one model, in turns
// step by step, and notes what comes of it. An engine that failed before is
// left out.
func (x *exam) workload(ctx context.Context, tell func(Progress), engines ...*measured) {
	able := slices.DeleteFunc(slices.Clone(engines), func(m *measured) bool { return m.err != nil })
	if len(able) == 0 {
		return
	}
	config := trial.Config{
		Options: trial.Options{Quick: x.quick}, Count: able[0].instance.Client.CountTokens, Alternate: true, Fit: true,
		MinCosine: -1, // how alike the vectors must be is for the verdict to say
		Progress:  func(p trial.Progress) { tell(Progress{Step: StepTrial, Done: p.Done, Total: p.Total}) },
	}
	for _, m := range able {
		config.Targets = append(config.Targets, trial.Target{Name: m.name, Embedder: m, Engine: m.engine, Turn: x.bench.Turn})
	}
	report, err := trial.Run(ctx, config)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		noTrial(err, able)
		return
	}
	for _, m := range able {
		m.take(report)
	}
	if len(report.Agreement) > 0 && report.Agreement[0].MinCosine != nil {
		x.agreed = report.Agreement[0].MinCosine
	}
}

// noTrial notes why there was none: the engine's text or size is not one for
// it, which is no fault, or an engine does not answer.
func noTrial(err error, able []*measured) {
	inexact, short := new(trial.InexactError), new(trial.TooShortError)
	for _, m := range able {
		_, gone := m.server.Current()
		switch {
		case errors.As(err, &inexact):
			m.untried = "no_inputs"
		case errors.As(err, &short):
			m.untried = "short_context"
		case gone != nil || len(able) == 1:
			m.err = err
		}
	}
	if able[0].untried == "" && !slices.ContainsFunc(able, func(m *measured) bool { return m.err != nil }) {
		able[0].err = err // it counted the tokens
	}
}

// take notes what a trial found about the engine.
func (m *measured) take(r trial.Report) {
	m.trial = figures{}
	for _, row := range r.Rows {
		if row.Path == m.name {
			m.trial.rows = append(m.trial.rows, row)
		}
	}
	for _, s := range r.Samples {
		switch {
		case s.Path != m.name:
		case s.Outcome == trial.OK:
			m.asked, m.valid = m.asked+1, m.valid+1
			m.trial.samples = append(m.trial.samples, s)
		case s.Outcome != trial.Late: // of what came too late nothing is known
			m.asked++
			m.bad = cmp.Or(m.bad, s.Code)
		}
	}
	for _, reason := range r.Verdict.Reasons {
		if reason.Args["path"] == m.name {
			m.reasons = append(m.reasons, reason)
		}
	}
}

// Embed is the engine's own connection; see trial.Embedder.
func (m *measured) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	reply, err := m.instance.Client.Embed(ctx, texts, vector.Expect{Dim: m.instance.Dim, Normalized: m.instance.Normalized})
	return reply.Vectors, err
}

// engine is what makes the vectors now.
func (m *measured) engine() (trial.Engine, error) {
	now, err := m.server.Current()
	if err != nil {
		return trial.Engine{}, err
	}
	return trial.Engine{
		Generation: now.Generation, Fingerprint: now.Fingerprint, Model: now.ModelName, Dimension: now.Dim, MaxTokens: now.MaxTokens,
		Normalized: now.Normalized, Build: m.status.Version, Profile: m.status.Profile, Flags: m.status.Flags,
	}, nil
}

// times are how long the valid answers of a size took, in milliseconds; of
// every size for none.
func (f figures) times(size trial.Size) []float64 {
	var list []float64
	for _, s := range f.samples {
		if size == "" || s.Size == size {
			list = append(list, s.ElapsedMS)
		}
	}
	return list
}

// tokensPerSecond is what one request at a time was given; nil = nothing was.
func (f figures) tokensPerSecond() *float64 {
	tokens, busy := 0, 0.0
	for _, s := range f.samples {
		tokens, busy = tokens+s.Size.Tokens(), busy+s.ElapsedMS
	}
	if busy == 0 {
		return nil
	}
	return number(float64(tokens) / busy * float64(time.Second/time.Millisecond))
}

// slowdown is how many times as long the candidate takes as the live engine:
// of each size the median over its steps, and the worse size counts. ok is
// false where nothing can be compared.
func slowdown(live, candidate figures) (ratio float64, ok bool) {
	bySize := map[trial.Size][]float64{}
	for _, a := range live.rows {
		for _, b := range candidate.rows {
			if a.Step == b.Step && a.P50MS != nil && b.P50MS != nil && *a.P50MS > 0 {
				bySize[a.Size] = append(bySize[a.Size], *b.P50MS / *a.P50MS)
			}
		}
	}
	for _, ratios := range bySize {
		ratio, ok = max(ratio, *quantile(ratios, 0.5)), true
	}
	return ratio, ok
}

// race times both engines, which run the same model. One found slower than it
// may be is timed once more, and the better round counts: what else the
// machine did is seldom there twice.
func (x *exam) race(ctx context.Context, tell func(Progress)) {
	x.workload(ctx, tell, x.live, x.candidate)
	first, ok := slowdown(x.live.trial, x.candidate.trial)
	if !ok || first <= x.bench.limit() {
		return
	}
	live, candidate := x.live.trial, x.candidate.trial
	x.workload(ctx, tell, x.live, x.candidate)
	if again, ok := slowdown(x.live.trial, x.candidate.trial); !ok || again > first {
		x.live.trial, x.candidate.trial = live, candidate
	}
}
