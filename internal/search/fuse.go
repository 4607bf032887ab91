package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/ondol-app/ondol/internal/document"
)

// lists is what the store found.
type lists struct {
	set          termSet
	groups       []group
	lexical      document.LexicalReply
	lexicalFull  bool // the list was cut at its limit
	semantic     []document.Hit
	wordsUse     bool    // there is a lexical list at all
	semanticUse  bool    // there is a semantic list at all
	semanticFull bool    // the list was cut at its limit
	blank        float64 // cosine of the query and a text of which the model knows nothing; NaN when not known
	trust        Trust
	required     map[document.ID]bool // nil: no quoted phrase
	excluded     map[document.ID]bool
}

// candidate is a document with its best passage.
type candidate struct {
	document      document.ID
	chunk         document.ChunkID
	score         float64
	words         float64 // what each side puts into score
	meaning       float64
	bm25          float64 // best of the document
	cosine        float64 // best of the document; NaN when it is not in the list
	coverage      float64 // best of the document, 0 … 1
	matched       []int   // terms that stand in the passage with the best bm25
	lexicalRank   int
	semanticRank  int
	hasIdentifier bool    // an identifier of the query stands in it
	missesPhrase  bool    // a quoted phrase does not stand in it
	distance      float64 // of cosine from the query's background; NaN without a cosine
	evidence      Reason  // why it answers the query by itself; empty when it does not
	signal        bool    // it has something to do with the query
}

// k1Bound is the most that one term can add to BM25, as a multiple of its
// weight and inverse document frequency: k1 + 1.
const k1Bound = 2.2

// fuse orders the documents. A score is
//
//	(1-w) · bm25 / bound  +  w · meaning(cosine)
//
// where bound is what a passage would score that repeated every term of the
// query without end. Neither part is stretched to the best of the list: where
// the words of a query hardly occur, the first part is small for everybody and
// meaning decides; w grows then, too ([Trust.share]).
func fuse(in lists) []candidate {
	idf := inverseFrequencies(in)
	weights := groupWeights(in, idf)
	bound := 0.0
	for i, t := range in.set.terms {
		bound += t.Weight * idf[i] * k1Bound
	}
	byDocument := make(map[document.ID]*candidate)
	passages := make(map[document.ChunkID]*passage)
	at := func(h document.Hit) (*candidate, *passage) {
		c := byDocument[h.Document]
		if c == nil {
			c = &candidate{document: h.Document, cosine: math.NaN()}
			byDocument[h.Document] = c
		}
		p := passages[h.Chunk]
		if p == nil {
			p = &passage{chunk: h.Chunk, document: h.Document}
			passages[h.Chunk] = p
		}
		return c, p
	}
	best := 0.0 // coverage of the query's words by the best passage
	for _, h := range in.lexical.Hits {
		if in.excluded[h.Document] {
			continue
		}
		c, p := at(h)
		p.words = ratio(h.Score, bound)
		coverage := cover(in, weights, h.Matched)
		best = max(best, coverage)
		c.coverage = max(c.coverage, coverage)
		c.hasIdentifier = c.hasIdentifier || hasIdentifier(in, h.Matched)
		if h.Score > c.bm25 {
			c.bm25, c.matched = h.Score, h.Matched
		}
		if c.lexicalRank == 0 {
			c.lexicalRank = len(byDocument) // only the lexical list has been read so far
		}
	}
	floor := 0.0 // meaning of what is not in a list that was cut: at most that of its last
	for _, h := range in.semantic {
		floor = in.trust.meaning(h.Score)
		if in.excluded[h.Document] {
			continue
		}
		c, p := at(h)
		p.meaning = in.trust.meaning(h.Score)
		if !(c.cosine >= h.Score) { // NaN included
			c.cosine = h.Score
		}
	}
	rank(in, byDocument)
	return score(in, byDocument, passages, best, floor, ratio(lastScore(in.lexical), bound))
}

// passage is one chunk's part in both lists.
type passage struct {
	chunk          document.ChunkID
	document       document.ID
	words, meaning float64
}

