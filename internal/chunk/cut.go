package chunk

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// cut divides b into blocks of at most limit bytes at the coarsest boundaries
// that do it. Only a single grapheme cluster may be longer.
func (s *splitter) cut(b block, limit int) []block {
	if b.end-b.start <= limit {
		return []block{b}
	}
	units := []func(string) int{firstParagraph, firstSentence, firstWord, firstGrapheme}
	if b.code {
		units = []func(string) int{firstParagraph, firstLine, firstWord, firstGrapheme}
	}
	var parts []block
	at := b.start
	for _, length := range lengths(s.text[b.start:b.end], limit, units) {
		part := b
		part.start, part.end = at, at+length
		if at > b.start {
			part.heading, part.fresh = false, false
		}
		parts = append(parts, part)
		at += length
	}
	return parts
}

// lengths cuts text into its units, cuts units that are too long by the next
// finer kind, and joins neighbours while they fit.
func lengths(text string, limit int, units []func(string) int) []int {
	if len(text) <= limit || len(units) == 0 {
		return []int{len(text)}
	}
	var out []int
	joined := 0 // length of a run of units that still fits together
	flush := func() {
		if joined > 0 {
			out = append(out, joined)
		}
		joined = 0
	}
	for len(text) > 0 {
		n := units[0](text)
		if n > limit {
			flush()
			out = append(out, lengths(text[:n], limit, units[1:])...)
		} else {
			if joined+n > limit {
				flush()
			}
			joined += n
		}
		text = text[n:]
	}
	flush()
	return out
}

// firstParagraph returns the length up to and with the first blank line.
func firstParagraph(text string) int {
	at := firstLine(text)
	blank := strings.TrimSpace(text[:at]) == ""
	for at < len(text) {
		n := firstLine(text[at:])
		nextBlank := strings.TrimSpace(text[at:at+n]) == ""
		if blank && !nextBlank {
			return at
		}
		blank = nextBlank
		at += n
	}
	return at
}

func firstLine(text string) int {
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		return i + 1
	}
	return len(text)
}

func firstSentence(text string) int {
	s, _, _ := uniseg.FirstSentenceInString(text, -1)
	return len(s)
}

// firstWord returns a word with the white space behind it.
func firstWord(text string) int {
	w, rest, state := uniseg.FirstWordInString(text, -1)
	n := len(w)
	for rest != "" {
		if r, _ := utf8.DecodeRuneInString(rest); !unicode.IsSpace(r) {
			break
		}
		w, rest, state = uniseg.FirstWordInString(rest, state)
		n += len(w)
	}
	return n
}

func firstGrapheme(text string) int {
	g, _, _, _ := uniseg.FirstGraphemeClusterInString(text, -1)
	return len(g)
}

// trim drops white space at the end and blank lines at the start of
// text[start:end]; the indentation of the first line stays.
func trim(text string, start, end int) (int, int) {
	end = start + len(strings.TrimRightFunc(text[start:end], unicode.IsSpace))
	first := end - len(strings.TrimLeftFunc(text[start:end], unicode.IsSpace))
	if first >= end {
		return end, end
	}
	if i := strings.LastIndexByte(text[start:first], '\n'); i >= 0 {
		return start + i + 1, end
	}
	return start, end
}

// lineStarts returns the offsets at which lines begin.
func lineStarts(text string) []int {
	starts := []int{0}
	for i := 0; i < len(text); i++ {
		if text[i] == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// line is the 1-based line of an offset.
func (s *splitter) line(offset int) int {
	i, found := slices.BinarySearch(s.lines, offset)
	if found {
		return i + 1
	}
	return i
}
