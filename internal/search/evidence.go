package search

import (
	"math"
	"unicode"
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

// judge decides whether the candidates answer the query. It looks at raw
// signals only: coverage of the query's words and raw cosines. A fused score
// says which of two passages is better, never whether one is good.
func judge(q query, in lists, top []candidate) Evidence {
	if len(top) == 0 {
		if in.lexical.Total == 0 && len(in.semantic) == 0 {
			return Evidence{Reason: ReasonEmptyIndex}
		}
		return Evidence{Reason: ReasonNothing}
	}
	if in.required != nil {
		if top[0].missesPhrase {
			return Evidence{Reason: ReasonNoPhrase}
		}
		return Evidence{Found: true, Reason: ReasonPhrase}
	}
	subjects := 0
	for _, g := range q.groups {
		if !g.common {
			subjects++
		}
	}
	meaning := false
	for _, c := range top {
		long := subjects >= longQuestion && c.coverage >= longCoverage && subjectsMatched(in, c) >= longMatches
		judged := in.semanticUse && !math.IsNaN(c.cosine)
		switch {
		case c.coverage >= aloneCoverage, c.hasIdentifier,
			(c.coverage >= supportedCoverage || long) && (!judged || c.cosine >= in.trust.Support):
			return Evidence{Found: true, Reason: ReasonWords}
		case judged && c.cosine >= in.trust.Evidence:
			meaning = true
		}
	}
	if meaning {
		return Evidence{Found: true, Reason: ReasonMeaning}
	}
	return Evidence{Reason: ReasonWeak}
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
