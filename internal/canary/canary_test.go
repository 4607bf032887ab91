package canary_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ondol-app/ondol/internal/canary"
	"github.com/ondol-app/ondol/internal/trust"
	"github.com/ondol-app/ondol/internal/vector"
)

// words counts one token a word, bytes one a byte, both with one special token.
func words(_ context.Context, texts []string) ([]int, error) {
	return []int{len(strings.Fields(texts[0])) + 1}, nil
}

func bytes(_ context.Context, texts []string) ([]int, error) { return []int{len(texts[0]) + 1}, nil }

func TestTextsAreSized(t *testing.T) {
	for _, test := range []struct {
		name  string
		count canary.Counter
		limit int
		want  []int
	}{
		{"words", words, 0, []int{2, 7, 31, 33, 10, 600}},
		{"bytes", bytes, 512, []int{6, 34, 31, 33, 88, 512}}, // Korean has three bytes a rune
		{"short inputs", bytes, 32, []int{6, 32, 31, 32, 31, 32}},
	} {
		t.Run(test.name, func(t *testing.T) {
			texts, err := canary.Texts(t.Context(), test.count, test.limit)
			if err != nil {
				t.Fatal(err)
			}
			for i, text := range texts {
				n, _ := test.count(t.Context(), []string{text.Text})
				if text.Tokens != n[0] || text.Tokens != test.want[i] {
					t.Errorf("%s has %d tokens by itself, %d counted, want %d: %q", text.Name, text.Tokens, n[0], test.want[i], text.Text)
				}
				if strings.ToValidUTF8(text.Text, "") != text.Text {
					t.Errorf("%s is cut within a rune: %q", text.Name, text.Text)
				}
			}
			for _, i := range []int{1, 2, 3} {
				if !strings.HasPrefix(texts[i].Text, "import ") {
					t.Errorf("%s does not begin with import: %q", texts[i].Name, texts[i].Text)
				}
			}
		})
	}
	broken := errors.New("broken")
	if _, err := canary.Texts(t.Context(), func(context.Context, []string) ([]int, error) { return nil, broken }, 0); !errors.Is(err, broken) {
		t.Errorf("error = %v", err)
	}
}

// engine makes a vector of each text and has one fault.
type engine struct {
	fault func(e *engine, inputs []string, i int, v []float32) // changes vector i of a call

	takes time.Duration // each call

	mu      sync.Mutex
	running int  // guarded by mu
	calls   int  // guarded by mu
	sticky  bool // guarded by mu
}

func (e *engine) embed(_ context.Context, inputs []string) ([][]float32, error) {
	e.mu.Lock()
	e.calls++
	e.running++
	e.mu.Unlock()
	time.Sleep(e.takes)
	e.mu.Lock()
	defer e.mu.Unlock()
	vectors := make([][]float32, len(inputs))
	for i, text := range inputs {
		h := trust.HashOf(text)
		v := []float32{1, float32(h[0]), float32(h[1]), float32(h[2])}
		if err := vector.Normalize(v); err != nil {
			return nil, err
		}
		if e.fault != nil {
			e.fault(e, inputs, i, v)
		}
		vectors[i] = v
	}
	e.running--
	return vectors, vector.Check(vectors, vector.Expect{Count: len(inputs), Normalized: true})
}

func poison(v []float32) { v[1] = float32(math.NaN()) }

// turn turns v by the angle whose cosine is given.
func turn(v []float32, cosine float64) {
	side := []float32{-v[1], v[0], -v[3], v[2]} // at a right angle to v, as long
	sine := math.Sqrt(1 - cosine*cosine)
	for i := range v {
		v[i] = float32(cosine*float64(v[i]) + sine*float64(side[i]))
	}
}

func texts(t *testing.T) []canary.Text {
	t.Helper()
	list, err := canary.Texts(t.Context(), words, 0)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func reference(t *testing.T) *trust.Reference {
	t.Helper()
	list := texts(t)
	r, err := canary.Run(t.Context(), canary.Config{Embed: new(engine).embed, Texts: list, Pairs: true})
	if err != nil || !r.OK() || r.Reference != trust.ReferenceNone || r.MinReference != nil || r.MinTogether == nil || *r.MinTogether < 0.9999 {
		t.Fatalf("a good engine: %+v, %v", r, err)
	}
	return r.AsReference(trust.ReferenceSelf, list)
}

func TestRun(t *testing.T) {
	isImport := func(inputs []string, i int) bool { return strings.HasPrefix(inputs[i], "import") }
	for _, test := range []struct {
		name     string
		fault    func(e *engine, inputs []string, i int, v []float32)
		code     canary.Code
		text     string
		reason   vector.Reason
		poisoned bool
	}{
		{name: "good"},
		{"sticky after import", func(e *engine, inputs []string, i int, v []float32) {
			if e.sticky = e.sticky || isImport(inputs, i); e.sticky {
				poison(v)
			}
		}, canary.Invalid, "code", vector.ReasonNotFinite, false},
		{"slow drift", func(_ *engine, inputs []string, i int, v []float32) {
			if strings.HasPrefix(inputs[i], "import {") {
				turn(v, 0.99)
			}
		}, canary.Drift, "code", "", false},
		{"a little off", func(_ *engine, _ []string, _ int, v []float32) { turn(v, 0.9995) }, canary.Passed, "", "", false},
		{"together in one call", func(_ *engine, inputs []string, i int, v []float32) {
			if len(inputs) > 1 && i == 2 {
				clear(v)
			}
		}, canary.Together, "tokens_31", vector.ReasonZero, false},
		{"together off", func(_ *engine, inputs []string, i int, v []float32) {
			if len(inputs) > 1 && i == 5 {
				turn(v, 0.99)
			}
		}, canary.Together, "long", "", false},
		{"together, and then for good", func(e *engine, inputs []string, i int, v []float32) {
			if e.sticky = e.sticky || len(inputs) > 1; e.sticky {
				poison(v)
			}
		}, canary.Together, "short", vector.ReasonNotFinite, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := &engine{fault: test.fault}
			r, err := canary.Run(t.Context(), canary.Config{Embed: e.embed, Texts: texts(t), Reference: reference(t), Pairs: true})
			if err != nil {
				t.Fatal(err)
			}
			if r.Code != test.code || r.Text != test.text || r.Reason != test.reason || r.Poisoned != test.poisoned || r.Reference != trust.ReferenceSelf {
				t.Errorf("result = %+v", r)
			}
		})
	}
}

