package canary

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/ondol-app/ondol/internal/trust"
	"github.com/ondol-app/ondol/internal/vector"
)

// MinCosine is how much a vector must resemble its reference, and one made
// together with others the one made alone (contract section 2).
const MinCosine = 0.999

// Code says why the canaries failed.
type Code string

const (
	Passed   Code = ""                // all is well
	Invalid  Code = "canary_invalid"  // a vector made alone is not valid
	Drift    Code = "canary_drift"    // a vector made alone is not the reference's
	Together Code = "canary_together" // alone all is well, together with others it is not
)

// String returns the code as it stands in JSON.
func (c Code) String() string { return string(c) }

// Embed embeds inputs with one call of the engine and judges the reply: the
// error is a *vector.InvalidError when it must not be believed, anything else
// when there was none.
type Embed func(ctx context.Context, inputs []string) ([][]float32, error)

// Turn is the right to use the engine, with nobody else on it when alone is
// set; done gives it back.
type Turn = func(ctx context.Context, alone bool) (done func(), err error)

// Config of one run. Embed and Texts are required.
type Config struct {
	Embed Embed
	Texts []Text

	// Reference to compare with; nil leaves that out. A text that it does not
	// hold is not compared.
	Reference *trust.Reference

	// Pairs says that two calls may be made at once; AloneOnly that no texts
	// may be embedded together at all, because that is known to fail.
	Pairs, AloneOnly bool

	// Turn, when set, is asked for before every step. A step that fails in
	// company is repeated alone and judged by that. Nil = nobody else uses the
	// engine.
	Turn Turn

	// Budget is what the run may take, about: from the text on with which it
	// would take longer, by what those before it took, texts are left out. The
	// first never is. 0 = no limit.
	Budget time.Duration
}

// Figure is how one text did. A nil cosine was not measured.
type Figure struct {
	Text      string   `json:"text"` // its name
	Tokens    int      `json:"tokens"`
	Reference *float64 `json:"reference,omitempty"` // cosine to the reference
	Together  *float64 `json:"together,omitempty"`  // lowest cosine of the vectors made together to the one made alone
}

// Result is the outcome of one run.
type Result struct {
	At           time.Time           `json:"at"` // when it began
	TookMS       int64               `json:"took_ms"`
	Code         Code                `json:"code,omitempty"`          // empty = passed
	Text         string              `json:"text,omitempty"`          // name of the text that failed
	Reason       vector.Reason       `json:"reason,omitempty"`        // of an invalid vector
	Reference    trust.ReferenceKind `json:"reference"`               // what was compared with
	MinReference *float64            `json:"min_reference,omitempty"` // lowest of the figures
	MinTogether  *float64            `json:"min_together,omitempty"`
	Figures      []Figure            `json:"figures"`
	Partial      bool                `json:"partial,omitempty"` // texts were left out: the engine is slow

	// Poisoned says that after a failure together even a text alone is not
	// valid any more: the engine must be restarted.
	Poisoned bool `json:"poisoned,omitempty"`

	// Vectors are those made alone, in the order of the texts, as many as were
	// embedded; nil when one was invalid.
	Vectors [][]float32 `json:"-"`
}

// OK says that the canaries passed.
func (r Result) OK() bool { return r.Code == Passed }

// AsReference is what the vectors are as a reference; the run must have passed.
func (r Result) AsReference(kind trust.ReferenceKind, texts []Text) *trust.Reference {
	ref := &trust.Reference{Kind: kind, At: r.At, Vectors: make(map[trust.Hash][]float32, len(texts))}
	for i, v := range r.Vectors {
		ref.Vectors[texts[i].Hash()] = v
	}
	return ref
}

// Run embeds the texts one by one, then in pairs at once, then all in one
// call. An error means that the engine did not answer, so that nothing is
// known; ctx bounds the run.
func Run(ctx context.Context, config Config) (Result, error) {
	r := &run{Config: config, result: Result{At: time.Now().UTC(), Reference: trust.ReferenceNone}}
	if config.Reference != nil {
		r.result.Reference = config.Reference.Kind
	}
	for _, t := range config.Texts {
		r.result.Figures = append(r.result.Figures, Figure{Text: t.Name, Tokens: t.Tokens})
	}
	err := r.alone(ctx)
	if err == nil && r.result.OK() && !config.AloneOnly {
		err = r.together(ctx)
	}
	r.result.TookMS = time.Since(r.result.At).Milliseconds()
	return r.result, err
}

// run is one run under way.
type run struct {
	Config
	result Result
}

// answer is what the calls of one step brought.
type answer struct {
	vectors [][][]float32
	invalid []*vector.InvalidError // invalid[i] is what was wrong with call i
}

// step makes the calls of one step at once, and again, alone, when what they
// brought in company is not good.
func (r *run) step(ctx context.Context, good func(answer) bool, calls ...[]string) (answer, error) {
	alone := r.Turn == nil || len(calls) > 1
	a, err := r.ask(ctx, alone, calls)
	if err == nil && !alone && !good(a) {
		a, err = r.ask(ctx, true, calls)
	}
	return a, err
}

func (r *run) ask(ctx context.Context, alone bool, calls [][]string) (answer, error) {
	if r.Turn != nil {
		done, err := r.Turn(ctx, alone)
		if err != nil {
			return answer{}, err
		}
		defer done()
	}
	a := answer{make([][][]float32, len(calls)), make([]*vector.InvalidError, len(calls))}
	errs := make([]error, len(calls))
	var group sync.WaitGroup
	for i, inputs := range calls {
		group.Go(func() { a.vectors[i], errs[i] = r.Embed(ctx, inputs) })
	}
	group.Wait()
	for i, err := range errs {
		if err != nil && !errors.As(err, &a.invalid[i]) {
			return answer{}, err
		}
	}
	return a, nil
}