func score(in lists, byDocument map[document.ID]*candidate, passages map[document.ChunkID]*passage, coverage, floor, lastWords float64) []candidate {
	w := 0.0
	switch {
	case in.semanticUse && in.wordsUse:
		w = in.trust.share(coverage)
	case in.semanticUse:
		w = 1
	}
	missingWords := 0.0
	if in.lexicalFull {
		missingWords = lastWords / 2 // somewhere between nothing and the last of the list
	}
	bestOf := make(map[document.ID]float64)
	for _, p := range passages {
		c := byDocument[p.document]
		combined := (1-w)*p.words + w*p.meaning
		if old, ok := bestOf[p.document]; !ok || combined > old || combined == old && p.chunk < c.chunk {
			bestOf[p.document], c.chunk = combined, p.chunk
		}
		c.words, c.meaning = max(c.words, p.words), max(c.meaning, p.meaning)
	}
	out := make([]candidate, 0, len(byDocument))
	for _, c := range byDocument {
		if c.lexicalRank == 0 {
			c.words = max(c.words, missingWords)
		}
		if math.IsNaN(c.cosine) {
			c.meaning = max(c.meaning, floor)
		}
		c.words, c.meaning = (1-w)*c.words, w*c.meaning
		c.score = c.words + c.meaning
		c.missesPhrase = in.required != nil && !in.required[c.document]
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b candidate) int {
		if a.missesPhrase != b.missesPhrase {
			if a.missesPhrase {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.document, b.document))
	})
	return out
}

// rank numbers the documents of the semantic list by their best passage.
func rank(in lists, byDocument map[document.ID]*candidate) {
	n := 0
	for _, h := range in.semantic {
		if c := byDocument[h.Document]; c != nil && c.semanticRank == 0 {
			n++
			c.semanticRank = n
		}
	}
}

func lastScore(r document.LexicalReply) float64 {
	if len(r.Hits) == 0 {
		return 0
	}
	return r.Hits[len(r.Hits)-1].Score
}

func ratio(a, b float64) float64 {
	if b <= 0 {
		return 0
	}
	return a / b
}

// inverseFrequencies are log(1 + (N-n+½)/(n+½)) per term, as the store weighs
// them: high for what hardly any passage holds, and for what none does.
// Without a lexical list they are all 1.
func inverseFrequencies(in lists) []float64 {
	out := make([]float64, len(in.set.terms))
	for i := range out {
		out[i] = 1
		if i < len(in.lexical.Frequency) {
			n := float64(in.lexical.Frequency[i])
			out[i] = math.Log1p(max(0, float64(in.lexical.Total)-n+0.5) / (n + 0.5))
		}
	}
	return out
}

// groupWeights is how much each group of the query matters: the inverse
// frequency of its most frequent full form, nothing for stop words. A word that
// no passage holds counts as one that a single passage holds: in a small index
// it would outweigh all the others.
func groupWeights(in lists, idf []float64) []float64 {
	most := math.Log1p(max(0, float64(in.lexical.Total)-0.5) / 1.5) // of a term in one passage
	weights := make([]float64, len(in.groups))
	for i := range weights {
		weights[i] = math.Inf(1)
	}
	for i, g := range in.set.group {
		if g >= 0 && in.set.share[i] >= 0.7 {
			weights[g] = min(weights[g], idf[i], max(most, 0.1))
		}
	}
	for i, g := range in.groups {
		if g.common || math.IsInf(weights[i], 1) { // the latter: a repetition of another group, or beyond the limit of terms
			weights[i] = 0
		}
	}
	return weights
}

// cover is the share of the query's weight that the matched terms stand for.
func cover(in lists, weights []float64, matched []int) float64 {
	shares := make([]float64, len(in.groups))
	for _, i := range matched {
		if g := in.set.group[i]; g >= 0 {
			if in.set.share[i] >= 0.7 {
				shares[g] = max(shares[g], in.set.share[i])
			} else if shares[g] < pairShare {
				shares[g] = min(pairShare, shares[g]+in.set.share[i])
			}
		}
	}
	covered, all := 0.0, 0.0
	for g, w := range weights {
		covered += w * shares[g]
		all += w
	}
	return ratio(covered, all)
}

// hasIdentifier reports whether one of the matched terms is a name out of
// code, a version, a number: nobody writes one by chance.
func hasIdentifier(in lists, matched []int) bool {
	return slices.ContainsFunc(matched, func(i int) bool {
		g := in.set.group[i]
		return g >= 0 && in.set.share[i] == 1 && identifierLike(in.groups[g].text)
	})
}
