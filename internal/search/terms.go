package search

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ondol-app/ondol/internal/document"
)

// group is one thing that is looked for, in every form in which it may stand
// in the text: "예산안을" is also 예산안, and in the end also 예산 and 산안.
type group struct {
	text     string
	quoted   bool // required
	common   bool // a stop word beside words that are none
	variants []variant
}

// variant is one form of a group.
type variant struct {
	text   string
	weight float64 // of the term in BM25
	share  float64 // of the group that is covered when this form stands in the text
}

// Weights of the forms of a word. A pair of syllables is a hint, not a word;
// two thirds of a compound in the right order are worth about one word.
const (
	wholeWeight  = 1.0
	stemWeight   = 0.9
	pairWeight   = 0.3
	pairShare    = 0.8  // of all pairs of a run together
	lonelyWeight = 0.25 // a stem of one syllable is the beginning of half the dictionary
	commonWeight = 0.15 // a stop word
	besideWeight = 0.3  // two words side by side
)

// groupsOf cuts one word of the query at the borders between scripts
// ("Jenkins파이프라인을", "API를") and adds the forms of each part.
func groupsOf(word string) []group {
	word = strings.TrimFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) })
	var out []group
	for i, run := range scriptRuns(word) {
		if i > 0 && particles[run] {
			continue // "API를": the particle alone says nothing
		}
		if hasWord(run) {
			out = append(out, group{text: run, variants: variantsOf(run)})
		}
	}
	return out
}

// scriptRuns cuts between Hangul, Han with Kana, and everything else.
func scriptRuns(word string) []string {
	var out []string
	start, last := 0, 0
	for i, r := range word {
		class := scriptOf(r)
		if class == 0 { // marks and joiners belong to what stands before them
			class = last
		}
		if i > start && class != last {
			out = append(out, word[start:i])
			start = i
		}
		last = class
	}
	return append(out, word[start:])
}

func scriptOf(r rune) int {
	switch {
	case unicode.Is(unicode.Hangul, r):
		return 2
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo) || r == 'ー':
		return 3
	case unicode.IsMark(r):
		return 0
	}
	return 1
}

func variantsOf(run string) []variant {
	out := []variant{{text: run, weight: wholeWeight, share: 1}}
	first, _ := utf8.DecodeRuneInString(run)
	script := scriptOf(first)
	if script == 1 {
		return out
	}
	core := run
	if script == 2 {
		for _, stem := range stems(run) {
			core = stem
			if utf8.RuneCountInString(stem) == 1 {
				out = append(out, variant{text: stem, weight: lonelyWeight, share: 0.7})
				continue
			}
			out = append(out, variant{text: stem, weight: stemWeight, share: 1})
		}
	}
	runes := []rune(core)
	if len(runes) < 3 {
		return out
	}
	for i := range len(runes) - 1 {
		out = append(out, variant{text: string(runes[i : i+2]), weight: pairWeight, share: pairShare / float64(len(runes)-1)})
	}
	return out
}

// stems takes particles and endings off, one after the other, longest first.
func stems(word string) []string {
	var out []string
	for range 3 {
		cut := ""
		for suffix := range suffixesOf(word) {
			if particles[suffix] || endings[suffix] {
				cut = suffix
				break
			}
		}
		stem := strings.TrimSuffix(word, cut)
		if cut == "" || stem == "" {
			return out
		}
		out = append(out, stem)
		word = stem
	}
	return out
}

// suffixesOf yields the proper suffixes of word, longest first, up to five syllables.
func suffixesOf(word string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		n := utf8.RuneCountInString(word)
		for i := range word {
			if i > 0 && n <= 5 && !yield(word[i:]) {
				return
			}
			n--
		}
	}
}

// demoteStopWords lowers the weight of words that carry no subject, unless
// the query is made of nothing else ("to be or not to be").
func demoteStopWords(groups []group) {
	content := false
	for _, g := range groups {
		content = content || !isCommon(g)
	}
	if !content {
		return
	}
	for i, g := range groups {
		if isCommon(g) {
			groups[i].common = true
			groups[i].variants = []variant{{text: g.text, weight: commonWeight, share: 1}}
		}
	}
}

// isCommon looks at all forms of a word: 누구인가요 is 누구.
func isCommon(g group) bool {
	return !g.quoted && slices.ContainsFunc(g.variants, func(v variant) bool {
		return v.weight >= stemWeight && stopWords[strings.ToLower(v.text)]
	})
}

// termSet is the flat list the store is asked for, with the way back.
type termSet struct {
	terms   []document.Term
	group   []int     // of each term; -1 for two words side by side
	share   []float64 // of each term
	dropped bool      // there were more
}

// termsOf lists whole words first, then stems, then words side by side, then
// pairs, so that what is cut off at MaxTerms matters least.
func termsOf(groups []group) termSet {
	var set termSet
	have := make(map[string]bool)
	add := func(text string, weight float64, g int, share float64) {
		key := strings.ToLower(text)
		if have[key] {
			return // the same word twice, or a pair that is a word of its own
		}
		if len(set.terms) == document.MaxTerms-1 { // the store reports matches in 63 bits
			set.dropped = true
			return
		}
		have[key] = true
		set.terms = append(set.terms, document.Term{Text: text, Weight: weight})
		set.group = append(set.group, g)
		set.share = append(set.share, share)
	}
	variants := func(want func(variant) bool) {
		for i, g := range groups {
			for _, v := range g.variants {
				if want(v) {
					add(v.text, v.weight, i, v.share)
				}
			}
		}
	}
	variants(func(v variant) bool { return v.weight > stemWeight })
	variants(func(v variant) bool { return v.weight == stemWeight })
	previous := -1
	for i, g := range groups {
		if g.common || g.quoted {
			continue
		}
		if previous == i-1 && previous >= 0 {
			add(groups[previous].text+" "+g.text, besideWeight, -1, 0)
		}
		previous = i
	}
	variants(func(v variant) bool { return v.weight < stemWeight })
	return set
}
