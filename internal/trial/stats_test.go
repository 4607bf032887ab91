package trial

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPercentileIsByNearestRank(t *testing.T) {
	list := func(values ...int) []time.Duration {
		out := make([]time.Duration, len(values))
		for i, v := range values {
			out[i] = time.Duration(v)
		}
		return out
	}
	ten := list(10, 9, 8, 7, 6, 5, 4, 3, 2, 1) // order does not matter
	for _, tt := range []struct {
		name    string
		samples []time.Duration
		p       float64
		want    time.Duration
		ok      bool
	}{
		{"none", nil, 50, 0, false},
		{"one", list(7), 50, 7, true},
		{"one, p95", list(7), 95, 7, true},
		{"two, p50 is the smaller", list(9, 3), 50, 3, true},
		{"two, p95 is the larger", list(9, 3), 95, 9, true},
		{"four, p50", list(1, 2, 3, 4), 50, 2, true},
		{"ten, p50", ten, 50, 5, true},
		{"ten, p95", ten, 95, 10, true},
		{"ten, p90", ten, 90, 9, true},
		{"ten, p91", ten, 91, 10, true},
		{"ten, p100", ten, 100, 10, true},
		{"ten, tiny p", ten, 0.001, 1, true},
		{"equal ones", list(5, 5, 5), 95, 5, true},
	} {
		got, ok := Percentile(tt.samples, tt.p)
		if got != tt.want || ok != tt.ok {
			t.Errorf("%s: %d, %v, want %d, %v", tt.name, got, ok, tt.want, tt.ok)
		}
	}
	if ten[0] != 10 {
		t.Error("the samples were sorted in place")
	}
}

func TestRowCountsOnlyValidAnswersInTime(t *testing.T) {
	step := Step{Concurrency: 4, Size: Short, Requests: 5}
	longest := 30 * time.Millisecond
	got := row("gateway", step, []Sample{
		{Outcome: OK, Finite: true, Dimension: 3, Norm: number(1), took: 10 * time.Millisecond},
		{Outcome: OK, Finite: true, Dimension: 3, Norm: number(0.995), took: 20 * time.Millisecond},
		{Outcome: Late, Finite: true, Dimension: 3, Norm: number(1), took: 9 * time.Second},
		{Outcome: Invalid, Code: "not_finite", Dimension: 3, took: time.Millisecond},
		{Outcome: Failed, Code: "queue_full", took: time.Millisecond},
	}, 500*time.Millisecond, &longest)
	want := Row{
		Path: "gateway", Step: step, Tokens: 16, OK: 2, Outcomes: map[Outcome]int{OK: 2, Late: 1, Invalid: 1, Failed: 1},
		Finite: 3, Dimension: 3, NormMin: number(0.995), NormMax: number(1), ElapsedMS: 500,
		P50MS: number(10), P95MS: number(20), MaxMS: number(20), LongestWaitMS: number(30),
		RequestsPerSecond: 4, TokensPerSecond: 64,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	none := row("direct", step, []Sample{{Outcome: Late, took: time.Second}}, time.Second, nil)
	if none.P50MS != nil || none.P95MS != nil || none.NormMin != nil || none.LongestWaitMS != nil || none.Dimension != 0 {
		t.Errorf("figures of nothing: %+v", none)
	}
}

func TestAgree(t *testing.T) {
	required := 0.9999
	a := [][]float32{{1, 0}, {0, 1}, {1, 0}, nil, {1, 0}, {1, 0}}
	b := [][]float32{{1, 0}, {0, 1}, {0.8, 0.6}, {1, 0}, {1, 0, 0}, {1, 5e-7}}
	got := agree("a", "b", a, b, &required)
	if got.Compared != 5 || got.Equal != 3 || got.Different != 2 {
		t.Errorf("%+v", got)
	}
	if *got.MinCosine > 0.8000001 || *got.MinCosine < 0.7999999 || *got.MaxDifference < 0.5999 {
		t.Errorf("lowest cosine %v, largest difference %v", *got.MinCosine, *got.MaxDifference)
	}
	if free := agree("a", "b", a[2:3], b[2:3], nil); free.Different != 0 || free.Compared != 1 {
		t.Errorf("paths that need not agree: %+v", free)
	}
	if nothing := agree("a", "b", a[3:4], b[3:4], &required); nothing.MinCosine != nil || nothing.Compared != 0 {
		t.Errorf("nothing in common: %+v", nothing)
	}
}

func TestMachineFields(t *testing.T) {
	const cpu = "processor\t: 0\nmodel name\t: Some CPU: fast\nprocessor\t: 1\nmodel name\t: Another\n"
	if got := field(cpu, "model name"); got != "Some CPU: fast" {
		t.Errorf("model name %q", got)
	}
	if got := field(cpu, "Hardware"); got != "" {
		t.Errorf("an absent field is %q", got)
	}
	for text, want := range map[string]int64{"16 kB": 16 << 10, "16": 0, "": 0, "x kB": 0, "8 MB": 0} {
		if got := kilobytes(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
