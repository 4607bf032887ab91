package engines

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/trial"
	"github.com/ondol-app/ondol/internal/vector"
)

// engineOf is a measured engine that gives these vectors, and took so many
// milliseconds in each step of a trial.
func engineOf(sha string, took float64, passages, searches [][]float32) *measured {
	n := len(passages) + len(searches)
	m := &measured{passages: passages, searches: searches, asked: n, valid: n, header: 2, instance: llamaserver.Instance{Dim: 2}}
	m.status.Model.SHA256 = sha
	for _, step := range trial.Steps(false) {
		m.trial.rows = append(m.trial.rows, trial.Row{Step: step, P50MS: &took})
		for range step.Requests {
			m.trial.samples = append(m.trial.samples, trial.Sample{Size: step.Size, ElapsedMS: took})
		}
	}
	return m
}

// slow has the steps of a size take so many milliseconds, from the given one on.
func (m *measured) slow(size trial.Size, took float64, from int) {
	rows := slices.Clone(m.trial.rows)
	n := 0
	for i := range rows {
		if rows[i].Size == size {
			if n >= from {
				rows[i].P50MS = &took
			}
			n++
		}
	}
	m.trial.rows = rows
}

func at(degrees ...float64) [][]float32 {
	var list [][]float32
	for _, d := range degrees {
		list = append(list, []float32{float32(math.Cos(d * math.Pi / 180)), float32(math.Sin(d * math.Pi / 180))})
	}
	return list
}

func TestJudge(t *testing.T) {
	passages := at(0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120)
	searches := at(0, 35, 90)
	live := engineOf("a", 10, passages, searches)
	for _, tt := range []struct {
		name   string
		change func(m *measured)
		fails  []Check
		fatal  bool
	}{
		{"the same", func(*measured) {}, nil, false},
		{"as slow as may be", func(m *measured) { m.slow(trial.Short, 11, 0) }, nil, false},
		{"slower, short ones", func(m *measured) { m.slow(trial.Short, 12, 0) }, []Check{CheckSpeed}, false},
		{"slower, medium ones", func(m *measured) { m.slow(trial.Medium, 12, 0) }, []Check{CheckSpeed}, false},
		{"slower in one step of three", func(m *measured) { m.slow(trial.Short, 50, 2) }, nil, false},
		{"slower in two steps of three", func(m *measured) { m.slow(trial.Short, 50, 1) }, []Check{CheckSpeed}, false},
		{"another model is slower", func(m *measured) { m.status.Model.SHA256 = "b"; m.slow(trial.Short, 900, 0) }, nil, false},
		{"a late answer", func(m *measured) {
			m.trial.samples = m.trial.samples[1:]
			m.reasons = []trial.Reason{{Code: trial.ReasonLate}}
		}, []Check{CheckTrial}, false},
		{"an answer in the trial that is not valid", func(m *measured) {
			m.trial.samples, m.asked = m.trial.samples[1:], m.asked+1
			m.reasons = []trial.Reason{{Code: trial.ReasonInvalid}}
		}, []Check{CheckValid, CheckTrial}, true},
		{"a context that the trial does not fit", func(m *measured) { m.trial, m.untried = figures{}, "short_context" }, nil, false},
		// One passage turned by 6°: no other check sees it.
		{"one vector is off", func(m *measured) { m.passages = slices.Clone(passages); m.passages[12] = at(126)[0] }, []Check{CheckVectors, CheckScores}, false},
		{"all vectors are others", func(m *measured) { m.passages = at(120, 0, 110, 5, 100, 15, 90, 25, 80, 35, 70, 45, 60) },
			[]Check{CheckVectors, CheckOverlap, CheckScores, CheckRanks}, false},
		{"another model that ranks otherwise", func(m *measured) {
			m.status.Model.SHA256, m.passages = "b", at(120, 0, 110, 5, 100, 15, 90, 25, 80, 35, 70, 45, 60)
		}, nil, false},
		{"another dimension of the same model", func(m *measured) { m.instance.Dim = 3 }, []Check{CheckDimension, CheckVectors}, true},
		{"another dimension than its file tells", func(m *measured) { m.status.Model.SHA256, m.header = "b", 4 }, []Check{CheckDimension}, true},
		{"right only one at a time", func(m *measured) { m.status.OneAtATime = &llamaserver.OneAtATime{} }, []Check{CheckCanaries}, false},
		{"an invalid vector", func(m *measured) {
			m.valid--
			m.trial = figures{}
			m.err = &vector.InvalidError{Problems: []vector.Problem{{Reason: vector.ReasonNotFinite}}}
		}, []Check{CheckValid, CheckTrial, CheckVectors, CheckOverlap, CheckScores, CheckRanks, CheckSpeed}, true},
	} {
		cand := engineOf("a", 10, passages, searches)
		tt.change(cand)
		v := (&exam{bench: Bench{Slower: 1.1}, live: live, candidate: cand}).judge()
		var fails []Check
		for _, f := range v.Against() {
			fails = append(fails, f.Check)
		}
		if !slices.Equal(fails, tt.fails) || v.Pass != (len(tt.fails) == 0) || v.Fatal() != tt.fatal {
			t.Errorf("%s: fails %v, fatal %v; want %v, %v", tt.name, fails, v.Fatal(), tt.fails, tt.fatal)
		}
	}
}

