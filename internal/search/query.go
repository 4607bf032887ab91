package search

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/ondol-app/ondol/internal/document"
)

// query is what a reader typed, understood.
type query struct {
	text     string   // words and phrases in order, as the model sees them
	groups   []group  // what is looked for, in order
	excluded []string // documents holding any of these are left out
	filter   document.Filter
}

// parse reads a query: words, "quoted phrases", -exclusions, and the filters
// kind:, path:, after: and before:. What is no filter after all ("http://x",
// "note:") is a word. base holds the filters given beside the query; both must
// hold.
func parse(text string, base document.Filter) (query, error) {
	q := query{filter: base}
	var spoken []string
	for _, t := range scan(norm.NFC.String(text)) {
		if !t.quoted && !t.negated {
			known, err := q.narrow(t.text)
			if err != nil {
				return q, err
			}
			if known {
				continue
			}
		}
		if !hasWord(t.text) {
			continue
		}
		switch {
		case t.negated:
			q.excluded = append(q.excluded, t.text)
		case t.quoted:
			spoken = append(spoken, t.text)
			q.groups = append(q.groups, group{text: t.text, quoted: true, variants: []variant{{text: t.text, weight: 2, share: 1}}})
		default:
			spoken = append(spoken, t.text)
			q.groups = append(q.groups, groupsOf(t.text)...)
		}
	}
	q.text = strings.Join(spoken, " ")
	demoteStopWords(q.groups)
	return q, nil
}

type spoken struct {
	text            string
	quoted, negated bool
}

// scan splits at white space outside quotation marks. A quotation mark that is
// never closed, or stands inside a word (5", don"t), is a character like others.
func scan(text string) []spoken {
	var out []spoken
	for {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
		if text == "" {
			return out
		}
		var t spoken
		rest, negated := strings.CutPrefix(text, "-")
		if first, _ := utf8.DecodeRuneInString(rest); negated && rest != "" && first != '-' && !unicode.IsSpace(first) {
			t.negated, text = true, rest
		}
		if phrase, after, ok := quotedPrefix(text); ok {
			t.text, t.quoted, text = phrase, true, after
		} else {
			end := strings.IndexFunc(text, unicode.IsSpace)
			if strings.HasPrefix(text, "path:\"") { // a path may hold spaces
				if phrase, after, ok := quotedPrefix(text[len("path:"):]); ok {
					out = append(out, spoken{text: "path:" + phrase})
					text = after
					continue
				}
			}
			if end < 0 {
				end = len(text)
			}
			t.text, text = text[:end], text[end:]
		}
		out = append(out, t)
	}
}

// quotedPrefix reads "…", “…” or „…“ off the front of text.
func quotedPrefix(text string) (phrase, rest string, ok bool) {
	for _, pair := range [][2]string{{`"`, `"`}, {"“", "”"}, {"„", "“"}, {"「", "」"}, {"『", "』"}} {
		if after, found := strings.CutPrefix(text, pair[0]); found {
			if phrase, rest, found = strings.Cut(after, pair[1]); found && hasWord(phrase) {
				return strings.TrimSpace(phrase), rest, true
			}
		}
	}
	return "", "", false
}

func hasWord(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })
}

// narrow takes word as a filter if it is one.
func (q *query) narrow(word string) (bool, error) {
	name, value, ok := strings.Cut(word, ":")
	if !ok || value == "" {
		return false, nil
	}
	switch strings.ToLower(name) {
	case "kind":
		kind := document.Kind(strings.ToLower(value))
		if !knownKind(kind) {
			return false, &InvalidError{Field: "query", Message: "kind:" + value + " is not a kind", Remedy: "use kind:text, kind:markdown or kind:code"}
		}
		if len(q.filter.Kinds) > 0 && !containsKind(q.filter.Kinds, kind) {
			return false, &InvalidError{Field: "query", Message: "kind:" + value + " contradicts the kinds beside the query", Remedy: "use one of the two"}
		}
		q.filter.Kinds = []document.Kind{kind}
	case "path":
		if q.filter.Path != "" && q.filter.Path != value {
			return false, &InvalidError{Field: "query", Message: "path:" + value + " contradicts the path beside the query", Remedy: "use one of the two"}
		}
		q.filter.Path = value
	case "after", "before":
		day, err := parseDay(value)
		if err != nil {
			return false, &InvalidError{Field: "query", Message: word + " is not a date", Remedy: "write " + name + ":2026-01-31"}
		}
		if strings.EqualFold(name, "after") {
			if day.After(q.filter.After) {
				q.filter.After = day
			}
		} else if q.filter.Before.IsZero() || day.Before(q.filter.Before) {
			q.filter.Before = day
		}
	default:
		return false, nil
	}
	return true, nil
}

func containsKind(kinds []document.Kind, k document.Kind) bool {
	for _, have := range kinds {
		if have == k {
			return true
		}
	}
	return false
}

// parseDay reads a day, a month or a year on the reader's calendar.
func parseDay(value string) (time.Time, error) {
	var day time.Time
	var err error
	for _, layout := range []string{time.DateOnly, "2006-01", "2006"} {
		if day, err = time.ParseInLocation(layout, value, time.Local); err == nil {
			return day, nil
		}
	}
	return day, err
}
