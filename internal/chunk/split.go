package chunk

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ondol-app/ondol/internal/document"
)

// Size says how long passages should be.
type Size struct {
	Min      int // tokens from which a passage may end at the next heading or declaration
	Max      int // tokens no passage exceeds, heading path and special tokens included
	MaxBytes int // bytes of text no passage exceeds; a tokenizer that does not know a language counts whole sentences as one token
}

// DefaultSize follows the practice of 400 to 600 tokens; 4000 bytes are a
// page of English or some 1300 Korean syllables.
func DefaultSize() Size { return Size{Min: 400, Max: 600, MaxBytes: 4000} }

// withDefaults fills what is left at zero and puts Min below Max.
func (s Size) withDefaults() Size {
	d := DefaultSize()
	if s.Max <= 0 {
		s.Max = d.Max
	}
	if s.Min <= 0 {
		s.Min = s.Max * d.Min / d.Max
	}
	s.Min = min(s.Min, s.Max)
	if s.MaxBytes <= 0 {
		s.MaxBytes = d.MaxBytes
	}
	return s
}

// headingBytes is the room that the heading path may take.
func (s Size) headingBytes() int { return min(240, s.Max*2/5) }

// Count returns the number of tokens of each text as the engine would embed
// it, special tokens included.
type Count func(texts []string) ([]int, error)

// Split cuts text, which is valid UTF-8 with \n line ends, into passages.
// kind and language say how to read it. The only errors are those of count.
// A text of nothing but white space has no passages.
func Split(text string, kind document.Kind, language string, size Size, count Count) ([]document.Chunk, error) {
	size = size.withDefaults()
	s := splitter{text: text, size: size, count: count, lines: lineStarts(text)}
	blocks := s.blocks(kind, language)
	whole := s.piece(blocks)
	if whole.empty() {
		return nil, nil
	}
	if whole.end-whole.start <= size.MaxBytes {
		tokens, err := s.tokens([]piece{whole})
		if err != nil {
			return nil, err
		}
		if tokens[0] <= size.Max {
			return []document.Chunk{s.chunk(0, whole, tokens[0])}, nil
		}
	}
	atoms, err := s.atoms(blocks)
	if err != nil {
		return nil, err
	}
	return s.settle(s.pack(atoms))
}

type splitter struct {
	text  string
	size  Size
	count Count
	lines []int
}

// block is a stretch of the text that belongs together. Blocks are contiguous
// and cover the text, trailing white space included.
type block struct {
	start, end int
	path       []string // of headings around it, its own included
	heading    bool     // it is a heading line and must not end a passage
	fresh      bool     // a passage likes to start here: heading, declaration
	code       bool     // cut at lines, not at sentences
	tokens     int      // without special tokens; an estimate for pieces of a long block
}

// piece is a passage on its way.
type piece struct {
	start, end int
	path       []string
	code       bool
}

func (p piece) empty() bool { return p.start >= p.end }

func (s *splitter) blocks(kind document.Kind, language string) []block {
	switch {
	case kind == document.KindMarkdown:
		return markdownBlocks(s.text)
	case kind == document.KindCode && language == "go":
		return goBlocks(s.text)
	case kind == document.KindCode:
		return codeBlocks(s.text)
	}
	return paragraphs(s.text, 0, len(s.text), block{})
}

// atoms counts all blocks in one call and cuts those that do not fit.
func (s *splitter) atoms(blocks []block) ([]block, error) {
	// The engine is never asked about more than MaxBytes at once.
	var parts []block
	for _, b := range blocks {
		parts = append(parts, s.cut(b, s.size.MaxBytes)...)
	}
	texts := make([]string, 0, len(parts)+1)
	texts = append(texts, ".") // one token in every vocabulary: what is above one are special tokens
	for _, p := range parts {
		texts = append(texts, s.text[p.start:p.end])
	}
	counts, err := s.countAll(texts)
	if err != nil {
		return nil, err
	}
	special := max(0, counts[0]-1)
	var atoms []block
	for i, p := range parts {
		p.tokens = max(0, counts[i+1]-special)
		if p.tokens <= s.size.Max*3/4 && p.end-p.start <= s.size.MaxBytes*3/4 {
			atoms = append(atoms, p)
			continue
		}
		// Cut finely, so that passages fill up evenly; tokens by length, settled later.
		limit := max(1, (p.end-p.start)*s.size.Max/8/max(1, p.tokens))
		for _, fine := range s.cut(p, min(limit, s.size.MaxBytes/8+1)) {
			fine.tokens = (p.tokens*(fine.end-fine.start) + p.end - p.start - 1) / (p.end - p.start)
			atoms = append(atoms, fine)
		}
	}
	return atoms, nil
}