// Without the live engine's figures nothing that needs them passes, and none
// of it is beyond force.
func TestJudgeWithoutLive(t *testing.T) {
	cand := engineOf("a", 1, at(1, 2), at(3))
	v := (&exam{live: &measured{err: errors.New("away")}, candidate: cand}).judge()
	if v.Pass || v.Fatal() || !v.Unopposed() || finding(v, CheckSpeed).Detail != "live_unavailable" || !finding(v, CheckValid).Pass {
		t.Errorf("%+v", v.Findings)
	}
	cand.status.OneAtATime = &llamaserver.OneAtATime{}
	if v := (&exam{live: &measured{err: errors.New("away")}, candidate: cand}).judge(); v.Unopposed() {
		t.Errorf("a canary speaks against it: %+v", v.Findings)
	}
}

func finding(v *Verdict, check Check) Finding {
	for _, f := range v.Findings {
		if f.Check == check {
			return f
		}
	}
	return Finding{}
}

func TestFigures(t *testing.T) {
	if got := ranks([]float64{0.5, 0.9, 0.5, 0.1}); !slices.Equal(got, []float64{1.5, 0, 1.5, 3}) {
		t.Errorf("ranks %v", got)
	}
	if got := pearson([]float64{0, 1, 2}, []float64{2, 1, 0}); math.Abs(got+1) > 1e-12 {
		t.Errorf("correlation of opposites: %g", got)
	}
	if got := pearson([]float64{1, 1}, []float64{1, 1}); got != 1 {
		t.Errorf("correlation of constants: %g", got)
	}
	times := []float64{5, 1, 4, 2, 3}
	if *quantile(times, 0.5) != 3 || *quantile(times, 0.95) != 5 || *quantile(times[:1], 0.5) != 5 || quantile(nil, 0.5) != nil {
		t.Error("quantiles")
	}
	for _, tt := range []struct {
		err  error
		want string
	}{{nil, ""}, {&llamaclient.ContextError{}, "context"}, {llamaclient.ErrBroken, "no_answer"}} {
		if got := detail(tt.err); got != tt.want {
			t.Errorf("%v: %q", tt.err, got)
		}
	}
}

func TestApply(t *testing.T) {
	live := Setup{Server: "s", Model: "m", Profile: "p", Flags: []string{"-t", "4", "-ngl", "34"}}
	twenty := 20
	for _, tt := range []struct {
		name  string
		order Order
		want  Setup
	}{
		{"nothing", Order{}, live},
		{"layers", Order{NGL: &twenty}, Setup{"s", "m", "p", []string{"-t", "4", "-ngl", "20"}}},
		{"a flag more", Order{Flags: []string{"-ub", "512"}}, Setup{"s", "m", "p", []string{"-t", "4", "-ngl", "34", "-ub", "512"}}},
		{"without flags", Order{ClearFlags: true}, Setup{"s", "m", "p", nil}},
		{"another model", Order{Model: "n"}, Setup{"s", "n", "", nil}},
		{"another model and all", Order{Model: "n", Profile: "q", Server: "z", Flags: []string{"-x"}}, Setup{"z", "n", "q", []string{"-x"}}},
	} {
		if got := tt.order.Apply(live); !got.Equal(tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
	if len(live.Flags) != 4 || live.Flags[3] != "34" {
		t.Errorf("the live setup was written to: %v", live.Flags)
	}
}
