package chunk_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"github.com/ondol-app/ondol/internal/chunk"
	"github.com/ondol-app/ondol/internal/document"
)

// Three tokenizers as different as real ones: words (unknown ones are one
// token, whatever their length), bytes, and characters; each with two special
// tokens.
var tokenizers = map[string]func(string) int{
	"words":      func(s string) int { return len(strings.Fields(s)) + 2 },
	"bytes":      func(s string) int { return len(s) + 2 },
	"characters": func(s string) int { return utf8.RuneCountInString(s) + 2 },
}

func counter(name string, calls *int) chunk.Count {
	return func(texts []string) ([]int, error) {
		if calls != nil {
			*calls++
		}
		out := make([]int, len(texts))
		for i, s := range texts {
			out[i] = tokenizers[name](s)
		}
		return out, nil
	}
}

func split(t *testing.T, text string, kind document.Kind, language string, size chunk.Size, tokenizer string) []document.Chunk {
	t.Helper()
	chunks, err := chunk.Split(text, kind, language, size, counter(tokenizer, nil))
	if err != nil {
		t.Fatal(err)
	}
	check(t, text, chunks, size, tokenizer)
	return chunks
}

// check proves what the package promises.
func check(t *testing.T, text string, chunks []document.Chunk, size chunk.Size, tokenizer string) {
	t.Helper()
	clusters := make(map[int]bool)
	for g := uniseg.NewGraphemes(text); g.Next(); {
		from, _ := g.Positions()
		clusters[from] = true
	}
	clusters[len(text)] = true
	end := 0
	for i, c := range chunks {
		switch {
		case c.Ordinal != i:
			t.Fatalf("chunk %d has ordinal %d", i, c.Ordinal)
		case c.Start < end || c.End <= c.Start || c.End > len(text):
			t.Fatalf("chunk %d is %d:%d after %d of %d", i, c.Start, c.End, end, len(text))
		case text[c.Start:c.End] != c.Text:
			t.Fatalf("chunk %d: offsets do not give its text", i)
		case strings.TrimSpace(text[end:c.Start]) != "":
			t.Fatalf("%q before chunk %d is in no chunk", text[end:c.Start], i)
		case strings.TrimSpace(c.Text) == "":
			t.Fatalf("chunk %d is blank", i)
		case c.Line != 1+strings.Count(text[:c.Start], "\n") || c.LastLine != 1+strings.Count(text[:c.End-1], "\n"):
			t.Fatalf("chunk %d has lines %d-%d", i, c.Line, c.LastLine)
		case c.Tokens != tokenizers[tokenizer](c.EmbedText()):
			t.Fatalf("chunk %d: %d tokens, its embedded text has %d", i, c.Tokens, tokenizers[tokenizer](c.EmbedText()))
		}
		// Trimmed white space may end between the parts of a cluster such as space + accent.
		if !clusters[c.Start] || !clusters[c.End] && !spaceBehind(text[c.End:]) {
			t.Fatalf("chunk %d is cut inside a grapheme cluster: %q|%q|%q", i, text[:c.Start], c.Text, text[c.End:])
		}
		if single := uniseg.GraphemeClusterCount(c.Text) == 1; !single && (c.Tokens > size.Max || size.MaxBytes > 0 && len(c.Text) > size.MaxBytes) {
			t.Fatalf("chunk %d has %d tokens and %d bytes: %q", i, c.Tokens, len(c.Text), c.Text)
		}
		end = c.End
	}
	if rest := text[end:]; strings.TrimSpace(rest) != "" {
		t.Fatalf("%q at the end is in no chunk", rest)
	}
}

func spaceBehind(rest string) bool {
	r, _ := utf8.DecodeRuneInString(rest)
	return unicode.IsSpace(r)
}

func headings(chunks []document.Chunk) []string {
	var out []string
	for _, c := range chunks {
		first, _, _ := strings.Cut(c.Text, "\n")
		out = append(out, fmt.Sprintf("%s | %s", c.Heading, first))
	}
	return out
}

func sentences(n int, word string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "Sentence %d speaks of the %s and a few other things. ", i, word)
	}
	return strings.TrimSpace(b.String())
}

func TestSmallDocumentIsOneChunk(t *testing.T) {
	text := "\n# Plan\n\nFirst.\n\n## Detail\n\nSecond.\n"
	calls := 0
	chunks, err := chunk.Split(text, document.KindMarkdown, "", chunk.DefaultSize(), counter("words", &calls))
	if err != nil || len(chunks) != 1 || calls != 1 {
		t.Fatalf("%d chunks with %d calls: %v", len(chunks), calls, err)
	}
	check(t, text, chunks, chunk.DefaultSize(), "words")
	if got := chunks[0]; got.Heading != "Plan" || got.Line != 2 || got.LastLine != 8 {
		t.Errorf("heading %q, lines %d-%d", got.Heading, got.Line, got.LastLine)
	}
}