// pack fills passages from left to right.
func (s *splitter) pack(atoms []block) []piece {
	var pieces []piece
	var current []block
	tokens, bytes := 0, 0
	flush := func() {
		// A heading goes with what follows it.
		keep := len(current)
		for keep > 0 && current[keep-1].heading {
			keep--
		}
		if keep == 0 {
			keep = len(current)
		}
		pieces = append(pieces, s.piece(current[:keep]))
		current = slices.Clone(current[keep:])
		tokens, bytes = 0, 0
		for _, b := range current {
			tokens, bytes = tokens+b.tokens, bytes+b.end-b.start
		}
	}
	for _, a := range atoms {
		room := s.size.Max - len(s.heading(a.path))/3 - 4
		full := tokens+a.tokens > room || bytes+a.end-a.start > s.size.MaxBytes
		if len(current) > 0 && (full || a.fresh && tokens >= s.size.Min) {
			flush()
		}
		current = append(current, a)
		tokens, bytes = tokens+a.tokens, bytes+a.end-a.start
	}
	for len(current) > 0 {
		flush()
	}
	return slices.DeleteFunc(pieces, piece.empty)
}

// settle counts the passages as they will be embedded and halves those that
// are still too long until none is.
func (s *splitter) settle(pieces []piece) ([]document.Chunk, error) {
	counts, err := s.tokens(pieces)
	if err != nil {
		return nil, err
	}
	for {
		var next, doubtful []piece
		var kept []int // counts of next; -1 where doubtful
		for i, p := range pieces {
			halves := []piece{p}
			if counts[i] > s.size.Max || p.end-p.start > s.size.MaxBytes {
				halves = s.halve(p)
			}
			if len(halves) == 1 && halves[0].start == p.start && slices.Equal(halves[0].path, p.path) {
				next, kept = append(next, p), append(kept, counts[i])
				continue
			}
			for _, h := range halves {
				next, kept, doubtful = append(next, h), append(kept, -1), append(doubtful, h)
			}
		}
		if len(doubtful) == 0 {
			break
		}
		fresh, err := s.tokens(doubtful)
		if err != nil {
			return nil, err
		}
		for i := range kept {
			if kept[i] < 0 {
				kept[i], fresh = fresh[0], fresh[1:]
			}
		}
		pieces, counts = next, kept
	}
	chunks := make([]document.Chunk, len(pieces))
	for i, p := range pieces {
		chunks[i] = s.chunk(i, p, counts[i])
	}
	return chunks, nil
}

// halve cuts p near its middle. One grapheme cluster cannot be cut; it gives
// up its heading path, and after that it stays as it is.
func (s *splitter) halve(p piece) []piece {
	parts := s.cut(block{start: p.start, end: p.end, code: p.code}, (p.end-p.start+1)/2)
	if len(parts) < 2 {
		return []piece{{start: p.start, end: p.end, code: p.code}}
	}
	middle := (p.start + p.end) / 2
	at := 1
	for at < len(parts)-1 && parts[at].start < middle {
		at++
	}
	// Of the two cuts around the middle, take the nearer one.
	if at > 1 && middle-parts[at-1].start < parts[at].start-middle {
		at--
	}
	var out []piece
	for _, h := range [][]block{parts[:at], parts[at:]} {
		q := s.piece(h)
		q.path, q.code = p.path, p.code
		if !q.empty() {
			out = append(out, q)
		}
	}
	return out
}

// tokens counts pieces as they are embedded.
func (s *splitter) tokens(pieces []piece) ([]int, error) {
	texts := make([]string, len(pieces))
	for i, p := range pieces {
		texts[i] = s.chunk(i, p, 0).EmbedText()
	}
	return s.countAll(texts)
}

func (s *splitter) countAll(texts []string) ([]int, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	counts, err := s.count(texts)
	if err != nil {
		return nil, fmt.Errorf("count tokens: %w", err)
	}
	if len(counts) != len(texts) {
		return nil, fmt.Errorf("count tokens: %d counts for %d texts", len(counts), len(texts))
	}
	return counts, nil
}

// piece joins contiguous blocks under the headings they share and trims the
// blank lines around them. Indentation of the first line stays.
func (s *splitter) piece(blocks []block) piece {
	if len(blocks) == 0 {
		return piece{}
	}
	p := piece{start: blocks[0].start, end: blocks[len(blocks)-1].end, path: blocks[0].path, code: blocks[0].code}
	for _, b := range blocks[1:] {
		n := 0
		for n < len(p.path) && n < len(b.path) && p.path[n] == b.path[n] {
			n++
		}
		p.path = p.path[:n]
		p.code = p.code && b.code
	}
	p.start, p.end = trim(s.text, p.start, p.end)
	return p
}

func (s *splitter) chunk(ordinal int, p piece, tokens int) document.Chunk {
	return document.Chunk{
		Ordinal: ordinal, Start: p.start, End: p.end, Line: s.line(p.start), LastLine: s.line(max(p.start, p.end-1)),
		Heading: s.heading(p.path), Text: s.text[p.start:p.end], Tokens: tokens,
	}
}

// heading joins the deepest headings of a path that have room.
func (s *splitter) heading(path []string) string {
	room := s.size.headingBytes()
	from, used := len(path), 0
	for from > 0 && used+len(path[from-1])+len(separator) <= room {
		from--
		used += len(path[from]) + len(separator)
	}
	return strings.Join(path[from:], separator)
}

const separator = " › "
