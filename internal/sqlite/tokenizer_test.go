package sqlite_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/sqlite"
)

// render writes tokens with their positions: "0:예산 1:산안" ; "=" marks one
// that shares the position before it.
func render(tokens []sqlite.Token) string {
	var b strings.Builder
	last := -1
	for _, t := range tokens {
		sep := " "
		if t.Position == last {
			sep = "="
		}
		last = t.Position
		b.WriteString(sep + t.Text)
	}
	return strings.TrimPrefix(b.String(), " ")
}

func TestTokens(t *testing.T) {
	db := open(t)
	for _, c := range []struct{ text, document, query string }{
		{"예산안을", "예산 산안 안을=을", "예산 산안 안을"},
		{"예산", "예산=산", "예산"},
		{"예", "예", "예"},
		{"회의 예산", "회의=의 예산=산", "회의 예산"},
		{"Jenkins파이프라인", "jenkin 파이 이프 프라 라인=인", "jenkin 파이 이프 프라 라인"},
		{"파이프라인Jenkins", "파이 이프 프라 라인=인 jenkin", "파이 이프 프라 라인 jenkin"},
		{"getUserId", "get=getuserid user id", "get=getuserid user id"},
		{"HTTPServer", "http=httpserver server", "http=httpserver server"},
		{"Server", "server", "server"},
		{"gpt-4", "gpt 4", "gpt 4"},
		{"GPT4", "gpt=gpt4 4", "gpt=gpt4 4"},
		{"snake_case", "snake case", "snake case"},
		{"2026.4.10", "2026 4 10", "2026 4 10"},
		{"Café naïve", "cafe naiv", "cafe naiv"},
		{"running cities", "run citi", "run citi"},
		{"東京タワーへ行く", "東京 京タ タワ ワー ーへ へ行 行く=く", "東京 京タ タワ ワー ーへ へ行 行く"},
		{"葛\U000E0100城市", "葛城 城市=市", "葛城 城市"}, // variation selector
		{"か\u3099く", "かく=く", "かく"},            // voiced mark that NFC did not join
		{"𠀀𠀁", "𠀀𠀁=𠀁", "𠀀𠀁"},
		{"ㅋㅋㅋ", "ㅋㅋ ㅋㅋ=ㅋ", "ㅋㅋ ㅋㅋ"},
		{"한・글", "한 글", "한 글"}, // the middle dot separates
		{"a1b2c3d4", "a1b2c3d4", "a1b2c3d4"},
		{"", "", ""},
		{" \n!?\x00", "", ""},
		{"예\xffb\xed\xa0\x80산", "예 b 산", "예 b 산"},
	} {
		if got := render(must(db.Cut(t.Context(), c.text, false))(t)); got != c.document {
			t.Errorf("document %q is cut into %q, want %q", c.text, got, c.document)
		}
		if got := render(must(db.Cut(t.Context(), c.text, true))(t)); got != c.query {
			t.Errorf("query %q is cut into %q, want %q", c.text, got, c.query)
		}
	}
}

func TestTokenOffsets(t *testing.T) {
	db := open(t)
	text := "-- getUserId는 예산안"
	got := make(map[string]string)
	for _, tok := range must(db.Cut(t.Context(), text, false))(t) {
		got[tok.Text] = text[tok.Start:tok.End]
	}
	want := map[string]string{
		"get": "get", "getuserid": "getUserId", "user": "User", "id": "Id", "는": "는", "예산": "예산", "산안": "산안", "안": "안",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
