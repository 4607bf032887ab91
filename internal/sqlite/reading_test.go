package sqlite_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ondol-app/ondol/internal/chunk"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/sqlite"
)

// stored puts a text into the index as the indexer does.
func stored(t *testing.T, db *sqlite.DB, f document.FolderID, name, text string, kind document.Kind) document.ID {
	t.Helper()
	count := func(texts []string) ([]int, error) {
		n := make([]int, len(texts))
		for i, s := range texts {
			n[i] = len(strings.Fields(s)) + 2
		}
		return n, nil
	}
	chunks, err := chunk.Split(text, kind, "", chunk.Size{Min: 8, Max: 20, MaxBytes: 200}, count)
	check(t, err)
	check(t, db.ApplyScan(t.Context(), f, document.Changes{Found: []document.File{file(name)}}))
	id := must(db.Files(t.Context(), f))(t)[name].ID
	if len(chunks) > 0 {
		must(db.SaveText(t.Context(), id, document.Text{Hash: document.HashText(text), Kind: kind, File: file(name), Chunks: chunks, Fingerprint: fingerprint}))(t)
	}
	return id
}

// sameButBlanks compares a text with what was read of it: the same bytes, but
// that white space other than line ends may have become spaces.
func sameButBlanks(want, got string) bool {
	blank := func(s string) string {
		return strings.Map(func(r rune) rune {
			if strings.ContainsRune("\t\v\f\r", r) {
				return ' '
			}
			return r
		}, s)
	}
	return blank(want) == blank(got)
}

func TestTextIsReadInStretches(t *testing.T) {
	text := "First line.\n\n# Heading\n\nA paragraph of some words that goes on for a while, so that it is more than one passage can hold of it all.\n" +
		"    indented\n\n\n예산안을 심의했다. " + strings.Repeat("시의회는 내년 예산을 본다. ", 30) + "\nlast"
	db := open(t)
	id := stored(t, db, folder(t, db, "/docs"), "a.md", text, document.KindMarkdown)
	lines := strings.SplitAfter(text, "\n")
	read := func(r document.Range) document.Stretch {
		t.Helper()
		s := must(db.Text(t.Context(), id, r))(t)
		if s.Lines != len(lines) || s.Bytes != len(text) {
			t.Errorf("%+v: %d lines and %d bytes in all, want %d and %d", r, s.Lines, s.Bytes, len(lines), len(text))
		}
		return s
	}
	for first := 1; first <= len(lines); first++ {
		for last := first; last <= len(lines); last++ {
			s := read(document.Range{Line: first, LastLine: last, Bytes: 1 << 20})
			if want := strings.Join(lines[first-1:last], ""); !sameButBlanks(want, s.Text) || s.Line != first || s.Offset != len(strings.Join(lines[:first-1], "")) {
				t.Errorf("lines %d to %d: line %d, offset %d, %q, want %q", first, last, s.Line, s.Offset, s.Text, want)
			}
		}
	}
	for _, bytes := range []int{4, 7, 50, 300} {
		var all strings.Builder
		for at := 0; at < len(text); {
			s := read(document.Range{Offset: at, Bytes: bytes})
			if len(s.Text) == 0 || len(s.Text) > bytes || s.Offset != at || !utf8.ValidString(s.Text) {
				t.Fatalf("%d bytes from %d: %+v", bytes, at, s)
			}
			all.WriteString(s.Text)
			if end, line := s.End(); s.More() != (end < len(text)) || line != 1+strings.Count(text[:end], "\n") {
				t.Errorf("%d bytes from %d: ends at %d on line %d, more %v", bytes, at, end, line, s.More())
			}
			at, _ = s.End()
		}
		if !sameButBlanks(text, all.String()) {
			t.Errorf("in steps of %d bytes: %q", bytes, all.String())
		}
	}
	if s := read(document.Range{Line: len(lines) + 1, Bytes: 100}); s.Text != "" || s.Line != 0 {
		t.Errorf("behind the end: %+v", s)
	}
	if s := read(document.Range{Offset: strings.Index(text, "예") + 1, Bytes: 100}); !strings.HasPrefix(s.Text, "산안") {
		t.Errorf("from within a character: %q", s.Text)
	}
}

