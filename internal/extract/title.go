package extract

import (
	"regexp"
	"strings"

	"github.com/ondol-app/ondol/internal/document"
)

const maxTitle = 200 // bytes; a longer first line is a paragraph, not a title

var (
	frontTitle = regexp.MustCompile(`(?m)^title\s*[:=]\s*(.+?)\s*$`)
	atxHeading = regexp.MustCompile(`^ {0,3}#{1,6}[ \t]+(.+?)(?:[ \t]+#+)?[ \t]*$`)
	setextLine = regexp.MustCompile(`^ {0,3}(=+|-+)[ \t]*$`)
	linkMarkup = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
)

// titleOf is what the content calls itself: the title of its front matter or
// its first heading. A title taken from the file name is not made here: it
// would have to change with every rename, so it is made where it is shown.
func titleOf(content string, kind document.Kind) string {
	if kind != document.KindMarkdown {
		return ""
	}
	front, body := splitFrontMatter(content)
	if m := frontTitle.FindStringSubmatch(front); m != nil {
		if t := clean(strings.Trim(m[1], `"'`)); t != "" {
			return t
		}
	}
	return firstHeading(body)
}

// splitFrontMatter cuts a YAML (---) or TOML (+++) block off the top.
func splitFrontMatter(content string) (front, body string) {
	for _, fence := range []string{"---", "+++"} {
		rest, ok := strings.CutPrefix(content, fence+"\n")
		if !ok {
			continue
		}
		if end := strings.Index("\n"+rest, "\n"+fence+"\n"); end >= 0 {
			return rest[:end], rest[min(len(rest), end+len(fence)+1):]
		}
		if front, ok := strings.CutSuffix(rest, "\n"+fence); ok {
			return front, ""
		}
	}
	return "", content
}

// firstHeading looks for # and underlined headings outside code fences.
func firstHeading(body string) string {
	fence, previous := "", ""
	for line := range strings.Lines(body) {
		line = strings.TrimRight(line, "\n")
		trimmed := strings.TrimLeft(line, " ")
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) && strings.Trim(trimmed, fence[:1]+" ") == "" {
				fence = ""
			}
			continue
		case strings.HasPrefix(trimmed, "```"), strings.HasPrefix(trimmed, "~~~"):
			fence, previous = trimmed[:3], ""
			continue
		}
		if m := atxHeading.FindStringSubmatch(line); m != nil {
			if t := clean(m[1]); t != "" {
				return t
			}
		}
		if setextLine.MatchString(line) && previous != "" && !strings.HasPrefix(previous, "- ") {
			if t := clean(previous); t != "" {
				return t
			}
		}
		previous = strings.TrimSpace(line)
	}
	return ""
}

// clean drops inline markup and gives up on what is too long for a title.
func clean(title string) string {
	title = linkMarkup.ReplaceAllString(title, "$1")
	title = strings.NewReplacer("**", "", "__", "", "`", "").Replace(title)
	title = strings.Join(strings.Fields(title), " ")
	if len(title) > maxTitle {
		return ""
	}
	return title
}
