package trial_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/trial"
	"github.com/ondol-app/ondol/internal/vector"
)

const dim = 8

// embed is a vector of the text, of length 1.
func embed(text string) []float32 {
	h := fnv.New64a()
	h.Write([]byte(text))
	random := rand.New(rand.NewPCG(h.Sum64(), 1))
	v := make([]float32, dim)
	for i := range v {
		v[i] = float32(random.NormFloat64())
	}
	if err := vector.Normalize(v); err != nil {
		panic(err)
	}
	return v
}

// fault is what a target does instead of answering properly; n counts from 1.
type fault func(ctx context.Context, n int, text string) ([][]float32, error)

// target answers after a time, and counts how many it answers at once.
type target struct {
	takes time.Duration
	fault fault // nil = none; a nil result of it = none this time

	mu         sync.Mutex
	calls, now int
	most       int
	texts      []string
}

func (f *target) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	f.mu.Lock()
	f.calls++
	n := f.calls
	f.now++
	f.most = max(f.most, f.now)
	f.texts = append(f.texts, texts...)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.now--
	}()
	select {
	case <-time.After(f.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if f.fault != nil {
		if vectors, err := f.fault(ctx, n, texts[0]); vectors != nil || err != nil {
			return vectors, err
		}
	}
	return [][]float32{embed(texts[0])}, nil
}

// through is a target behind a gate, as the gateway is.
type through struct {
	gate *admission.Gate
	next *target
}

func (g through) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	permit, err := g.gate.Acquire(ctx, admission.LaneClient)
	if err != nil {
		return nil, err
	}
	vectors, err := g.next.Embed(ctx, texts)
	if err != nil {
		permit.Release(admission.Failed)
		return nil, err
	}
	permit.Release(admission.Served)
	return vectors, nil
}

func engine() (trial.Engine, error) {
	return trial.Engine{Generation: 1, Fingerprint: "f", Model: "m", Dimension: dim, MaxTokens: 4096, Normalized: true}, nil
}

func count(_ context.Context, texts []string) ([]int, error) { return []int{len(texts[0]) + 1}, nil }

