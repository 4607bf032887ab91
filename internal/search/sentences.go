package search

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"github.com/ondol-app/ondol/internal/document"
)

// sentencesOf returns the stretches of text, in order and without gaps. A line
// that goes on in the next one ends no sentence, but in source code each is one.
func sentencesOf(text string, kind document.Kind) [][2]int {
	var out [][2]int
	state, at := -1, 0
	if kind == document.KindCode {
		for line := range strings.Lines(text) {
			out = append(out, [2]int{at, at + len(line)})
			at += len(line)
		}
		return out
	}
	for rest := unwrap(text); rest != ""; {
		var s string
		s, rest, state = uniseg.FirstSentenceInString(rest, state)
		if closed := strings.TrimLeft(s, "*_"); len(out) > 0 && closed != s && strings.HasPrefix(closed, " ") {
			out[len(out)-1][1] += len(s) // "**Note.** This": the first words say what the rest is about
			at += len(s)
			continue
		}
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
		next, _ := utf8.DecodeRuneInString(strings.TrimLeft(text[i+1:], " \t"))
		if i > start && unicode.IsLetter(next) && !heading(text, [2]int{start, i}) {
			out[i] = ' '
		}
		start = i + 1
	}
	return string(out)
}

// heading reports whether a sentence is a heading or blank line: it says where
// the passage stands, which the result shows anyway.
func heading(text string, s [2]int) bool {
	line := strings.TrimSpace(text[s[0]:s[1]])
	return line == "" || strings.HasPrefix(line, "#") || strings.Trim(line, "-=*_`~|: ") == ""
}

// bullet is the length of the mark of a list item or quotation ("- ", "2. ",
// "> ") that line begins with; 0 for none.
func bullet(line string) int {
	rest := strings.TrimLeft(line, "0123456789")
	digits := len(line) - len(rest)
	mark, after := rest, ""
	if space := strings.IndexByte(rest, ' '); space >= 0 {
		mark, after = rest[:space], strings.TrimLeft(rest[space:], " ")
	}
	switch {
	case after == "":
		return 0
	case digits == 0 && (mark == "-" || mark == "*" || mark == "+" || mark == "•" || mark == ">"),
		digits > 0 && digits < 4 && (mark == "." || mark == ")"):
		return len(line) - len(after)
	}
	return 0
}

// graphemeBefore is the last border between characters of text[low:] at or
// before at.
func graphemeBefore(text string, low, at int) int {
	state, border := -1, low
	for rest := text[low:]; rest != ""; {
		var g string
		g, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if border+len(g) > at {
			break
		}
		border += len(g)
	}
	return border
}