// A fault that shows only while the engine has two calls at once.
func TestPairsRunAtOnce(t *testing.T) {
	for _, pairs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e := &engine{takes: time.Second, fault: func(e *engine, _ []string, _ int, v []float32) {
				if e.running > 1 {
					poison(v)
				}
			}}
			turns := 0
			r, err := canary.Run(t.Context(), canary.Config{Embed: e.embed, Texts: texts(t), Pairs: pairs, Turn: func(context.Context, bool) (func(), error) {
				turns++
				return func() {}, nil
			}})
			want, wantTurns, wantCalls := canary.Passed, 7, 7
			if pairs {
				want, wantTurns, wantCalls = canary.Together, 11, 14 // three pairs, and the look whether it is poisoned
			}
			if err != nil || r.Code != want || r.Poisoned || turns != wantTurns || e.calls != wantCalls {
				t.Errorf("pairs %v: %+v, %v, %d turns, %d calls", pairs, r, err, turns, e.calls)
			}
			if r.TookMS != int64(turns)*1000 {
				t.Errorf("took %d ms for %d steps of a second", r.TookMS, turns)
			}
		})
	}
}

// A slow engine is not kept from work for long.
func TestBudget(t *testing.T) {
	for _, test := range []struct {
		takes time.Duration // each call
		want  int           // texts
	}{{100 * time.Millisecond, 6}, {2 * time.Second, 5}, {20 * time.Second, 1}} {
		synctest.Test(t, func(t *testing.T) {
			e := &engine{takes: test.takes}
			r, err := canary.Run(t.Context(), canary.Config{Embed: e.embed, Texts: texts(t), Budget: 50 * time.Second})
			if err != nil || !r.OK() || r.Partial != (test.want < 6) {
				t.Errorf("calls of %v: %+v, %v", test.takes, r, err)
			}
			ref := r.AsReference(trust.ReferenceSelf, texts(t))
			if len(r.Figures) != test.want || len(ref.Vectors) != test.want {
				t.Errorf("%d figures, %d vectors, want %d", len(r.Figures), len(ref.Vectors), test.want)
			}
			if again := r.Against(ref, texts(t)); !again.OK() || *again.MinReference < 0.9999 {
				t.Errorf("against itself: %+v", again)
			}
		})
	}
}

// Whoever is at the engine beside a canary must not make it fail.
func TestFailureInCompanyIsNone(t *testing.T) {
	company := true
	e := &engine{fault: func(_ *engine, _ []string, _ int, v []float32) {
		if company {
			turn(v, 0.9)
		}
	}}
	var alone []bool
	r, err := canary.Run(t.Context(), canary.Config{Embed: e.embed, Texts: texts(t), Reference: reference(t), Turn: func(_ context.Context, solo bool) (func(), error) {
		company = !solo && len(alone) == 2 // at one step of all
		alone = append(alone, solo)
		return func() {}, nil
	}})
	want := []bool{false, false, false, true, false, false, false, false}
	if err != nil || !r.OK() || !slices.Equal(alone, want) {
		t.Errorf("%+v, %v, alone at %v, want %v", r, err, alone, want)
	}
}

func TestNoAnswerIsNoVerdict(t *testing.T) {
	gone := errors.New("gone")
	_, err := canary.Run(t.Context(), canary.Config{Texts: texts(t), Embed: func(context.Context, []string) ([][]float32, error) { return nil, gone }})
	if !errors.Is(err, gone) {
		t.Errorf("error = %v", err)
	}
	_, err = canary.Run(t.Context(), canary.Config{Texts: texts(t), Embed: new(engine).embed, Turn: func(context.Context, bool) (func(), error) { return nil, gone }})
	if !errors.Is(err, gone) {
		t.Errorf("error of a turn = %v", err)
	}
}

func TestCosine(t *testing.T) {
	for _, test := range []struct {
		a, b []float32
		want float64
	}{
		{[]float32{1, 0}, []float32{2, 0}, 1}, {[]float32{1, 0}, []float32{0, 1}, 0}, {[]float32{1, 0}, []float32{-1, 0}, -1},
		{[]float32{1}, []float32{1, 0}, 0}, {[]float32{0, 0}, []float32{1, 0}, 0},
	} {
		if got := canary.Cosine(test.a, test.b); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("cosine of %v and %v = %v", test.a, test.b, got)
		}
	}
}
