package search

import (
	"cmp"
	"math"
	"slices"
	"unicode"

	"github.com/ondol-app/ondol/internal/document"
)

// Thresholds of the words: how much of the query's weight has to stand in one
// document. Chosen on Cranfield and the cases of the tests; see design.md.
const (
	aloneCoverage     = 0.55 // where the model knows both and finds them apart
	supportedCoverage = 0.45 // where it finds them near each other, or has no say
	longCoverage      = 0.35 // as supportedCoverage, for a question with at least longQuestion subject words …
	longMatches       = 3    // … of which so many stand there
	longQuestion      = 5
)

// assess says of each candidate whether it answers the query by itself. It
// looks at raw signals only: coverage of the query's words and raw cosines. A
// fused score says which of two passages is better, never whether one is good.
//
// Meaning is evidence where a cosine is high for this model (Trust.Evidence),
// or fair for it (Trust.Near) and far above the query's background in this
// index (Trust.Margin): the cosines of a short query are low throughout, and
// those of an index on one subject high throughout.
func assess(q query, in lists, all []candidate) {
	subjects := 0
	for _, g := range q.groups {
		if !g.common {
			subjects++
		}
	}
	back := backgroundOf(in)
	for i := range all {
		c := &all[i]
		long := subjects >= longQuestion && c.coverage >= longCoverage && subjectsMatched(in, *c) >= longMatches
		judged := in.semanticUse && !math.IsNaN(c.cosine)
		c.distance = math.NaN()
		if judged {
			c.distance = back.distance(c.cosine)
		}
		switch {
		case in.required != nil:
			if !c.missesPhrase {
				c.evidence = ReasonPhrase
			}
		case c.coverage >= aloneCoverage, c.hasIdentifier,
			(c.coverage >= supportedCoverage || long) && (!judged || c.cosine >= in.trust.Support):
			c.evidence = ReasonWords
		case judged && (c.cosine >= in.trust.Evidence || c.cosine >= in.trust.Near && c.distance >= in.trust.Margin):
			c.evidence = ReasonMeaning
		}
		c.signal = c.coverage > 0 || judged && c.cosine > in.trust.Floor && c.cosine > back.centre+back.spread
	}
	carryFirst(all, in.trust.Margin)
}

// carryFirst puts what stands out by meaning first where the evidence is
// meaning alone: no document has enough of the words, so a document with one of
// them must not stand above the one for whose sake the query counts as answered.
func carryFirst(all []candidate, margin float64) {
	if slices.ContainsFunc(all, func(c candidate) bool { return c.evidence == ReasonWords || c.evidence == ReasonPhrase }) {
		return
	}
	behind := func(c candidate) int {
		if c.evidence == ReasonMeaning && c.distance >= margin {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(behind(a), behind(b)) })
}

// judge sums up the candidates that are shown.
func judge(in lists, top []candidate, now document.Standing) Evidence {
	reason := ReasonWeak
	for _, c := range top {
		switch {
		case c.evidence == ReasonWords || c.evidence == ReasonPhrase:
			return Evidence{Found: true, Reason: c.evidence}
		case c.evidence == ReasonMeaning:
			reason = ReasonMeaning
		}
	}
	switch {
	case reason == ReasonMeaning:
		return Evidence{Found: true, Reason: reason}
	case len(top) == 0 && in.lexical.Total == 0 && len(in.semantic) == 0:
		return Evidence{Reason: nothingIn(now)}
	case len(top) == 0:
		return Evidence{Reason: ReasonNothing}
	case in.required != nil:
		return Evidence{Reason: ReasonNoPhrase}
	}
	return Evidence{Reason: ReasonWeak}
}

// nothingIn says why an index has no passage.
func nothingIn(now document.Standing) Reason {
	switch {
	case len(now.Folders) == 0:
		return ReasonEmptyIndex
	case now.Pending > 0 || now.LastScan.IsZero():
		return ReasonIndexPending
	}
	return ReasonIndexTextless
}

func subjectsMatched(in lists, c candidate) int {
	seen := make(map[int]bool)
	for _, i := range c.matched {
		if g := in.set.group[i]; g >= 0 && in.set.share[i] >= 0.7 && !in.groups[g].common {
			seen[g] = true
		}
	}
	return len(seen)
}

// identifierLike recognises getUserId, snake_case, gpt-4, 2026.4.10, v1.2,
// std::vector: several parts, or letters with digits.
func identifierLike(text string) bool {
	letters, digits, inner, camel := 0, 0, false, false
	previous := ' '
	for i, r := range text {
		switch {
		case unicode.IsDigit(r):
			digits++
		case unicode.IsLetter(r):
			letters++
			camel = camel || unicode.IsUpper(r) && unicode.IsLower(previous)
		case i > 0 && (r == '_' || r == '.' || r == ':' || r == '/' || r == '#' || r == '@'):
			inner = true
		}
		previous = r
	}
	return camel || inner || digits > 0 && letters > 0 || digits >= 4
}