func TestMarkdownFollowsHeadings(t *testing.T) {
	text := "---\ntitle: x\n---\n\nIntro.\n\n# Guide\n\n" + sentences(5, "house") + "\n\n## Set-up `now`\n\n" + sentences(9, "floor") +
		"\n\nSetext\n------\n\n```go\n# no heading\n\nfunc x() {}\n```\n\n" + sentences(6, "fire") + "\n\n# [Other](http://x)\n\n" + sentences(7, "roof") + "\n"
	got := headings(split(t, text, document.KindMarkdown, "", chunk.Size{Min: 50, Max: 90}, "words"))
	want := map[int]string{0: " | ---", 1: "Guide › Set-up now | ## Set-up `now`", len(got) - 1: "Other | # [Other](http://x)"}
	for i, h := range want {
		if i >= len(got) || got[i] != h {
			t.Errorf("chunk %d is not %q: %q", i, h, got)
		}
	}
	for _, h := range got {
		if strings.Contains(h, "no heading") {
			t.Errorf("a comment in a code block became a heading: %q", h)
		}
	}
}

func TestCodeFenceStaysWhole(t *testing.T) {
	fence := "```python\n" + strings.Repeat("value = compute(value)\n\n", 20) + "```"
	text := sentences(8, "one") + "\n\n" + fence + "\n\n" + sentences(8, "two") + "\n"
	whole := false
	for _, c := range split(t, text, document.KindMarkdown, "", chunk.Size{Min: 60, Max: 100}, "words") {
		whole = whole || strings.Contains(c.Text, fence)
	}
	if !whole {
		t.Error("the code block was cut although it fits")
	}
}

func TestHeadingGoesWithItsText(t *testing.T) {
	text := "# One\n\n" + sentences(8, "one") + "\n\n# Two\n\n" + sentences(8, "two") + "\n"
	for _, c := range split(t, text, document.KindMarkdown, "", chunk.Size{Min: 95, Max: 100}, "words") {
		if strings.HasSuffix(c.Text, "# Two") {
			t.Errorf("a heading ends a chunk: %q", c.Text)
		}
	}
}

func TestLongParagraphIsCutAtSentences(t *testing.T) {
	for name, text := range map[string]string{
		"english": sentences(120, "kettle"),
		"korean":  strings.Repeat("온돌은 바닥을 데우는 난방 방식이다. 아궁이에서 피운 불의 열기가 구들장을 지난다. ", 60),
	} {
		chunks := split(t, text, document.KindText, "", chunk.Size{Min: 60, Max: 100}, "words")
		if len(chunks) < 5 {
			t.Errorf("%s: %d chunks", name, len(chunks))
		}
		for i, c := range chunks {
			if !strings.HasSuffix(c.Text, ".") {
				t.Errorf("%s: chunk %d ends in %q", name, i, c.Text[max(0, len(c.Text)-20):])
			}
			if i < len(chunks)-1 && c.Tokens < 60 {
				t.Errorf("%s: chunk %d has only %d tokens", name, i, c.Tokens)
			}
		}
	}
}

// A tokenizer that takes an unknown word for one token must not make endless passages.
func TestBytesAreBounded(t *testing.T) {
	text := strings.Repeat("가나다라마바사아자차카타파하", 2000)
	for _, c := range split(t, text, document.KindText, "", chunk.DefaultSize(), "words") {
		if len(c.Text) > 4000 {
			t.Errorf("%d bytes", len(c.Text))
		}
	}
}

func TestNeverInsideAGrapheme(t *testing.T) {
	text := strings.Repeat("👩‍👩‍👧‍👦🇰🇷é각", 300)
	split(t, text, document.KindText, "", chunk.Size{Min: 20, Max: 40}, "bytes")
	// One cluster alone is longer than the limit: it stays whole.
	zalgo := "a" + strings.Repeat("\u0301", 200)
	if got := split(t, zalgo+" b", document.KindText, "", chunk.Size{Max: 50}, "bytes"); len(got) != 2 || got[0].Text != zalgo {
		t.Errorf("%d chunks", len(got))
	}
}

