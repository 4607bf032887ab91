package search

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/document"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		query    string
		text     string
		groups   []string
		excluded []string
	}{
		{`how to "warm the pot" -cold`, "how to warm the pot", []string{"how", "to", "warm the pot"}, []string{"cold"}},
		{"Jenkins파이프라인을 API를", "Jenkins파이프라인을 API를", []string{"Jenkins", "파이프라인을", "API"}, nil},
		{"http://x.org/a note: -- - a-b", "http://x.org/a note: a-b", []string{"http://x.org/a", "note", "a-b"}, nil},
		{`don"t say "never`, `don"t say "never`, []string{`don"t`, "say", "never"}, nil},
		{`-"two words" ?!`, "", nil, []string{"two words"}},
	} {
		q, err := parse(tc.query, document.Filter{})
		if err != nil {
			t.Errorf("%s: %v", tc.query, err)
			continue
		}
		var groups []string
		for _, g := range q.groups {
			groups = append(groups, g.text)
		}
		if diff := cmp.Diff([]any{tc.text, tc.groups, tc.excluded}, []any{q.text, groups, q.excluded}); diff != "" {
			t.Errorf("%s:\n%s", tc.query, diff)
		}
	}
}

func TestStems(t *testing.T) {
	for word, want := range map[string][]string{
		"예산안을": {"예산안"}, "문서에서는": {"문서"}, "설치하는": {"설치"}, "사람들이": {"사람"}, "물을": {"물"}, "온돌": nil, "을": nil,
	} {
		if got := stems(word); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", word, got, want)
		}
	}
}

