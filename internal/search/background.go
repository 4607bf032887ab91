package search

import (
	"math"
	"slices"

	"github.com/ondol-app/ondol/internal/document"
)

// background is how near a query is to documents that have nothing to do with
// it: the distribution of its cosines over this index, the nearest document
// left out. It belongs to the query, since cosines grow with the length of the
// query and of the passage and with how much of one kind an index is.
type background struct {
	centre float64 // of the cosines
	spread float64 // as a standard deviation; > 0
	chance float64 // spreads above centre at which the nearest of so many documents is to be expected
}

const (
	// priorDocuments is how many documents the model's own background counts as
	// beside those of the index: with one document it is all there is, with
	// twenty it hardly matters.
	priorDocuments = 5
	// leastSpread keeps an index of very similar documents from making
	// differences that are rounding into distances.
	leastSpread = 0.03
	// blankWidth is how near to the cosine of a text of which the model knows
	// nothing a document is taken for one: Korean beside the starter model, with
	// a number in it here and there. They are all at one place, say nothing of
	// how the query stands to texts, and may be most of the index.
	blankWidth = 0.005
)

// backgroundOf estimates the background from the semantic list. total is the
// number of passages in the index; when the list was cut at its limit it is
// the upper part of so many.
//
// Whole list: centre is the median and spread 1.4826 times the median absolute
// deviation, both of which some documents on the subject do not disturb. Cut
// list: centre and spread are those of the normal distribution whose quantiles
// lie where the list's last cosine and that of its first quarter do. Either is
// blended with the model's background as if that were priorDocuments more.
func backgroundOf(in lists) background {
	cosines, passages := documentCosines(in)
	documents := float64(len(cosines))
	rest := cosines[min(1, len(cosines)):]
	n := float64(len(rest))
	centre, spread := in.trust.Background, in.trust.Spread
	switch known := max(float64(in.lexical.Total), float64(passages)); {
	case in.semanticFull && len(rest) >= 8:
		documents *= max(1, known/float64(passages))
		near, far := len(rest)/4, len(rest)
		spread = (rest[near-1] - rest[far-1]) / (order(float64(near), documents) - order(float64(far), documents))
		centre = rest[near-1] - spread*order(float64(near), documents)
		n = documents
	case len(rest) > 0:
		centre = median(rest)
		distances := make([]float64, len(rest))
		for i, c := range rest {
			distances[i] = math.Abs(c - centre)
		}
		spread = 1.4826 * median(distances)
	}
	prior := priorDocuments / (priorDocuments + n)
	b := background{
		centre: prior*in.trust.Background + (1-prior)*centre,
		spread: math.Sqrt(prior*in.trust.Spread*in.trust.Spread + (1-prior)*spread*spread),
	}
	b.spread = max(b.spread, leastSpread)
	if documents > 1 {
		b.chance = order(1, documents)
	}
	return b
}

// distance is by how many spreads a cosine is nearer than the nearest of so
// many documents is expected to be by chance.
func (b background) distance(cosine float64) float64 {
	return (cosine-b.centre)/b.spread - b.chance
}

// documentCosines are the best cosines of each document, falling, copies of one
// text once and texts unknown to the model not at all; and the number of
// passages they came from.
func documentCosines(in lists) (cosines []float64, passages int) {
	seen := make(map[document.ID]bool)
	for _, h := range in.semantic {
		if in.excluded[h.Document] || math.Abs(h.Score-in.blank) < blankWidth {
			continue
		}
		passages++
		if seen[h.Document] {
			continue
		}
		seen[h.Document] = true
		if n := len(cosines); n == 0 || cosines[n-1] != h.Score { // copies share one vector
			cosines = append(cosines, h.Score)
		}
	}
	return cosines, passages
}

// order is the expected value of the i-th largest of n standard normal values
// (Blom, Statistical Estimates and Transformed Beta-Variables, 1958).
func order(i, n float64) float64 {
	p := 1 - (i-0.375)/(n+0.25)
	return math.Sqrt2 * math.Erfinv(2*p-1)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}