func TestGoIsCutAtDeclarations(t *testing.T) {
	text := "// Package x does.\npackage x\n\nimport \"fmt\"\n\n// T is a type.\ntype T[K any] struct {\n\ta int\n}\n\n" +
		"// Run runs.\nfunc (t *T[K]) Run() {\n" + strings.Repeat("\tfmt.Println(\"run it again and again\")\n\n", 30) + "}\n\nfunc small() {}\n"
	got := headings(split(t, text, document.KindCode, "go", chunk.Size{Min: 10, Max: 80}, "words"))
	if got[0] != " | // Package x does." && got[0] != " | // T is a type." {
		t.Errorf("first: %q", got[0])
	}
	run := 0
	for _, h := range got {
		if strings.HasPrefix(h, "func (*T) Run | ") {
			run++
		}
	}
	if run < 2 || got[len(got)-1] != "func small | func small() {}" {
		t.Errorf("headings: %q", got)
	}
}

func TestOtherCodeIsCutAtTheMargin(t *testing.T) {
	body := strings.Repeat("    do something useful here\n\n", 12)
	for _, tc := range []struct{ name, text, heading string }{
		{"python", "import x\n\n\n# About Tea\n@decorated\nclass Tea:\n    def brew(self):\n" + body + "\ndef pour(cup):\n" + body, "class Tea"},
		{"javascript", "const a = 1\n\nexport default class Tea {\n" + body + "}\n\nexport async function pour(cup) {\n" + body + "}\n", "class Tea"},
		{"rust", "use x;\n\npub(crate) struct Tea;\n\nimpl Tea {\n" + body + "}\n\nfn pour() {\n" + body + "}\n", "impl Tea"},
		{"toml", "a = 1\n[server]\n" + body + "[client]\n" + body, "server"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			chunks := split(t, tc.text, document.KindCode, tc.name, chunk.Size{Min: 1, Max: 75}, "words")
			found := false
			for _, c := range chunks {
				found = found || c.Heading == tc.heading
				if first := strings.TrimSpace(c.Text); strings.HasPrefix(first, "}") {
					t.Errorf("a chunk starts with a closing brace: %q", c.Text)
				}
			}
			if !found {
				t.Errorf("no chunk under %q: %q", tc.heading, headings(chunks))
			}
		})
	}
}

func TestBlankTextHasNoChunks(t *testing.T) {
	for _, text := range []string{"", " \n\t\n"} {
		if got := split(t, text, document.KindText, "", chunk.DefaultSize(), "words"); len(got) != 0 {
			t.Errorf("%q: %d chunks", text, len(got))
		}
	}
}

func TestCountErrors(t *testing.T) {
	broken := errors.New("engine is away")
	_, err := chunk.Split("text", document.KindText, "", chunk.DefaultSize(), func([]string) ([]int, error) { return nil, broken })
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	_, err = chunk.Split("text", document.KindText, "", chunk.DefaultSize(), func([]string) ([]int, error) { return []int{1, 2}, nil })
	if err == nil {
		t.Error("a wrong number of counts was taken")
	}
}

func TestFewCalls(t *testing.T) {
	var b strings.Builder
	for i := range 200 {
		fmt.Fprintf(&b, "## Part %d\n\n%s\n\n- a\n- b\n\n", i, sentences(1+i%17, "stone"))
	}
	calls := 0
	chunks, err := chunk.Split(b.String(), document.KindMarkdown, "", chunk.DefaultSize(), counter("words", &calls))
	if err != nil {
		t.Fatal(err)
	}
	check(t, b.String(), chunks, chunk.DefaultSize(), "words")
	if calls > 3 {
		t.Errorf("%d calls for %d chunks", calls, len(chunks))
	}
	for i, c := range chunks[:len(chunks)-1] {
		if c.Tokens < 250 {
			t.Errorf("chunk %d of %d has only %d tokens", i, len(chunks), c.Tokens)
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("# a\n\nb c d\n\n```\nx\n```\n- one\n- two\n", uint8(0), uint8(20))
	f.Add("---\nt: 1\n---\n> > > quote\n\n1. x\n   - y\n\n[a]: http://b\n", uint8(1), uint8(9))
	f.Add("package x\n\nfunc a() {}\n", uint8(2), uint8(5))
	f.Add("class A:\n  def b():\n    pass\n\nx = 1\n", uint8(3), uint8(6))
	f.Add("한글 문장이다. 또 하나. 👩‍👩‍👧‍👦", uint8(4), uint8(3))
	kinds := []document.Kind{document.KindMarkdown, document.KindCode, document.KindText}
	f.Fuzz(func(t *testing.T, text string, mode, limit uint8) {
		if !utf8.ValidString(text) {
			return // the extractor hands over nothing else
		}
		size := chunk.Size{Max: int(limit)%64 + 3, MaxBytes: 40 + int(limit)}
		size.Min = size.Max / 2
		for name := range tokenizers {
			split(t, text, kinds[int(mode)%3], []string{"go", "python"}[int(mode)/3%2], size, name)
		}
	})
}