// Whatever the white space between passages is, offsets and lines stay those of the text.
func TestTextKeepsItsPlaces(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 11))
	parts := []string{"word ", "another word. ", "\n", "\n\n", "   ", "\t", "\n    ", "한글 문장이다. ", "\n# Heading\n", "　"}
	db := open(t)
	f := folder(t, db, "/docs")
	for n := range 200 {
		var b strings.Builder
		for range random.IntN(120) {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		text := b.String()
		name := string(rune('a'+n%26)) + strings.Repeat("x", n/26)
		id := stored(t, db, f, name, text, document.KindMarkdown)
		s := must(db.Text(t.Context(), id, document.Range{Bytes: 1 << 20}))(t)
		if strings.TrimSpace(text) == "" {
			if s.Lines != 0 || s.Text != "" {
				t.Errorf("blank text: %+v", s)
			}
			continue
		}
		if len(s.Text) > len(text) {
			t.Fatalf("%d bytes of a text of %d", len(s.Text), len(text))
		}
		if rest := text[len(s.Text):]; strings.TrimSpace(rest) != "" {
			t.Errorf("%q is missing", rest)
		}
		if !strings.EqualFold(strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(s.Text), " ")) {
			t.Errorf("words of\n%q became\n%q", text, s.Text)
		}
		if at := strings.LastIndex(text, "word."); at >= 0 {
			if s.Text[at:at+5] != "word." || strings.Count(text[:at], "\n") != strings.Count(s.Text[:at], "\n") {
				t.Errorf("offset %d of\n%q became\n%q", at, text, s.Text)
			}
		}
	}
	if _, err := db.Text(t.Context(), 9999, document.Range{Bytes: 1}); !errors.Is(err, document.ErrNotFound) {
		t.Errorf("of no document: %v", err)
	}
}

func TestDocumentsAreChosenByPathAndKind(t *testing.T) {
	db := open(t)
	f, g := folder(t, db, "/docs"), folder(t, db, "/other")
	stored(t, db, f, "a.md", "one", document.KindMarkdown)
	stored(t, db, f, "sub/b.txt", "two", document.KindText)
	stored(t, db, f, "sub/n[1].txt", "three", document.KindText)
	stored(t, db, g, "a.md", "four", document.KindMarkdown)
	for _, tt := range []struct {
		query document.DocumentQuery
		want  string
	}{
		{document.DocumentQuery{}, "a.md sub/b.txt sub/n[1].txt a.md"},
		{document.DocumentQuery{Folder: g}, "a.md"},
		{document.DocumentQuery{Path: "sub"}, "sub/b.txt sub/n[1].txt"},
		{document.DocumentQuery{Path: "/docs/sub/b.txt"}, "sub/b.txt"},
		{document.DocumentQuery{Path: "/docs"}, "a.md sub/b.txt sub/n[1].txt"},
		{document.DocumentQuery{Path: "*.md"}, "a.md a.md"},
		{document.DocumentQuery{Path: "sub/n[1].txt"}, ""}, // a pattern
		{document.DocumentQuery{File: "sub/n[1].txt"}, "sub/n[1].txt"},
		{document.DocumentQuery{File: "/docs/sub/n[1].txt"}, "sub/n[1].txt"},
		{document.DocumentQuery{File: "sub"}, ""},
		{document.DocumentQuery{File: "a.md", Folder: g}, "a.md"},
		{document.DocumentQuery{Kinds: []document.Kind{document.KindText}, State: document.Embedding}, "sub/b.txt sub/n[1].txt"},
		{document.DocumentQuery{Kinds: []document.Kind{document.KindCode}}, ""},
	} {
		tt.query.Limit = 10
		var got []string
		for _, d := range must(db.Documents(t.Context(), tt.query))(t) {
			got = append(got, d.Path)
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%+v: %q, want %q", tt.query, s, tt.want)
		}
	}
}