// two is a trial of the two paths, and its gate, which runs until the test ends.
func two(t *testing.T, direct, gated *target) (trial.Config, *admission.Gate) {
	t.Helper()
	gate, err := admission.NewGate(admission.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- gate.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return trial.Config{
		Count: count,
		Targets: []trial.Target{
			{Name: "direct", Embedder: direct, Engine: engine},
			{Name: "gateway", Embedder: through{gate, gated}, Engine: engine, Gate: gate},
		},
	}, gate
}

func rowOf(t *testing.T, r trial.Report, path string, concurrency int, size trial.Size) trial.Row {
	t.Helper()
	for _, row := range r.Rows {
		if row.Path == path && row.Concurrency == concurrency && row.Size == size {
			return row
		}
	}
	t.Fatalf("no row %s %d %s", path, concurrency, size)
	return trial.Row{}
}

func codes(v trial.Verdict) []string {
	var list []string
	for _, reason := range v.Reasons {
		list = append(list, fmt.Sprintf("%s %s %s", reason.Code, reason.Args["path"], reason.Args["count"]))
	}
	return list
}

func TestSeventySixRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		direct, gated := &target{takes: time.Second}, &target{takes: time.Second}
		cfg, _ := two(t, direct, gated)
		var steps []trial.Progress
		cfg.Progress = func(p trial.Progress) { steps = append(steps, p) }
		r, err := trial.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Verdict.Pass || r.Requests != 76 || len(r.Samples) != 76 || len(r.Rows) != 12 {
			t.Fatalf("verdict %+v, %d requests, %d samples, %d rows", r.Verdict, r.Requests, len(r.Samples), len(r.Rows))
		}
		if direct.calls != 38 || gated.calls != 38 || direct.most != 10 || gated.most != 2 {
			t.Errorf("direct %d calls, %d at once; gateway %d, %d", direct.calls, direct.most, gated.calls, gated.most)
		}
		if !slices.Equal(sorted(direct.texts), sorted(gated.texts)) {
			t.Error("the paths had different inputs")
		}
		for _, row := range r.Rows {
			if row.OK != row.Requests || row.Finite != row.Requests || row.Dimension != dim || *row.NormMin < 0.999 || *row.NormMax > 1.001 {
				t.Errorf("row %+v", row)
			}
			if (row.LongestWaitMS == nil) != (row.Path == "direct") {
				t.Errorf("longest wait of %s: %v", row.Path, row.LongestWaitMS)
			}
		}
		// Ten at once, two places, a second each: the last two wait four seconds.
		last := rowOf(t, r, "gateway", 10, trial.Medium)
		if *last.P50MS != 3000 || *last.P95MS != 5000 || last.ElapsedMS != 5000 || *last.LongestWaitMS < 3980 || *last.LongestWaitMS > 4000 || last.RequestsPerSecond != 2 {
			t.Errorf("p50 %v, p95 %v, elapsed %v, longest wait %v, %v/s", *last.P50MS, *last.P95MS, last.ElapsedMS, *last.LongestWaitMS, last.RequestsPerSecond)
		}
		if beside := rowOf(t, r, "direct", 10, trial.Medium); *beside.P95MS != 1000 || beside.TokensPerSecond != 25620 {
			t.Errorf("direct: p95 %v, %v tokens/s", *beside.P95MS, beside.TokensPerSecond)
		}
		if news := r.News(); news.Kind != trial.KindPassed || news.Args["ok"] != "76" {
			t.Errorf("news %+v", news)
		}
		if a := r.Agreement; len(a) != 1 || a[0].Compared != 38 || a[0].Equal != 38 || a[0].Different != 0 {
			t.Errorf("agreement %+v", a)
		}
		if r.AtEnd == nil || r.AtEnd.Clients() != 0 || r.Others == nil || r.Others.Requests != 0 {
			t.Errorf("at the end %+v, others %+v", r.AtEnd, r.Others)
		}
		if r.GPU.Available || r.GPU.Reason == "" || !slices.Contains(r.Notes, trial.NoteNoGPU) || !slices.Contains(r.Notes, trial.NoteDeadline) {
			t.Errorf("GPU %+v, notes %v", r.GPU, r.Notes)
		}
		if end := steps[len(steps)-1]; end.Done != 76 || end.Total != 76 || end.Bad != 0 || steps[0].Phase != trial.Preparing {
			t.Errorf("progress from %+v to %+v", steps[0], end)
		}
	})
}

func sorted(texts []string) []string { return slices.Sorted(slices.Values(texts)) }

func TestQuickSaysThatItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, _ := two(t, &target{}, &target{})
		cfg.Quick, cfg.Distinct, cfg.Deadline = true, true, trial.FullDeadline
		r, err := trial.Run(t.Context(), cfg)
		if err != nil || !r.Verdict.Pass || r.Requests != 18 || !r.Quick {
			t.Fatalf("%v, verdict %+v, %d requests, quick %v", err, r.Verdict, r.Requests, r.Quick)
		}
		if want := []trial.Note{trial.NoteDistinct, trial.NoteQuick, trial.NoteNoGPU}; !slices.Equal(r.Notes, want) {
			t.Errorf("notes %v, want %v", r.Notes, want)
		}
	})
}