func TestTermsStayWithinTheLimit(t *testing.T) {
	q, err := parse(strings.Repeat("가나다라마바사 아자차카타파하 ", 1)+strings.Join(strings.Split("abcdefghijklmnopqrstuvwxyz", ""), "x ")+
		strings.Join(strings.Split("ABCDEFGHIJKLMNOPQRSTUVWXYZ", ""), "yz "), document.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	set := termsOf(q.groups)
	if len(set.terms) >= document.MaxTerms || !set.dropped || len(set.group) != len(set.terms) || len(set.share) != len(set.terms) {
		t.Errorf("%d terms, dropped %v", len(set.terms), set.dropped)
	}
}

func TestIdentifierLike(t *testing.T) {
	for text, want := range map[string]bool{"getUserId": true, "snake_case": true, "2026.4.10": true, "v2": true, "std::vector": true,
		"word": false, "Word": false, "HTTP": false, "예산": false, "10": false, "state-of-the-art": false} {
		if identifierLike(text) != want {
			t.Errorf("%s: %v", text, !want)
		}
	}
}

// oracle makes lists for a query with one relevant document among many: its
// words are found at random, and the model finds it with the given skill.
func oracle(rng *rand.Rand, trust Trust, lexicalSkill, semanticSkill float64) (in lists, relevant document.ID) {
	const n = 300
	relevant = document.ID(1 + rng.IntN(n))
	in = lists{wordsUse: true, semanticUse: true, trust: trust}
	for _, w := range []string{"a1", "b1", "c1"} {
		in.groups = append(in.groups, group{text: w, variants: []variant{{text: w, weight: 1, share: 1}}})
	}
	in.set = termsOf(in.groups)
	in.lexical.Total = n
	in.lexical.Frequency = make([]int64, len(in.set.terms))
	for i := range in.lexical.Frequency {
		in.lexical.Frequency[i] = 20
	}
	for id := document.ID(1); id <= n; id++ {
		score, cosine := rng.Float64()*8, 0.15+0.1*rng.NormFloat64()
		if id == relevant {
			score, cosine = score*(1-lexicalSkill)+14*lexicalSkill, cosine+semanticSkill
		}
		in.lexical.Hits = append(in.lexical.Hits, document.Hit{Chunk: document.ChunkID(id), Document: id, Score: score, Matched: []int{0, 1}})
		in.semantic = append(in.semantic, document.Hit{Chunk: document.ChunkID(id), Document: id, Score: cosine})
	}
	better := func(a, b document.Hit) int {
		if a.Score > b.Score {
			return -1
		}
		return 1
	}
	slices.SortFunc(in.lexical.Hits, better)
	slices.SortFunc(in.semantic, better)
	return in, relevant
}

// reciprocal is the mean reciprocal rank over many oracle queries.
func reciprocal(lists func(rng *rand.Rand) (lists, document.ID)) float64 {
	rng := rand.New(rand.NewPCG(7, 7))
	sum := 0.0
	const n = 300
	for range n {
		in, want := lists(rng)
		for i, c := range fuse(in) {
			if c.document == want {
				sum += 1 / float64(i+1)
			}
		}
	}
	return sum / n
}

// Whichever side is the better one, together they are no worse than it.
func TestHybridIsNoWorseThanTheBetterSide(t *testing.T) {
	for name, tc := range map[string]struct {
		trust             Trust
		lexical, semantic float64
	}{
		"good words, useless weak model": {WeakTrust(), 0.8, 0},
		"good words, fair weak model":    {WeakTrust(), 0.6, 0.2},
		"poor words, good strong model":  {StrongTrust(), 0.1, 0.5},
		"good words, good strong model":  {StrongTrust(), 0.8, 0.5},
	} {
		run := func(words, meaning bool) float64 {
			return reciprocal(func(rng *rand.Rand) (lists, document.ID) {
				in, want := oracle(rng, tc.trust, tc.lexical, tc.semantic)
				in.wordsUse, in.semanticUse = words, meaning
				if !words {
					in.lexical = document.LexicalReply{}
				}
				if !meaning {
					in.semantic = nil
				}
				return in, want
			})
		}
		lexical, semantic, hybrid := run(true, false), run(false, true), run(true, true)
		t.Logf("%s: lexical %.3f semantic %.3f hybrid %.3f", name, lexical, semantic, hybrid)
		if hybrid < max(lexical, semantic)-0.02 {
			t.Errorf("%s: hybrid %.3f, lexical %.3f, semantic %.3f", name, hybrid, lexical, semantic)
		}
	}
}

// What a full list leaves out is taken for at most its last entry, so that a
// document on rank 401 of one list is not treated as if it had nothing.
func TestListsThatWereCut(t *testing.T) {
	in := lists{wordsUse: true, semanticUse: true, trust: Trust{Weight: 0.5, Floor: 0, Strong: 1}, lexicalFull: true,
		groups: []group{{text: "a"}}, set: termSet{terms: []document.Term{{Text: "a", Weight: 1}}, group: []int{0}, share: []float64{1}},
		lexical:  document.LexicalReply{Total: 100, Frequency: []int64{10}, Hits: []document.Hit{{Chunk: 1, Document: 1, Score: 2, Matched: []int{0}}}},
		semantic: []document.Hit{{Chunk: 2, Document: 2, Score: 0.9}, {Chunk: 3, Document: 3, Score: 0.6}},
	}
	for _, c := range fuse(in) {
		switch c.document {
		case 1:
			if math.Abs(c.meaning-0.5*0.6) > 1e-9 || !math.IsNaN(c.cosine) {
				t.Errorf("meaning of the document beyond the semantic list is %.3f", c.meaning)
			}
		case 2:
			if c.words <= 0 || c.lexicalRank != 0 || c.semanticRank != 1 {
				t.Errorf("words of the document beyond the lexical list: %+v", c)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`a "b c" -d kind:code path:"x y" after:2020`)
	f.Add("예산안을 “따옴표” 「인용」 -")
	f.Fuzz(func(t *testing.T, text string) {
		q, err := parse(text, document.Filter{})
		if err != nil {
			return
		}
		set := termsOf(q.groups)
		for i, term := range set.terms {
			if term.Text == "" || term.Weight <= 0 || set.group[i] >= len(q.groups) {
				t.Errorf("%q: term %d is %+v", text, i, term)
			}
		}
	})
}
