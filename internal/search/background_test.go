package search

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/document"
)

// nearest is a semantic list of one passage a document, best first.
func nearest(cosines ...float64) lists {
	in := lists{semanticUse: true, trust: WeakTrust(), blank: 0.06}
	slices.SortFunc(cosines, func(a, b float64) int {
		if a > b {
			return -1
		}
		return 1
	})
	for i, c := range cosines {
		in.semantic = append(in.semantic, document.Hit{Chunk: document.ChunkID(i + 1), Document: document.ID(i + 1), Score: c})
	}
	in.lexical.Total = int64(len(cosines))
	return in
}

// verdict is what meaning alone says of the whole list.
func verdict(in lists) Reason {
	all := fuse(in)
	assess(query{}, in, all)
	return judge(in, all, document.Standing{}).Reason
}

func repeat(n int, value func(i int) float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = value(i)
	}
	return out
}

func TestMeaningStandsOut(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	around := func(centre, spread float64) func(int) float64 {
		return func(int) float64 { return centre + spread*rng.NormFloat64() }
	}
	sample := []float64{0.31, 0.29, 0.22, 0.20, 0.15, 0.13, 0.09, 0.07, 0.07, 0.01, -0.10}
	for name, tc := range map[string]struct {
		cosines []float64
		want    Reason
	}{
		"short query, twelve documents, one apart":         {append(sample, 0.454), ReasonMeaning},
		"the same without that one":                        {sample, ReasonWeak},
		"one document, fair":                               {[]float64{0.46}, ReasonMeaning},
		"one document, far":                                {[]float64{0.22}, ReasonWeak},
		"three documents, one apart":                       {[]float64{0.46, 0.12, 0.02}, ReasonMeaning},
		"three documents, all on the subject":              {[]float64{0.41, 0.40, 0.38}, ReasonMeaning},
		"five documents, all far":                          {[]float64{0.3, 0.1, 0.1, 0, -0.1}, ReasonWeak},
		"low but apart":                                    {append(repeat(50, around(0, 0.03)), 0.3), ReasonWeak},
		"fair and many alike: an index on one subject":     {repeat(300, around(0.3, 0.08)), ReasonWeak},
		"high throughout: a question on that subject":      {repeat(300, around(0.6, 0.08)), ReasonMeaning},
		"a hundred documents, one apart":                   {append(repeat(100, around(0.05, 0.06)), 0.45), ReasonMeaning},
		"texts without a known word beside real documents": {append(append(repeat(80, around(0.06, 0.001)), sample...), 0.454), ReasonMeaning},
		"the same, nothing apart":                          {append(append(repeat(80, around(0.06, 0.001)), sample...), 0.39), ReasonWeak},
		"a tenth of the index is on the subject":           {append(repeat(90, around(0.05, 0.06)), repeat(10, around(0.5, 0.03))...), ReasonMeaning},
	} {
		if got := verdict(nearest(tc.cosines...)); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// The upper part of a list says of the whole what the whole says of itself.
func TestBackgroundOfACutList(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1500, 20000} {
		cosines := repeat(n, func(int) float64 { return 0.1 + 0.07*rng.NormFloat64() })
		whole := nearest(cosines...)
		whole.blank = math.NaN()
		cut := whole
		cut.semantic, cut.semanticFull = whole.semantic[:candidates], true
		a, b := backgroundOf(whole), backgroundOf(cut)
		if math.Abs(a.centre-b.centre) > 0.02 || math.Abs(a.spread-b.spread) > 0.01 || math.Abs(a.chance-b.chance) > 0.02 {
			t.Errorf("%d documents: whole %+v, cut %+v", n, a, b)
		}
		if verdict(cut) != ReasonWeak {
			t.Errorf("%d documents: chance is taken for meaning: %v", n, cut.semantic[0])
		}
	}
	// Copies say nothing new.
	few := []float64{0.4, 0.3, 0.21, 0.18, 0.1, 0.02}
	if diff := cmp.Diff(backgroundOf(nearest(slices.Clone(few)...)), backgroundOf(nearest(append(repeat(50, func(int) float64 { return 0.3 }), few...)...)),
		cmp.AllowUnexported(background{})); diff != "" {
		t.Error(diff)
	}
	// Several passages a document: the documents are what is counted.
	in := nearest(repeat(2000, func(int) float64 { return 0.1 + 0.07*rng.NormFloat64() })...)
	for i := range in.semantic {
		in.semantic[i].Document = document.ID(i%1000 + 1)
	}
	in.semantic, in.semanticFull = in.semantic[:candidates], true
	if b := backgroundOf(in); b.chance < order(1, 1000)-0.1 || b.chance > order(1, 2000) {
		t.Errorf("%+v", b)
	}
}

// A strong model, simulated: relevant passages where its authors put them.
func TestStrongModelKeepsItsEvidence(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{1, 5, 50, 390} {
		kept, mistaken := 0, 0
		const rounds = 400
		for range rounds {
			noise := func(int) float64 { return 0.14 + 0.08*rng.NormFloat64() }
			empty := nearest(repeat(n, noise)...)
			full := nearest(append(repeat(n, noise), 0.6+0.08*rng.NormFloat64())...)
			empty.trust, full.trust = StrongTrust(), StrongTrust()
			if verdict(full) == ReasonMeaning {
				kept++
			}
			if verdict(empty) == ReasonMeaning {
				mistaken++
			}
		}
		t.Logf("%d documents: kept %d, mistaken %d of %d", n, kept, mistaken, rounds)
		if kept < rounds*95/100 || mistaken > rounds*5/100 {
			t.Errorf("%d documents: kept %d, mistaken %d of %d", n, kept, mistaken, rounds)
		}
	}
}

// Where no document has enough of the words, the one that stands out comes
// before the one that has a word by chance.
func TestEvidenceByMeaningComesFirst(t *testing.T) {
	in := nearest(0.45, 0.2, 0.15, 0.1, 0.05, 0.02, 0, -0.03)
	in.wordsUse = true
	in.groups = []group{{text: "apartment"}, {text: "lease"}}
	in.set = termSet{terms: []document.Term{{Text: "apartment", Weight: 1}, {Text: "lease", Weight: 1}}, group: []int{0, 1}, share: []float64{1, 1}}
	in.lexical.Frequency = []int64{0, 1}
	in.lexical.Hits = []document.Hit{{Chunk: 3, Document: 3, Score: 1.9, Matched: []int{1}}}
	all := fuse(in)
	if all[0].document != 3 {
		t.Fatalf("the word is expected to lead the scores: %+v", all[0])
	}
	assess(query{groups: in.groups}, in, all)
	if all[0].document != 1 || all[1].document != 3 || judge(in, all, document.Standing{}) != (Evidence{Found: true, Reason: ReasonMeaning}) {
		t.Errorf("%+v, %+v", all[0], judge(in, all, document.Standing{}))
	}
}

// For a few sizes, against the table of expected normal order statistics.
func TestOrder(t *testing.T) {
	for _, tc := range []struct{ i, n, want float64 }{{1, 2, 0.564}, {1, 10, 1.539}, {3, 10, 0.656}, {1, 100, 2.508}} {
		if got := order(tc.i, tc.n); math.Abs(got-tc.want) > 0.03 {
			t.Errorf("%v of %v: %.3f, want %.3f", tc.i, tc.n, got, tc.want)
		}
	}
}
