package ignore

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// pattern is one line of a rule file.
type pattern struct {
	segments []string // of the path; one segment when it is not anchored
	negated  bool     // "!": takes back
	dirOnly  bool     // trailing slash
	anchored bool     // has a slash at the start or inside
}

// anyDirs as a segment stands for any number of directories, none included.
const anyDirs = "**"

// parse reads a rule file. Lines that can match nothing are dropped.
func parse(content string) []pattern {
	var patterns []pattern
	content = strings.TrimPrefix(content, "\uFEFF")
	for line := range strings.Lines(content) {
		if p, ok := parseLine(strings.TrimRight(line, "\r\n")); ok {
			patterns = append(patterns, p)
		}
	}
	return patterns
}

func parseLine(line string) (p pattern, ok bool) {
	if strings.HasPrefix(line, "#") || !utf8.ValidString(line) {
		return p, false
	}
	line = norm.NFC.String(trimSpaces(line))
	line, p.negated = strings.CutPrefix(line, "!")
	line, p.dirOnly = strings.CutSuffix(line, "/")
	p.anchored = strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return p, false
	}
	if !p.anchored {
		p.segments = []string{line}
		return p, true
	}
	for _, s := range strings.Split(line, "/") {
		if s == anyDirs && len(p.segments) > 0 && p.segments[len(p.segments)-1] == anyDirs {
			continue
		}
		p.segments = append(p.segments, s)
	}
	// "a/**" is everything inside a, not a itself: at least one name must follow.
	if p.segments[len(p.segments)-1] == anyDirs {
		p.segments = append(p.segments, "*")
	}
	return p, true
}

// trimSpaces drops trailing spaces but for one that is escaped.
func trimSpaces(line string) string {
	end := len(line)
	for end > 0 && line[end-1] == ' ' {
		slashes := 0
		for i := end - 2; i >= 0 && line[i] == '\\'; i-- {
			slashes++
		}
		if slashes%2 == 1 {
			break
		}
		end--
	}
	return line[:end]
}

func (p pattern) match(rel, base string, isDir bool) bool {
	if p.dirOnly && !isDir {
		return false
	}
	if !p.anchored {
		return matchName(p.segments[0], base)
	}
	return matchPath(p.segments, strings.Split(rel, "/"))
}

// matchPath compares segment by segment. Going back to the last "**" only is
// enough: an earlier one could not match less than it already did.
func matchPath(pattern, names []string) bool {
	p, n, starP, starN := 0, 0, -1, 0
	for n < len(names) {
		switch {
		case p < len(pattern) && pattern[p] == anyDirs:
			starP, starN = p, n
			p++
		case p < len(pattern) && matchName(pattern[p], names[n]):
			p++
			n++
		case starP >= 0:
			starN++
			p, n = starP+1, starN
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == anyDirs {
		p++
	}
	return p == len(pattern)
}

// matchName matches one name with * ? [set] and \escapes, in the same way.
func matchName(glob, name string) bool {
	g, n, starG, starN := 0, 0, -1, 0
	for n < len(name) {
		if g < len(glob) && glob[g] == '*' {
			starG, starN = g, n
			g++
			continue
		}
		r, size := utf8.DecodeRuneInString(name[n:])
		if next, ok := matchOne(glob, g, r); ok {
			g = next
			n += size
			continue
		}
		if starG < 0 {
			return false
		}
		_, size = utf8.DecodeRuneInString(name[starN:])
		starN += size
		g, n = starG+1, starN
	}
	for g < len(glob) && glob[g] == '*' {
		g++
	}
	return g == len(glob)
}

// matchOne matches r with the item of glob at g and returns the place after it.
func matchOne(glob string, g int, r rune) (next int, ok bool) {
	if g >= len(glob) {
		return 0, false
	}
	switch glob[g] {
	case '?':
		return g + 1, true
	case '[':
		return matchSet(glob, g+1, r)
	case '\\':
		g++ // a trailing backslash escapes nothing and matches nothing
		if g >= len(glob) {
			return 0, false
		}
	}
	want, size := utf8.DecodeRuneInString(glob[g:])
	return g + size, want == r
}

// matchSet matches r with the set whose "[" is just before g. A set that is
// never closed matches nothing. (Git lets a set run on over a slash to a "]"
// in a later part of the path; here a slash ends every part.)
func matchSet(glob string, g int, r rune) (next int, ok bool) {
	negated := false
	if g < len(glob) && (glob[g] == '!' || glob[g] == '^') {
		negated = true
		g++
	}
	in := false
	for first := true; ; first = false {
		if g >= len(glob) {
			return 0, false
		}
		if glob[g] == ']' && !first {
			return g + 1, in != negated
		}
		if strings.HasPrefix(glob[g:], "[:") {
			if name, _, closed := strings.Cut(glob[g+2:], ":]"); closed {
				test, known := classes[name]
				if !known {
					return 0, false
				}
				in = in || test(r)
				g += len(name) + 4
				continue
			}
		}
		low, after, valid := setRune(glob, g)
		if !valid {
			return 0, false
		}
		high := low
		if g = after; g+1 < len(glob) && glob[g] == '-' && glob[g+1] != ']' {
			if high, g, valid = setRune(glob, g+1); !valid {
				return 0, false
			}
		}
		in = in || (low <= r && r <= high)
	}
}

func setRune(glob string, g int) (r rune, next int, ok bool) {
	if glob[g] == '\\' {
		g++
	}
	if g >= len(glob) {
		return 0, 0, false
	}
	r, size := utf8.DecodeRuneInString(glob[g:])
	return r, g + size, true
}

var classes = map[string]func(rune) bool{
	"alnum":  func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) },
	"alpha":  unicode.IsLetter,
	"blank":  func(r rune) bool { return r == ' ' || r == '\t' },
	"cntrl":  unicode.IsControl,
	"digit":  func(r rune) bool { return r >= '0' && r <= '9' },
	"graph":  func(r rune) bool { return r != ' ' && unicode.IsPrint(r) },
	"lower":  unicode.IsLower,
	"print":  unicode.IsPrint,
	"punct":  func(r rune) bool { return unicode.IsPunct(r) || unicode.IsSymbol(r) },
	"space":  unicode.IsSpace,
	"upper":  unicode.IsUpper,
	"xdigit": func(r rune) bool { return unicode.Is(unicode.ASCII_Hex_Digit, r) },
}
