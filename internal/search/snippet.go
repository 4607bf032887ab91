package search

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ondol-app/ondol/internal/document"
)

// Sizes of a snippet, in bytes.
const (
	snippetBytes   = 280 // about how long it is: three lines of a terminal
	snippetShort   = 160 // shorter ones are filled up with the beginning of what follows
	contextBytes   = 120 // at most so much stands before the first mark: about a line
	clippedContext = 60  // so much where a sentence has to be cut to keep that
	proseBytes     = 50  // a shorter line alone may be a title
)

// ellipsis stands where a sentence is cut.
const ellipsis = "…"

// snippetOf cuts the most telling stretch out of a passage: from the sentence
// or line with which the heaviest matched terms begin. Where no word matched,
// the passage speaks from its first sentence of prose on. A heading is not
// shown, since the result names it; a match in it draws the text below it.
// weight is that of each term; terms of weight 0 are not marked.
func snippetOf(p document.Passage, weight []float64) Snippet {
	text := p.Chunk.Text
	c := cut{text: text, marks: mergeMarks(text, p.Marks, weight), sentences: sentencesOf(text, p.Document.Kind)}
	from, drawn := c.choose(p.Marks, weight)
	start, cutStart := c.begin(from, drawn)
	end, cutEnd := c.finish(from, start)
	end = start + len(strings.TrimRightFunc(text[start:end], unicode.IsSpace))
	s := Snippet{Text: text[start:end], Marks: [][2]int{}}
	shift := -start
	if cutStart {
		s.Text, shift = ellipsis+s.Text, shift+len(ellipsis)
	}
	if cutEnd {
		s.Text += ellipsis
	}
	for _, m := range c.marks {
		if a, b := max(m[0], start), min(m[1], end); a < b {
			s.Marks = append(s.Marks, [2]int{a + shift, b + shift})
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

// cut is a passage about to become a snippet.
type cut struct {
	text      string
	marks     [][2]int
	sentences [][2]int // in order, without gaps
}

// choose returns the sentence with which the snippet begins, and whether marks
// drew it there: the one after which, within snippetBytes, distinct terms weigh
// most; among equals the earliest. Only a sentence that holds a mark, or stands
// below a heading that does, can begin, so that no context piles up before it.
func (c cut) choose(marks []document.Mark, weight []float64) (from int, drawn bool) {
	best, headed := 0.0, 0
	from = c.prose()
	for i := range c.sentences {
		if heading(c.text, c.sentences[i]) {
			continue
		}
		value, first := c.value(i, headed, marks, weight)
		if headed = i + 1; first && value > best {
			best, from, drawn = value, i, true
		}
	}
	return from, drawn
}

// value weighs the distinct terms from sentence i on. Those in the headings
// from sentence headed to i count half. first says whether i may begin.
func (c cut) value(i, headed int, marks []document.Mark, weight []float64) (value float64, first bool) {
	start, end := c.sentences[i][0], c.sentences[i][1] // a long one will be cut around its first mark
	for _, s := range c.sentences[i+1:] {
		if c.ends(s) || s[0] >= start+snippetBytes {
			break
		}
		end = max(end, min(s[1], start+snippetBytes))
	}
	counted := make(map[int]float64)
	for _, m := range marks {
		if m.Term >= len(weight) || weight[m.Term] == 0 || m.End > len(c.text) {
			continue
		}
		part := 0.0
		switch {
		case m.Start >= start && m.Start < end:
			part = 1
		case m.Start >= c.sentences[headed][0] && m.Start < start:
			part = 0.5
		}
		first = first || part == 0.5 || part == 1 && m.Start < c.sentences[i][1]
		if part > counted[m.Term] {
			value += weight[m.Term] * (part - counted[m.Term])
			counted[m.Term] = part
		}
	}
	return value, first
}

// ends reports whether a snippet stops before sentence s: at a heading.
func (c cut) ends(s [2]int) bool {
	return strings.TrimSpace(c.text[s[0]:s[1]]) != "" && heading(c.text, s)
}

// prose is the first sentence of some length that is no heading and stands in
// no table or list; failing that the first short one, the first item of a list,
// the first row of a table.
func (c cut) prose() int {
	short, item, row := -1, -1, -1
	for i, s := range c.sentences {
		if heading(c.text, s) {
			continue
		}
		before := c.text[:s[0]]
		begun := strings.LastIndexByte(before, '\n') + 1 // of the line on which it begins
		line, _, _ := strings.Cut(c.text[begun:], "\n")
		line = strings.TrimSpace(line)
		switch whole := strings.TrimSpace(before[begun:]) == ""; {
		case strings.HasPrefix(line, "|"):
			if row < 0 {
				row = i
			}
		case bullet(line) > 0:
			if item < 0 && whole {
				item = i
			}
		case len(line) >= proseBytes:
			return i
		case short < 0:
			short = i
		}
	}
	for _, i := range []int{short, item, row} {
		if i >= 0 {
			return i
		}
	}
	return 0
}

// begin is where the snippet starts in sentence from: at its first word, or
// nearer to the first mark when that stands more than a line away.
func (c cut) begin(from int, drawn bool) (start int, inside bool) {
	s := c.sentences[from]
	start = s[0] + len(c.text[s[0]:s[1]]) - len(strings.TrimLeftFunc(c.text[s[0]:s[1]], unicode.IsSpace))
	start += bullet(c.text[start:s[1]])
	first := -1
	for _, m := range c.marks {
		if m[1] > start && m[0] < s[1] {
			first = m[0]
			break
		}
	}
	if !drawn || first-start <= contextBytes {
		return start, false
	}
	if line := strings.LastIndexByte(c.text[start:first], '\n') + 1; line > 0 && first-start-line <= contextBytes {
		return start + line, true
	}
	return c.border(start, first-clippedContext, first), true
}

// finish is where it ends: after the last whole sentence that fits, before a
// heading; inside one where it would be too short or too long otherwise.
func (c cut) finish(from, start int) (end int, inside bool) {
	end, limit := start, start+snippetBytes
	for _, s := range c.sentences[from:] {
		switch {
		case end > start && c.ends(s):
			return end, false
		case s[1] <= limit:
			end = s[1]
		case end-start >= snippetShort:
			return end, false
		default:
			return c.border(max(start, s[0]), limit, s[1]), true
		}
	}
	return end, false
}

// border is the beginning of a word at or before at, or else of a character,
// between low and high.
func (c cut) border(low, at, high int) int {
	at = max(low, min(at, high))
	if space := strings.LastIndexFunc(c.text[low:at], unicode.IsSpace); space >= 0 && at-low-space < contextBytes/2 {
		_, size := utf8.DecodeRuneInString(c.text[low+space:])
		return low + space + size
	}
	return graphemeBefore(c.text, low, at)
}
