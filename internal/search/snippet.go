package search

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"github.com/ondol-app/ondol/internal/document"
)

// snippetBytes is about how long a snippet is: three lines of a terminal.
const snippetBytes = 280

// snippetOf cuts the most telling stretch out of a passage: the window of
// whole sentences in which the heaviest matched terms stand. Where no word
// matched, the passage speaks from its first sentence on, headings aside.
// weight is that of each term; terms of weight 0 are not marked.
func snippetOf(p document.Passage, weight []float64) Snippet {
	text := p.Chunk.Text
	marks := mergeMarks(text, p.Marks, weight)
	sentences := sentencesOf(text)
	first, last := window(text, sentences, p.Marks, weight)
	start, end := sentences[first][0], sentences[last][1]
	if end-start > 2*snippetBytes { // one endless sentence
		start, end = clip(text, start, end, marks)
	}
	for start < end && (text[start] == ' ' || text[start] == '\n' || text[start] == '\t') {
		start++
	}
	end = start + len(strings.TrimRightFunc(text[start:end], unicode.IsSpace))
	s := Snippet{Text: text[start:end], Marks: [][2]int{}}
	for _, m := range marks {
		if from, to := max(m[0], start), min(m[1], end); from < to {
			s.Marks = append(s.Marks, [2]int{from - start, to - start})
		}
	}
	return s
}

// mergeMarks joins marks that overlap or touch: the pairs of a Korean word
// become the word.
func mergeMarks(text string, marks []document.Mark, weight []float64) [][2]int {
	var out [][2]int
	for _, m := range marks {
		if m.Term >= len(weight) || weight[m.Term] == 0 || m.Start < 0 || m.End > len(text) {
			continue
		}
		if n := len(out); n > 0 && m.Start <= out[n-1][1] {
			out[n-1][1] = max(out[n-1][1], m.End)
			continue
		}
		out = append(out, [2]int{m.Start, m.End})
	}
	return out
}

// sentencesOf returns the stretches of text, in order and without gaps. A line
// that goes on in the next one ends no sentence.
func sentencesOf(text string) [][2]int {
	var out [][2]int
	state, at := -1, 0
	for rest := unwrap(text); rest != ""; {
		var s string
		s, rest, state = uniseg.FirstSentenceInString(rest, state)
		out = append(out, [2]int{at, at + len(s)})
		at += len(s)
	}
	return out
}

// unwrap turns the line ends inside paragraphs into spaces; offsets stay.
func unwrap(text string) string {
	out := []byte(text)
	start := 0 // of the line
	for i := 0; i+1 < len(out); i++ {
		if out[i] != '\n' {
			continue
		}
		next, _ := utf8.DecodeRuneInString(text[i+1:])
		if i > start && unicode.IsLetter(next) && !heading(text, [2]int{start, i}) {
			out[i] = ' '
		}
		start = i + 1
	}
	return string(out)
}

// window chooses sentences first … last: the run of at most snippetBytes whose
// distinct terms weigh most; among equals the earliest.
func window(text string, sentences [][2]int, marks []document.Mark, weight []float64) (first, last int) {
	best := -1.0
	for from := range sentences {
		if heading(text, sentences[from]) && from+1 < len(sentences) {
			continue
		}
		to := from
		for to+1 < len(sentences) && sentences[to+1][1]-sentences[from][0] <= snippetBytes {
			to++
		}
		value := 0.0
		seen := make(map[int]bool)
		for _, m := range marks {
			if m.Start >= sentences[from][0] && m.Start < sentences[to][1] && m.Term < len(weight) && !seen[m.Term] {
				seen[m.Term] = true
				value += weight[m.Term]
			}
		}
		if value > best {
			best, first, last = value, from, to
		}
	}
	return first, last
}

// heading reports whether a sentence is a heading or blank line: it says where
// the passage stands, which the result shows anyway.
func heading(text string, s [2]int) bool {
	line := strings.TrimSpace(text[s[0]:s[1]])
	return line == "" || strings.HasPrefix(line, "#") || strings.Trim(line, "-=*_`~ ") == ""
}

// clip shortens a stretch around its first mark, at grapheme borders.
func clip(text string, start, end int, marks [][2]int) (int, int) {
	from := start
	for _, m := range marks {
		if m[0] >= start && m[0] < end {
			from = max(start, m[0]-snippetBytes/3)
			break
		}
	}
	to := min(end, from+snippetBytes)
	left, right := start, end
	state, at := -1, start
	for rest := text[start:end]; rest != ""; {
		var g string
		g, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if at <= from {
			left = at
		}
		if at += len(g); at >= to {
			right = at
			break
		}
	}
	return left, right
}
