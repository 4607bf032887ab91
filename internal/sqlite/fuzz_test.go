package sqlite_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/sqlite"
)

// reference cuts text as tokenizer.c says it does, for texts of ASCII, Hangul
// syllables, Han and kana. Stemming is left to the caller, who uses words that
// porter leaves alone (of digits and consonants, or short).
func reference(text string, query bool) []sqlite.Token {
	var all []sqlite.Token
	position := -1
	emit := func(start, end int) {
		position++
		all = append(all, sqlite.Token{Text: strings.ToLower(text[start:end]), Position: position, Start: start, End: end})
	}
	beside := func(start, end int) {
		all = append(all, sqlite.Token{Text: strings.ToLower(text[start:end]), Position: position, Start: start, End: end})
	}
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c >= utf8.RuneSelf:
			var at []int
			for i < len(text) && text[i] >= utf8.RuneSelf {
				_, n := utf8.DecodeRuneInString(text[i:])
				at = append(at, i)
				i += n
			}
			at = append(at, i)
			n := len(at) - 1
			if n == 1 {
				emit(at[0], at[1])
				continue
			}
			for k := range n - 1 {
				emit(at[k], at[k+2])
			}
			if !query {
				beside(at[n-1], at[n])
			}
		case class(c) != 0:
			start := i
			for i < len(text) && class(text[i]) != 0 {
				i++
			}
			cuts := cutWord(text[start:i])
			emit(start+cuts[0], start+cuts[1])
			if len(cuts) > 2 {
				beside(start, i)
			}
			for k := 1; k < len(cuts)-1; k++ {
				emit(start+cuts[k], start+cuts[k+1])
			}
		default:
			i++
		}
	}
	return all
}

func class(c byte) byte {
	switch {
	case c >= 'a' && c <= 'z':
		return 'a'
	case c >= 'A' && c <= 'Z':
		return 'A'
	case c >= '0' && c <= '9':
		return '0'
	}
	return 0
}

// cutWord returns where the parts of a word begin, and its length.
func cutWord(w string) []int {
	cuts := []int{0}
	for i := 1; i < len(w); i++ {
		a, b := class(w[i-1]), class(w[i])
		capital := a == 'A' && b == 'A' && i+1 < len(w) && class(w[i+1]) == 'a'
		if capital || a != b && !(a == 'A' && b == 'a') {
			cuts = append(cuts, i)
		}
	}
	if len(w) > 64 || len(cuts) > 6 {
		cuts = cuts[:1]
	}
	return append(cuts, len(w))
}

func TestTokenizerAgreesWithReference(t *testing.T) {
	db := open(t)
	r := rand.New(rand.NewPCG(3, 4))
	// No vowels, no y and no s: porter changes none of these words.
	alphabet := []rune("bcdkBCDK0123 .-_/\n가나다각힣漢字東京カナひら")
	for range 3000 {
		runes := make([]rune, r.IntN(30))
		for i := range runes {
			runes[i] = alphabet[r.IntN(len(alphabet))]
		}
		text := string(runes)
		for _, query := range []bool{false, true} {
			if diff := cmp.Diff(reference(text, query), must(db.Cut(t.Context(), text, query))(t)); diff != "" {
				t.Fatalf("%q, query %v (-reference +tokenizer):\n%s", text, query, diff)
			}
		}
	}
}

// Whatever the bytes: offsets lie within the text, cut on whole characters
// where it is UTF-8, rise from position to position, and the text is found by itself.
func FuzzTokenizer(f *testing.F) {
	for _, s := range []string{
		"", "예산안을 Jenkins파이프라인", "getUserId HTTPServer2 gpt-4", "\xff\xfe\x00", "예\xed\xa0\x80산\xec", "か\u3099葛\U000E0100城",
		"e\u0301\u0301\u0301", "\U00020000\U0010FFFF", strings.Repeat("가", 300), strings.Repeat("aB1", 100), "초안", "\u3099\uFE0F예",
	} {
		f.Add(s)
	}
	db := open(f)
	f.Fuzz(func(t *testing.T, text string) {
		ctx := context.Background()
		for _, query := range []bool{false, true} {
			tokens, err := db.Cut(ctx, text, query)
			check(t, err)
			orderly(t, text, tokens)
		}
		if len(text) > 1<<12 || strings.ContainsRune(text, 0) {
			return // a MATCH expression ends at NUL; the store replaces it
		}
		findsItself(t, db, text)
	})
}

