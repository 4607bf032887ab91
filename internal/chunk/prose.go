package chunk

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	gmtext "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// paragraphs cuts text[start:end] at blank lines; like gives the blocks their
// path and kind.
func paragraphs(text string, start, end int, like block) []block {
	var blocks []block
	for start < end {
		b := like
		b.start = start
		start += firstParagraph(text[start:end])
		b.end = start
		blocks = append(blocks, b)
	}
	return blocks
}

// maxMarkers is how deep quotes and lists may nest in one line; beyond it the
// text is no Markdown that a person wrote and is read as plain paragraphs.
const maxMarkers = 64

// markdownBlocks cuts at the top-level blocks of CommonMark and the items of
// top-level lists, and follows the headings.
func markdownBlocks(text string) []block {
	front := frontMatter(text)
	var blocks []block
	if front > 0 {
		blocks = append(blocks, block{start: 0, end: front, code: true})
	}
	body := text[front:]
	if tooDeep(body) {
		return append(blocks, paragraphs(text, front, len(text), block{})...)
	}
	source := []byte(body)
	p := parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...),
		parser.WithParagraphTransformers(util.Prioritized(parser.LinkReferenceParagraphTransformer, 100)))
	w := markdownWalk{text: text, base: front, blocks: blocks}
	for n := p.Parse(gmtext.NewReader(source)).FirstChild(); n != nil; n = n.NextSibling() {
		if list, ok := n.(*ast.List); ok {
			for item := list.FirstChild(); item != nil; item = item.NextSibling() {
				w.add(item, source)
			}
			continue
		}
		w.add(n, source)
	}
	return w.finish()
}

type markdownWalk struct {
	text   string
	base   int // offset of the parsed part in text
	blocks []block
	path   []string
	levels []int // of path
}

// add starts a block at the line where n begins.
func (w *markdownWalk) add(n ast.Node, source []byte) {
	pos := position(n)
	if pos < 0 {
		return // of no place of its own: it stays with the block before
	}
	start := w.base + strings.LastIndexByte(w.text[w.base:w.base+pos], '\n') + 1
	b := block{start: start}
	switch n := n.(type) {
	case *ast.Heading:
		title := headingText(n, source)
		for len(w.levels) > 0 && w.levels[len(w.levels)-1] >= n.Level {
			w.levels, w.path = w.levels[:len(w.levels)-1], w.path[:len(w.path)-1]
		}
		if title != "" {
			// A fresh slice: earlier blocks hold the old one.
			w.path = append(append([]string(nil), w.path...), title)
			w.levels = append(append([]int(nil), w.levels...), n.Level)
		}
		b.heading, b.fresh = true, true
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		b.code = true
	}
	b.path = w.path
	if len(w.blocks) > 0 && w.blocks[len(w.blocks)-1].start >= start {
		return // two nodes on one line
	}
	w.blocks = append(w.blocks, b)
}

// finish makes the blocks contiguous.
func (w *markdownWalk) finish() []block {
	if len(w.blocks) == 0 {
		return paragraphs(w.text, 0, len(w.text), block{})
	}
	w.blocks[0].start = 0
	for i := range w.blocks {
		w.blocks[i].end = len(w.text)
		if i+1 < len(w.blocks) {
			w.blocks[i].end = w.blocks[i+1].start
		}
	}
	return w.blocks
}

// position is where a node begins, or its first descendant that knows.
func position(n ast.Node) int {
	for ; n != nil; n = n.FirstChild() {
		if p := n.Pos(); p >= 0 {
			return p
		}
		if n.Type() == ast.TypeBlock && n.Lines() != nil && n.Lines().Len() > 0 {
			return n.Lines().At(0).Start
		}
	}
	return -1
}

var inlineMarkup = regexp.MustCompile("!?\\[([^\\]]*)\\]\\([^)]*\\)|[*`]+")

const maxHeading = 80 // bytes of one heading in a path

func headingText(h *ast.Heading, source []byte) string {
	var b strings.Builder
	for i := range h.Lines().Len() {
		line := h.Lines().At(i)
		b.Write(line.Value(source))
		b.WriteByte(' ')
	}
	return shorten(strings.Join(strings.Fields(inlineMarkup.ReplaceAllString(b.String(), "$1")), " "))
}

func shorten(title string) string {
	if len(title) <= maxHeading {
		return title
	}
	cut := maxHeading
	for !utf8.RuneStart(title[cut]) {
		cut--
	}
	return strings.TrimSpace(title[:cut]) + "…"
}

// frontMatter is the length of a YAML or TOML block at the top, 0 for none.
func frontMatter(text string) int {
	for _, fence := range []string{"---\n", "+++\n"} {
		if !strings.HasPrefix(text, fence) {
			continue
		}
		for at := len(fence); at < len(text); {
			n := firstLine(text[at:])
			if strings.TrimRight(text[at:at+n], "\n") == fence[:3] {
				return at + n
			}
			at += n
		}
	}
	return 0
}

// tooDeep reports whether a line opens more quotes and lists than anyone writes.
func tooDeep(text string) bool {
	for line := range strings.Lines(text) {
		quotes, items := 0, 0
		for i := 0; i < len(line); i++ {
			switch c := line[i]; {
			case c == '>':
				quotes++
			case (c == '-' || c == '*' || c == '+' || c == '.' || c == ')') && i+1 < len(line) && line[i+1] == ' ':
				items++
			case c == ' ' || c == '\t' || c >= '0' && c <= '9':
			default:
				i = len(line)
			}
		}
		if quotes+items > maxMarkers {
			return true
		}
	}
	return false
}
