package cli

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"github.com/ondol-app/ondol/assets"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/search"
)

func testTerminal(t *testing.T, language assets.Language, out *bytes.Buffer) *terminal {
	t.Helper()
	words, err := assets.Speak(language)
	if err != nil {
		t.Fatal(err)
	}
	return newTerminal(out, out, words, func(string) string { return "" })
}

// Hangul takes two columns: the second column must begin at the same place in
// every row.
func TestTableIsStraightInKorean(t *testing.T) {
	var out bytes.Buffer
	term := testTerminal(t, assets.Korean, &out)
	term.table([][]cell{
		{{text: "번호", right: true}, {text: "상태"}, {text: "경로"}},
		{{text: "7", right: true}, {text: "색인됨"}, {text: "/문서/예산안.md"}},
		{{text: "1234", right: true}, {text: "ok"}, {text: "/a"}},
	})
	want := "번호  상태    경로\n   7  색인됨  /문서/예산안.md\n1234  ok      /a\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("colour outside a terminal")
	}
}

func TestFilesCannotCommandTheTerminal(t *testing.T) {
	for _, evil := range []string{"a\x1b]0;title\x07b", "a\x9b2Jb", "a\u202egnp.exe", "a\rb", "a\x00b"} {
		got := clean(evil)
		if strings.ContainsAny(got, "\x1b\x07\u009b\r\x00\u202e") || !utf8.ValidString(got) {
			t.Errorf("%q came out as %q", evil, got)
		}
	}
	if got := clean("예산안 café 👩‍🚀\tx"); got != "예산안 café 👩‍🚀 x" {
		t.Errorf("harmless text came out as %q", got)
	}
}

func TestFitCutsBetweenCharacters(t *testing.T) {
	for _, tt := range []struct {
		in      string
		columns int
		want    string
	}{
		{"short", 10, "short"},
		{"long enough", 5, "long…"},
		{"예산안을", 5, "예산…"},
		{"예산안을", 6, "예산…"}, // a half of 안 would not be a character
		{"e\u0301e\u0301e\u0301", 2, "e\u0301…"},
		{"any", 0, "any"},
	} {
		got := fit(tt.in, tt.columns)
		if got != tt.want {
			t.Errorf("fit(%q, %d) = %q, want %q", tt.in, tt.columns, got, tt.want)
		}
		if tt.columns > 0 && uniseg.StringWidth(got) > tt.columns {
			t.Errorf("fit(%q, %d) takes %d columns", tt.in, tt.columns, uniseg.StringWidth(got))
		}
	}
}

func TestSnippetShowsMarks(t *testing.T) {
	var out bytes.Buffer
	c := &commands{term: testTerminal(t, assets.English, &out)}
	text := "첫 줄\n내년 예산안을 심의했다\n\nlast budget line"
	start := strings.Index(text, "예산")
	budget := strings.Index(text, "budget")
	marks := [][2]int{{start, start + len("예산")}, {budget, budget + len("budget")}}
	got := c.snippet(text, marks)
	want := []string{"첫 줄", "내년 ‹예산›안을 심의했다", "last ‹budget› line"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", got, want)
	}
	c.term.colour = true
	if line := c.snippet(text, marks)[1]; line != "내년 \x1b[1;36m예산\x1b[0m안을 심의했다" {
		t.Errorf("in colour: %q", line)
	}
	c.term.colour = false
	c.term.columns = 16 // 4 of them are the margin
	for _, line := range c.snippet(strings.Repeat("예산안 ", 20), nil) {
		if uniseg.StringWidth(line) > 12 {
			t.Errorf("%q takes %d columns", line, uniseg.StringWidth(line))
		}
	}
	if got := c.snippet("1\n2\n3\n4\n5", nil); len(got) != 3 || !strings.Contains(got[2], "…") {
		t.Errorf("long snippet: %q", got)
	}
	// The lines shown are those around the first mark, wherever the terminal breaks them.
	long := strings.Repeat("word ", 40) + "예산안을 심의했다 " + strings.Repeat("word ", 40)
	start = strings.Index(long, "예산")
	got = c.snippet(long, [][2]int{{start, start + len("예산")}})
	if len(got) != 3 || !strings.Contains(strings.Join(got, " "), "‹예산›안을") {
		t.Errorf("around the mark: %q", got)
	}
}

func TestFollowingALogShowsEachLineOnce(t *testing.T) {
	for _, tt := range []struct{ before, now, want string }{
		{"", "a b", "a b"},
		{"a b", "a b", ""},
		{"a b", "a b c", "c"},
		{"b c", "a b c d e", "d e"},
		{"a b c", "b c d", "d"}, // the window moved on
		{"x y", "a b", "a b"},   // nothing of it is left: rotated
	} {
		got := newer(strings.Fields(tt.before), strings.Fields(tt.now))
		if strings.Join(got, " ") != tt.want {
			t.Errorf("after %q, of %q: %q, want %q", tt.before, tt.now, got, tt.want)
		}
	}
}

// A result that may not be what its file says now is marked with the true reason.
func TestDoubtfulResultsAreMarked(t *testing.T) {
	for _, language := range []assets.Language{assets.English, assets.Korean} {
		var out bytes.Buffer
		c := &commands{term: testTerminal(t, language, &out)}
		say := c.term.words.Say
		for want, r := range map[string]search.Result{
			"":                    {State: document.Indexed},
			say("search.changed"): {State: document.Found, Stale: true, StaleReason: search.StaleChanged},
			say("search.offline"): {State: document.Failed, Stale: true, StaleReason: search.StaleOffline, Reason: document.ReasonDenied},
			say("search.failed", "reason", say("reason.permission_denied")): {State: document.Failed, Reason: document.ReasonDenied},
		} {
			if got := c.doubt(r); got != want {
				t.Errorf("%+v: %q, want %q", r, got, want)
			}
		}
		for _, code := range []search.Degradation{search.EngineUnavailable, search.EngineTimeout} {
			if _, ok := c.term.words.Lookup("degraded." + string(code)); !ok {
				t.Errorf("no sentence for %s", code)
			}
		}
		for _, reason := range []search.Reason{search.ReasonEmptyIndex, search.ReasonIndexPending, search.ReasonIndexTextless} {
			if _, ok := c.term.words.Lookup("evidence." + string(reason)); !ok {
				t.Errorf("no sentence for %s", reason)
			}
		}
	}
}
