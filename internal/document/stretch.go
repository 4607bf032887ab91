package document

import (
	"strings"
	"unicode/utf8"
)

// Range asks for a stretch of a document's text.
type Range struct {
	Line     int // 1-based, where it begins; 0 means at Offset
	LastLine int // 1-based, the last one wanted; 0 means no bound
	Offset   int // bytes before it; only where Line is 0
	Bytes    int // at most so many; > 0
}

// Stretch is a piece of a document's text. Where the text is blank between two
// passages, the kind of white space is not known: it is line ends, as many as
// there were, and spaces.
type Stretch struct {
	Text   string `json:"text"`
	Line   int    `json:"line"`   // 1-based line of its first byte
	Offset int    `json:"offset"` // bytes of the whole text before it
	Lines  int    `json:"lines"`  // of the whole text; 0 where there is none
	Bytes  int    `json:"bytes"`  // likewise
}

// End is the byte offset behind the stretch and the line on which it lies.
func (s Stretch) End() (offset, line int) {
	return s.Offset + len(s.Text), s.Line + strings.Count(s.Text, "\n")
}

// More reports whether text follows.
func (s Stretch) More() bool { return s.Offset+len(s.Text) < s.Bytes }

// Cut shortens the stretch to at most max bytes: at the end of a line, or where
// the first line alone is longer, between two characters.
func (s Stretch) Cut(max int) Stretch {
	if len(s.Text) <= max {
		return s
	}
	end := strings.LastIndexByte(s.Text[:max], '\n') + 1
	if end == 0 {
		for end = max; end > 0 && !utf8.RuneStart(s.Text[end]); end-- {
		}
	}
	s.Text = s.Text[:end]
	return s
}

// Through shortens the stretch so that last is its last line.
func (s Stretch) Through(last int) Stretch {
	end := 0
	for line := s.Line; line <= last; line++ {
		next := strings.IndexByte(s.Text[end:], '\n')
		if next < 0 {
			return s
		}
		end += next + 1
	}
	s.Text = s.Text[:end]
	return s
}