func TestFaultsFailTheTrial(t *testing.T) {
	nth := func(which int, do fault) fault {
		return func(ctx context.Context, n int, text string) ([][]float32, error) {
			if n != which {
				return nil, nil
			}
			return do(ctx, n, text)
		}
	}
	reply := func(change func(v []float32) []float32) fault {
		return func(_ context.Context, _ int, text string) ([][]float32, error) {
			return [][]float32{change(embed(text))}, nil
		}
	}
	nan := float32(math.NaN())
	for _, tt := range []struct {
		name    string
		fault   fault
		reasons []string
		outcome trial.Outcome
		code    string
		finite  bool
	}{
		{"late", nth(3, func(ctx context.Context, _ int, _ string) ([][]float32, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}), []string{"late gateway 1"}, trial.Late, "deadline", false},
		{"an answer after the deadline is late, not a sample", nth(3, func(ctx context.Context, _ int, text string) ([][]float32, error) {
			<-ctx.Done()
			return [][]float32{embed(text)}, nil
		}), []string{"late gateway 1"}, trial.Late, "deadline", true},
		{"failing", nth(3, func(context.Context, int, string) ([][]float32, error) { return nil, errors.New("broken pipe") }),
			[]string{"failed gateway 1"}, trial.Failed, "no_answer", false},
		{"refused", nth(3, func(context.Context, int, string) ([][]float32, error) {
			return nil, &admission.RejectedError{Reason: admission.QueueFull}
		}), []string{"failed gateway 1"}, trial.Failed, "queue_full", false},
		{"not a number", nth(3, reply(func(v []float32) []float32 { v[2] = nan; return v })),
			[]string{"invalid gateway 1"}, trial.Invalid, "not_finite", false},
		{"told by the path itself", nth(3, func(context.Context, int, string) ([][]float32, error) {
			return nil, &vector.InvalidError{Problems: []vector.Problem{{Index: 0, Reason: vector.ReasonNotFinite}}}
		}), []string{"invalid gateway 1"}, trial.Invalid, "not_finite", false},
		{"wrong dimension", nth(3, reply(func(v []float32) []float32 { return v[:dim-1] })),
			[]string{"invalid gateway 1"}, trial.Invalid, "dimension", true},
		{"no vector", nth(3, func(context.Context, int, string) ([][]float32, error) { return [][]float32{}, nil }),
			[]string{"invalid gateway 1"}, trial.Invalid, "count", false},
		{"zero", nth(3, reply(func(v []float32) []float32 { clear(v); return v })),
			[]string{"invalid gateway 1"}, trial.Invalid, "zero", true},
		{"another text's vector", nth(3, reply(func([]float32) []float32 { return embed("another") })),
			[]string{"different  1"}, trial.OK, "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg, _ := two(t, &target{takes: time.Second}, &target{takes: time.Second, fault: tt.fault})
				cfg.Deadline = time.Minute
				r, err := trial.Run(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				news := r.News()
				if told := news.Args["reasons"]; news.Kind != trial.KindFailed || told != string(r.Verdict.Reasons[0].Code) || news.Args["requests"] != "76" {
					t.Errorf("news %+v", news)
				}
				if got := codes(r.Verdict); r.Verdict.Pass || !slices.Equal(got, tt.reasons) {
					t.Errorf("pass %v, reasons %q, want %q", r.Verdict.Pass, got, tt.reasons)
				}
				s := r.Samples[38+2] // one at a time so far: in order
				if s.Outcome != tt.outcome || s.Code != tt.code || s.Finite != tt.finite {
					t.Errorf("sample %+v", s)
				}
				row := rowOf(t, r, "gateway", 1, trial.Short)
				ok := 4
				if tt.outcome != trial.OK {
					ok = 3
				}
				if row.OK != ok || *row.P95MS != 1000 || row.Outcomes[tt.outcome] == 0 || len(r.Samples) != 76 {
					t.Errorf("row %+v, %d samples", row, len(r.Samples))
				}
			})
		})
	}
}

// A hold wraps each step of its path, and learns when work was given up.
func TestHoldIsTakenForEachStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		direct := &target{takes: 2 * time.Second}
		cfg, gate := two(t, direct, &target{})
		var abandoned []bool
		cfg.Targets[0].Hold = func(ctx context.Context) (func(bool), error) {
			permit, err := gate.Acquire(ctx, admission.LaneClient)
			return func(a bool) {
				abandoned = append(abandoned, a)
				permit.Release(admission.Uncounted)
			}, err
		}
		cfg.Deadline = time.Second
		r, err := trial.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if want := []bool{true, true, true, true, true, true}; !slices.Equal(abandoned, want) {
			t.Errorf("holds freed with %v", abandoned)
		}
		if got := codes(r.Verdict); !slices.Equal(got, []string{"late direct 38"}) {
			t.Errorf("reasons %q", got)
		}
		if !slices.Contains(r.Notes, trial.NoteHeld) || r.Others.Requests != 0 {
			t.Errorf("notes %v, others %+v", r.Notes, r.Others)
		}
	})
}

func TestPathThatIsNeverFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		direct := &target{}
		cfg, _ := two(t, direct, &target{})
		cfg.Targets[0].Hold = func(context.Context) (func(bool), error) {
			return nil, &admission.RejectedError{Reason: admission.QueueTimeout}
		}
		r, err := trial.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if got := codes(r.Verdict); !slices.Equal(got, []string{"failed direct 38"}) || direct.calls != 0 {
			t.Errorf("reasons %q, %d calls", got, direct.calls)
		}
	})
}

// What is left in the gate at the end fails the trial; work for the index may go on.
func TestAtTheEnd(t *testing.T) {
	for _, tt := range []struct {
		lane    admission.Lane
		drain   bool
		reasons []string
	}{
		{admission.LaneClient, false, []string{"not_idle  "}},
		{admission.LaneClient, true, []string{"not_idle  "}},
		{admission.LaneBackground, false, nil},
		{admission.LaneBackground, true, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg, gate := two(t, &target{}, &target{})
			permit, err := gate.Acquire(t.Context(), tt.lane)
			if err != nil {
				t.Fatal(err)
			}
			if tt.drain {
				permit.Drain()
			}
			r, err := trial.Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if got := codes(r.Verdict); !slices.Equal(got, tt.reasons) {
				t.Errorf("%s, draining %v: reasons %q", tt.lane, tt.drain, got)
			}
			permit.Release(admission.Served)
		})
	}
}

// Work that was given up is waited for before the next step begins.
func TestTheNextStepBeginsAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, gate := two(t, &target{}, &target{})
		drains := through{gate, &target{}}
		var mu sync.Mutex
		var atStart []int
		first := func() bool {
			mu.Lock()
			defer mu.Unlock()
			stats := gate.Stats()
			atStart = append(atStart, stats.Executing+stats.Draining)
			return len(atStart) == 1
		}
		cfg.Targets[1].Embedder = embedFunc(func(ctx context.Context, texts []string) ([][]float32, error) {
			if !first() {
				return drains.Embed(ctx, texts)
			}
			permit, err := gate.Acquire(ctx, admission.LaneClient)
			if err != nil {
				return nil, err
			}
			<-ctx.Done()
			permit.Drain()
			go func() { // the engine goes on
				time.Sleep(100 * time.Second)
				permit.Release(admission.CancelledExecuting)
			}()
			return nil, ctx.Err()
		})
		cfg.Deadline = time.Second
		r, err := trial.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		// The rest of that step runs beside it; the fifth request is the next step's.
		if len(atStart) != 38 || atStart[3] != 1 || atStart[4] != 0 {
			t.Errorf("in the gate at the start of each request: %v", atStart)
		}
		if got := codes(r.Verdict); !slices.Equal(got, []string{"late gateway 1"}) {
			t.Errorf("reasons %q", got)
		}
	})
}

type embedFunc func(ctx context.Context, texts []string) ([][]float32, error)

func (f embedFunc) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	return f(ctx, texts)
}

func TestOthersAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, gate := two(t, &target{takes: time.Second}, &target{takes: time.Second})
		for range 5 {
			go func() {
				time.Sleep(3 * time.Second)
				permit, err := gate.Acquire(context.Background(), admission.LaneClient)
				if err != nil {
					t.Error(err)
					return
				}
				permit.Release(admission.Served)
			}()
		}
		r, err := trial.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if r.Others.Requests != 5 || r.Others.Refused != 0 || !slices.Contains(r.Notes, trial.NoteOthers) {
			t.Errorf("others %+v, notes %v", r.Others, r.Notes)
		}
	})
}

func TestCacheMustNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for misses, pass := range map[uint64]bool{38: true, 50: true, 37: false} {
			cfg, _ := two(t, &target{}, &target{})
			counts := trial.CacheCounts{Hits: 7, Joins: 1, Misses: 100}
			asked := false
			cfg.Cache = func() trial.CacheCounts {
				if asked {
					counts.Misses += misses
				}
				asked = true
				return counts
			}
			r, err := trial.Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if r.Verdict.Pass != pass || r.Cache.Misses != misses || r.Cache.Hits != 0 {
				t.Errorf("%d computed: %+v, %+v", misses, r.Verdict, r.Cache)
			}
		}
	})
}

func TestEngineThatWasReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, _ := two(t, &target{}, &target{})
		asked := 0
		cfg.Targets[0].Engine = func() (trial.Engine, error) {
			e, err := engine()
			if asked++; asked > 1 {
				e.Generation++
			}
			return e, err
		}
		r, err := trial.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if got := codes(r.Verdict); !slices.Equal(got, []string{"engine_changed direct "}) {
			t.Errorf("reasons %q", got)
		}
	})
}

func TestPathsThatNeedNotAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := &target{fault: func(_ context.Context, _ int, text string) ([][]float32, error) {
			return [][]float32{embed("another model: " + text)}, nil
		}}
		cfg, _ := two(t, &target{}, other)
		cfg.MinCosine = -1
		r, err := trial.Run(t.Context(), cfg)
		if err != nil || !r.Verdict.Pass || r.Agreement[0].Different != 0 || *r.Agreement[0].MinCosine > 0.9 {
			t.Errorf("%v, %+v, %+v", err, r.Verdict, r.Agreement)
		}
	})
}

func TestLeavingEndsTheTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		direct := &target{takes: time.Second}
		cfg, gate := two(t, direct, &target{})
		var freed []bool
		cfg.Targets[0].Hold = func(context.Context) (func(bool), error) {
			return func(abandoned bool) { freed = append(freed, abandoned) }, nil
		}
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(3500*time.Millisecond, func() { cancel(gone) })
		began := time.Now()
		_, err := trial.Run(ctx, cfg)
		if !errors.Is(err, gone) || time.Since(began) != 3500*time.Millisecond {
			t.Errorf("error %v after %v", err, time.Since(began))
		}
		if direct.now != 0 || direct.calls != 4 || !slices.Equal(freed, []bool{true}) {
			t.Errorf("%d calls still under way of %d, freed %v", direct.now, direct.calls, freed)
		}
		if stats := gate.Stats(); stats.Executing+stats.Waiting != 0 {
			t.Errorf("gate %+v", stats)
		}
	})
}

func TestNoTrial(t *testing.T) {
	short := func() (trial.Engine, error) { return trial.Engine{MaxTokens: 2561}, nil }
	away := errors.New("away")
	base := trial.Config{Count: count, Targets: []trial.Target{{Name: "direct", Embedder: &target{}, Engine: engine}}}
	for name, change := range map[string]func(*trial.Config){
		"no path":           func(c *trial.Config) { c.Targets = nil },
		"no count":          func(c *trial.Config) { c.Count = nil },
		"deadline too long": func(c *trial.Config) { c.Deadline = trial.MaxDeadline + 1 },
		"negative deadline": func(c *trial.Config) { c.Deadline = -1 },
		"short context":     func(c *trial.Config) { c.Targets = []trial.Target{{Embedder: &target{}, Engine: short}} },
		"no engine": func(c *trial.Config) {
			c.Targets = []trial.Target{{Engine: func() (trial.Engine, error) { return trial.Engine{}, away }}}
		},
		"no counting": func(c *trial.Config) {
			c.Count = func(context.Context, []string) ([]int, error) { return nil, away }
		},
	} {
		cfg := base
		change(&cfg)
		_, err := trial.Run(t.Context(), cfg)
		if err == nil {
			t.Errorf("%s: a trial was made", name)
		}
		if tooShort, ok := errors.AsType[*trial.TooShortError](err); name == "short context" && (!ok || tooShort.Need != 2562 || tooShort.MaxTokens != 2561) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
