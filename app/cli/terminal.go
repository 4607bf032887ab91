package cli

import (
	"io"
	"os"
	"strings"
	"unicode"

	"github.com/rivo/uniseg"
	"golang.org/x/term"

	"github.com/ondol-app/ondol/assets"
)

// terminal is where people read: words, colours where they can be shown, and
// columns that stay straight in Korean.
type terminal struct {
	out, err    io.Writer
	words       assets.Words
	interactive bool // out is a terminal: colours, repainting
	colour      bool
	repaints    bool // err is a terminal: a line of progress can be written over
	columns     int  // of the terminal; 0 = unknown, nothing is cut
}

func newTerminal(out, errOut io.Writer, words assets.Words, getenv func(string) string) *terminal {
	t := &terminal{out: out, err: errOut, words: words}
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		t.interactive = true
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil {
			t.columns = columns
		}
	}
	if file, ok := errOut.(*os.File); ok {
		t.repaints = term.IsTerminal(int(file.Fd()))
	}
	t.colour = t.interactive && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
	return t
}

// style is an SGR sequence's parameter.
type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	marked style = "1;36"
)

// paint is text in a style, where the terminal shows styles.
func (t *terminal) paint(s style, text string) string {
	if !t.colour || s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// line writes one line.
func (t *terminal) line(parts ...string) {
	io.WriteString(t.out, strings.Join(parts, "")+"\n")
}

// note writes one line that is not the answer.
func (t *terminal) note(text string) { io.WriteString(t.err, text+"\n") }

// say writes the sentence named key as one line.
func (t *terminal) say(key string, pairs ...any) { t.line(t.words.Say(key, pairs...)) }

// cell is one field of a table.
type cell struct {
	text  string
	style style
	right bool // numbers
}

// widest is how far a column is padded, in columns of the terminal. A longer
// field pushes the rest of its own row aside, not that of every row.
const widest = 60

// table writes rows in straight columns, two blanks apart. Fields are clean
// text; the last column is not padded.
func (t *terminal) table(rows [][]cell) {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = min(max(widths[i], uniseg.StringWidth(clean(c.text))), widest)
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, c := range row {
			text := clean(c.text)
			gap := strings.Repeat(" ", max(widths[i]-uniseg.StringWidth(text), 0))
			switch {
			case c.right:
				b.WriteString(gap + t.paint(c.style, text))
			case i == len(row)-1:
				b.WriteString(t.paint(c.style, text))
			default:
				b.WriteString(t.paint(c.style, text) + gap)
			}
			if i < len(row)-1 {
				b.WriteString("  ")
			}
		}
		t.line(strings.TrimRight(b.String(), " "))
	}
}

// clean makes text from a file or a file's name safe to show: one line, and
// nothing a terminal would take for a command.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case unicode.IsControl(r), r == '\u202a', r == '\u202b', r == '\u202d', r == '\u202e', r == '\u2066', r == '\u2067', r == '\u2068':
			return '\uFFFD'
		}
		return r
	}, s)
}

// fit cuts text to a number of columns, between what a person sees as
// characters, and shows that it did.
func fit(s string, columns int) string {
	if columns <= 0 || uniseg.StringWidth(s) <= columns {
		return s
	}
	var b strings.Builder
	used, state, rest := 0, -1, s
	for rest != "" {
		var cluster string
		var width int
		cluster, rest, width, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if used+width > columns-1 {
			break
		}
		b.WriteString(cluster)
		used += width
	}
	return b.String() + "…"
}