// alone embeds each text by itself and compares it with the reference.
func (r *run) alone(ctx context.Context) error {
	var vectors [][]float32
	tokens, quickest := 0, time.Duration(math.MaxInt64) // a token, in the text where it took least
	for i, t := range r.Texts {
		if tokens += t.Tokens; i > 0 && r.tooSlow(quickest, tokens) {
			r.Texts, r.result.Partial = r.Texts[:i], true
			r.result.Figures = r.result.Figures[:i]
			break
		}
		began := time.Now()
		var want []float32
		if r.Config.Reference != nil {
			want = r.Config.Reference.Vectors[t.Hash()]
		}
		got, err := r.step(ctx, func(a answer) bool {
			return a.invalid[0] == nil && (want == nil || Cosine(a.vectors[0][0], want) >= MinCosine)
		}, []string{t.Text})
		if err != nil {
			return err
		}
		if invalid := got.invalid[0]; invalid != nil {
			r.fail(Invalid, t.Name, invalid.Problems[0].Reason)
			return nil
		}
		vectors = append(vectors, got.vectors[0][0])
		quickest = min(quickest, time.Since(began)/time.Duration(max(t.Tokens, 1)))
		if want == nil {
			continue
		}
		cosine := Cosine(vectors[i], want)
		r.result.Figures[i].Reference = &cosine
		if lower(&r.result.MinReference, cosine) && cosine < MinCosine {
			r.fail(Drift, t.Name, "")
		}
	}
	r.result.Vectors = vectors
	return nil
}

// tooSlow says whether a run with texts of so many tokens would exceed its
// budget, by the time of one token. Each text is embedded three times. What a
// call costs beside its tokens is not known; the longest texts hide it best.
func (r *run) tooSlow(token time.Duration, tokens int) bool {
	return r.Budget > 0 && token > r.Budget/time.Duration(3*max(tokens, 1))
}

// together embeds the texts two at once and all in one call, and compares each
// with itself made alone.
func (r *run) together(ctx context.Context) error {
	if r.Pairs {
		// The first with the last: a short text is computed while a long one is.
		for i, j := 0, len(r.Texts)-1; i < j; i, j = i+1, j-1 {
			got, err := r.step(ctx, nil, []string{r.Texts[i].Text}, []string{r.Texts[j].Text})
			if err != nil {
				return err
			}
			r.compare(i, 0, got.vectors[0], got.invalid[0])
			r.compare(j, 0, got.vectors[1], got.invalid[1])
		}
	}
	if len(r.Texts) < 2 {
		return nil
	}
	all := make([]string, len(r.Texts))
	for i, t := range r.Texts {
		all[i] = t.Text
	}
	got, err := r.step(ctx, r.alike, all)
	if err != nil {
		return err
	}
	for i := range all {
		r.compare(i, i, got.vectors[0], got.invalid[0])
	}
	if r.result.OK() {
		return nil
	}
	after, err := r.ask(ctx, true, [][]string{{r.Texts[0].Text}})
	r.result.Poisoned = err == nil && after.invalid[0] != nil
	return err
}

// alike says that one call's vectors of all texts are those made alone.
func (r *run) alike(a answer) bool {
	if a.invalid[0] != nil {
		return false
	}
	for i, v := range a.vectors[0] {
		if Cosine(v, r.result.Vectors[i]) < MinCosine {
			return false
		}
	}
	return true
}

// compare judges vector k of a call, which is that of text i.
func (r *run) compare(i, k int, vectors [][]float32, invalid *vector.InvalidError) {
	if invalid != nil {
		for _, p := range invalid.Problems {
			if p.Index == k || p.Index == vector.WholeReply {
				r.fail(Together, r.Texts[i].Name, p.Reason)
				return
			}
		}
		return // it is another one's fault, and this one was not told
	}
	cosine := Cosine(vectors[k], r.result.Vectors[i])
	lower(&r.result.Figures[i].Together, cosine)
	if lower(&r.result.MinTogether, cosine) && cosine < MinCosine {
		r.fail(Together, r.Texts[i].Name, "")
	}
}

// fail notes a failure. An invalid vector outweighs one that is only off.
func (r *run) fail(code Code, text string, reason vector.Reason) {
	if r.result.OK() || r.result.Reason == "" {
		r.result.Code, r.result.Text, r.result.Reason = code, text, reason
	}
}

// lower makes *least the lower of itself and x, and says whether it is x now.
func lower(least **float64, x float64) bool {
	if *least != nil && !(x < **least) {
		return false
	}
	*least = &x
	return true
}

// Cosine of two vectors, summed in float64; 0 when they differ in length or
// one has no direction.
func Cosine(a, b []float32) float64 {
	if len(a) != len(b) {
		return 0
	}
	var dot, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		dot, aa, bb = dot+x*y, aa+x*x, bb+y*y
	}
	cosine := dot / math.Sqrt(aa*bb)
	if math.IsNaN(cosine) {
		return 0
	}
	return min(cosine, 1)
}

// Against is the result with its vectors compared with another reference.
func (r Result) Against(ref *trust.Reference, texts []Text) Result {
	r.Reference, r.MinReference = ref.Kind, nil
	r.Figures = slices.Clone(r.Figures)
	for i, v := range r.Vectors {
		want, ok := ref.Vectors[texts[i].Hash()]
		if !ok {
			continue
		}
		cosine := Cosine(v, want)
		r.Figures[i].Reference = &cosine
		if lower(&r.MinReference, cosine) && cosine < MinCosine && (r.OK() || r.Code == Drift) {
			r.Code, r.Text = Drift, texts[i].Name
		}
	}
	return r
}