func orderly(t *testing.T, text string, tokens []sqlite.Token) {
	t.Helper()
	position, start, end := -1, -1, -1
	for _, tok := range tokens {
		if tok.Start < 0 || tok.Start >= tok.End || tok.End > len(text) {
			t.Fatalf("%q: token %+v lies outside", text, tok)
		}
		if utf8.ValidString(text) && !utf8.ValidString(text[tok.Start:tok.End]) {
			t.Fatalf("%q: token %+v cuts a character", text, tok)
		}
		if tok.Position == position {
			continue // beside the one before
		}
		if tok.Position != position+1 || tok.Start <= start || tok.End <= end {
			t.Fatalf("%q: token %+v comes after position %d, bytes %d to %d", text, tok, position, start, end)
		}
		position, start, end = tok.Position, tok.Start, tok.End
	}
}

// findsItself indexes the text, asks for all of it as one phrase, and checks
// that the mark and FTS5's own highlight() cover the words.
func findsItself(t *testing.T, db *sqlite.DB, text string) {
	t.Helper()
	ctx := context.Background()
	tokens, err := db.Cut(ctx, text, true)
	check(t, err)
	tx, err := db.Raw().BeginTx(ctx, nil)
	check(t, err)
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "CREATE VIRTUAL TABLE temp.probe USING fts5 (body, tokenize = 'porter ondol')"); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO probe (body) VALUES (?)", text); err != nil {
		t.Fatal(err)
	}
	if len(tokens) == 0 {
		return
	}
	var marked string
	quoted := `"` + strings.ReplaceAll(text, `"`, `""`) + `"`
	err = tx.QueryRowContext(ctx, "SELECT highlight(probe, 0, '\x01', '\x02') FROM probe WHERE probe MATCH ?", quoted).Scan(&marked)
	if err != nil {
		t.Fatalf("%q is not found by itself: %v", text, err)
	}
	if bare := strings.NewReplacer("\x01", "", "\x02", "").Replace(marked); bare != strings.NewReplacer("\x01", "", "\x02", "").Replace(text) {
		t.Fatalf("highlight changed %q into %q", text, bare)
	}
	if !strings.Contains(marked, "\x01") {
		t.Fatalf("highlight marked nothing in %q", text)
	}
}

// Any text as a term is only ever a phrase: no error, no query syntax.
func FuzzQuery(f *testing.F) {
	db := open(f)
	folder, err := db.AddFolder(context.Background(), "/docs")
	check(f, err)
	fill(f, db, folder.ID)
	for _, s := range []string{`"`, `" OR body : *`, "NEAR(a b)", "^first", "a*", "예", "\x00", "{a}", `""""`, "-", "+a", "first\xff"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, text string, prefix bool) {
		ctx := context.Background()
		query := []document.Term{{Text: text, Prefix: prefix}, {Text: "first"}}
		reply, err := db.Lexical(ctx, document.LexicalQuery{Terms: query, Limit: 10})
		check(t, err)
		if len(reply.Hits) == 0 || reply.Frequency[1] == 0 {
			t.Fatalf("%q hides the other term", text)
		}
		passages, err := db.Passages(ctx, ids(reply.Hits), query)
		check(t, err)
		for i, p := range passages {
			for _, m := range p.Marks {
				if m.Start < 0 || m.Start >= m.End || m.End > len(p.Chunk.Text) || !utf8.ValidString(p.Chunk.Text[m.Start:m.End]) {
					t.Fatalf("%q: mark %+v in passage %d", text, m, i)
				}
			}
			// The document's name holds no word, so a passage has a mark for a term
			// exactly when the term matched.
			marked := make(map[int]bool)
			for _, m := range p.Marks {
				marked[m.Term] = true
			}
			if fmt.Sprint(reply.Hits[i].Matched) != fmt.Sprint(keys(marked)) {
				t.Fatalf("%q: matched %v, marked %v in %q", text, reply.Hits[i].Matched, keys(marked), p.Chunk.Text)
			}
		}
	})
}

func keys(m map[int]bool) []int {
	all := []int{}
	for i := range 2 {
		if m[i] {
			all = append(all, i)
		}
	}
	return all
}

// fill adds a document whose name holds no word.
func fill(f *testing.F, db *sqlite.DB, folder document.FolderID) {
	f.Helper()
	ctx := context.Background()
	check(f, db.ApplyScan(ctx, folder, document.Changes{Found: []document.File{{Path: "-", Modified: epoch}}}))
	known, err := db.Files(ctx, folder)
	check(f, err)
	text := chunked("first passage, getUserId and 예산안을", "first of NEAR body OR a b", "first: 하하하하 x산")
	text.File = known["-"].File
	_, err = db.SaveText(ctx, known["-"].ID, text)
	check(f, err)
}
