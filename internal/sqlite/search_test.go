package sqlite_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/canary"
	"github.com/ondol-app/ondol/internal/document"
)

func TestLexicalFinds(t *testing.T) {
	db := open(t)
	f := folder(t, db, "/docs")
	for path, text := range map[string]string{
		"minutes.md":   "회의록: 내년예산안을 승인했다. 총예산안이 늘었다.",
		"ci.md":        "Jenkins파이프라인 설정 방법",
		"api.go":       "func getUserId(HTTPServer *Server) // returns the snake_case value",
		"release.txt":  "Version 2026.4.10 talks to gpt-4 and utf8mb4.",
		"tokyo.txt":    "明日は東京タワーへ行く",
		"attack.txt":   "지난달 공격 분석 보고서와 계약서",
		"cities.txt":   "The cities were running out of water.",
		"한글/보고서 초안.md": "내용은 비어 있지 않다",
	} {
		add(t, db, f, path, chunked(text))
	}
	for _, c := range []struct {
		query string
		want  []string
	}{
		{"예산", []string{"minutes.md"}},   // inside a compound, before a particle
		{"예산안을", []string{"minutes.md"}}, // with it
		{"예산안이", []string{"minutes.md"}}, // the other one
		{"예산서", []string{}},              // shares a pair, is another word
		{"예", []string{"minutes.md"}},    // one character in the middle of a run
		{"법", []string{"ci.md"}},         // and at its end
		{"계약", []string{"attack.txt"}},   // two syllables
		{"공격", []string{"attack.txt"}},   // two syllables
		{"파이프라인", []string{"ci.md"}},     // glued to Latin
		{"jenkins", []string{"ci.md"}},   // the other half
		{"Jenkins파이프라인", []string{"ci.md"}},
		{"Jenkins파", []string{"ci.md"}}, // glued, one character of the run
		{"東京", []string{"tokyo.txt"}},
		{"京", []string{"tokyo.txt"}},
		{"タワー", []string{"tokyo.txt"}},
		{"getUserId", []string{"api.go"}},
		{"getuserid", []string{"api.go"}},
		{"userId", []string{"api.go"}},
		{"user", []string{"api.go"}},
		{"httpserver", []string{"api.go"}},
		{"snake_case", []string{"api.go"}},
		{"case", []string{"api.go"}},
		{"2026.4.10", []string{"release.txt"}},
		{"2026.4.1", []string{}},
		{"gpt-4", []string{"release.txt"}},
		{"GPT4", []string{"release.txt"}},
		{"gpt", []string{"release.txt"}},
		{"utf8mb4", []string{"release.txt"}},
		{"city", []string{"cities.txt"}},                // stemmed
		{"ran run", []string{}},                         // a phrase
		{"보고서", []string{"attack.txt", "한글/보고서 초안.md"}}, // text and name
		{"초안", []string{"한글/보고서 초안.md"}},
		{`"`, []string{}},
		{`NOT ( AND OR ^ * : { "`, []string{}},
		{"returns\" OR \"gpt", []string{}},
		{"getUserId\x00", []string{"api.go"}},
	} {
		if diff := cmp.Diff(c.want, found(t, db, c.query)); diff != "" {
			t.Errorf("%q:\n%s", c.query, diff)
		}
	}
	sound(t, db)
}

func TestMarks(t *testing.T) {
	db := open(t)
	f := folder(t, db, "/docs")
	add(t, db, f, "a.md", chunked("내년예산안을 승인. getUserId runs; Running 하하하하 x산 예산"))
	for _, c := range []struct {
		terms []document.Term
		want  []string
	}{
		{terms("예산"), []string{"예산", "예산"}},
		{terms("예산안"), []string{"예산안"}},
		{terms("산"), []string{"산", "산", "산"}},
		{terms("run"), []string{"runs", "Running"}},
		{terms("user"), []string{"User"}},
		{terms("getuserid"), []string{"getUserId"}},
		{terms("getUserId"), []string{"getUserId"}},
		{terms("get"), []string{"get"}},
		{terms("하하"), []string{"하하하하"}},
		{terms("getUserId runs"), []string{"getUserId runs"}},
		{terms("nothing", "승인"), []string{"승인"}},
		{[]document.Term{{Text: "get", Prefix: true}}, []string{"get"}},
		{nil, []string{}},
	} {
		all := must(db.Passages(t.Context(), []document.ChunkID{1}, c.terms))(t)
		if len(all) != 1 {
			t.Fatalf("%d passages", len(all))
		}
		got := []string{}
		for _, m := range all[0].Marks {
			got = append(got, all[0].Chunk.Text[m.Start:m.End])
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%v:\n%s", c.terms, diff)
		}
	}
}

func TestScoresAreComparable(t *testing.T) {
	db := open(t)
	ctx := t.Context()
	f := folder(t, db, "/docs")
	long := strings.Repeat("nothing of interest stands in these words at all ", 20)
	add(t, db, f, "rare.txt", chunked("zebra "+long))
	add(t, db, f, "twice.txt", chunked("zebra zebra "+long))
	for _, n := range numbered("%d.txt", 8) {
		add(t, db, f, n, chunked("horse "+n+" "+long))
	}
	add(t, db, f, "both.txt", chunked("horse zebra "+long))
	add(t, db, f, "zebra.txt", chunked("horse "+long+" end"))
	reply := must(db.Lexical(ctx, document.LexicalQuery{Terms: terms("horse", "?!", "zebra"), Limit: 100}))(t)
	if reply.Total != 12 || !slices.Equal(reply.Frequency, []int64{10, 0, 4}) {
		t.Errorf("total %d, frequency %v", reply.Total, reply.Frequency)
	}
	if len(reply.Hits) != 12 {
		t.Fatalf("%d hits", len(reply.Hits))
	}
	best := must(db.Document(ctx, reply.Hits[0].Document))(t)
	// It has horse in its text and zebra in its name, which counts for more.
	if best.Path != "zebra.txt" || !slices.Equal(reply.Hits[0].Matched, []int{0, 2}) {
		t.Errorf("best is %s, matched %v", best.Path, reply.Hits[0].Matched)
	}
	for i, h := range reply.Hits {
		if h.Score <= 0 {
			t.Errorf("score %g", h.Score)
		}
		if i > 0 && h.Score > reply.Hits[i-1].Score {
			t.Errorf("hit %d is better than the one before it", i)
		}
	}
	// Two terms, both needed.
	all := must(db.Lexical(ctx, document.LexicalQuery{Terms: terms("horse", "?!", "zebra"), All: true, Limit: 100}))(t)
	if got := paths(t, db, all.Hits); !slices.Equal(got, []string{"both.txt", "zebra.txt"}) {
		t.Errorf("both terms: %v", got)
	}
	if !slices.Equal(all.Frequency, reply.Frequency) {
		t.Errorf("frequency %v", all.Frequency)
	}
	// A term's weight scales its share.
	one := must(db.Lexical(ctx, document.LexicalQuery{Terms: terms("zebra"), Limit: 1}))(t)
	ten := must(db.Lexical(ctx, document.LexicalQuery{Terms: []document.Term{{Text: "zebra", Weight: 10}}, Limit: 1}))(t)
	if r := ten.Hits[0].Score / one.Hits[0].Score; math.Abs(r-10) > 1e-9 {
		t.Errorf("weight 10 makes the score %g times as high", r)
	}
}

// The score is BM25: compared with the formula, worked out here by hand.
func TestScoreIsBM25(t *testing.T) {
	db := open(t)
	f := folder(t, db, "/docs")
	// The name adds two words to each passage: "1" and "txt".
	add(t, db, f, "1.txt", chunked("apple apple pear"))
	add(t, db, f, "2.txt", chunked("pear plum"))
	add(t, db, f, "3.txt", chunked("plum plum plum plum"))
	reply := must(db.Lexical(t.Context(), document.LexicalQuery{
		Terms: terms("apple", "pear"), Limit: 10, Weights: document.Weights{Name: 1, Heading: 1, Body: 1},
	}))(t)
	share := func(tf, size, n float64) float64 {
		average := (5.0 + 4 + 6) / 3
		return math.Log(1+(3-n+0.5)/(n+0.5)) * tf * 2.2 / (tf + 1.2*(0.25+0.75*size/average))
	}
	want := []float64{share(2, 5, 1) + share(1, 5, 2), share(1, 4, 2)}
	for i, h := range reply.Hits {
		if math.Abs(h.Score-want[i]) > 1e-9 {
			t.Errorf("hit %d has score %.12f, want %.12f", i, h.Score, want[i])
		}
	}
}

func TestFilters(t *testing.T) {
	db := open(t)
	ctx := t.Context()
	f, g := folder(t, db, "/home/me/docs"), folder(t, db, "/home/me/code")
	at := func(path string, folder document.FolderID, kind document.Kind, day int) {
		text := chunked("word in " + path)
		text.Kind = kind
		id := add(t, db, folder, path, text)
		saved := file(path)
		saved.Modified = epoch.AddDate(0, 0, day)
		check(t, db.ApplyScan(ctx, folder, document.Changes{Touched: []document.Change{{ID: id, File: saved}}}))
	}
	at("notes/a.md", f, document.KindMarkdown, 0)
	at("notes/deep/b.md", f, document.KindMarkdown, 1)
	at("notes2/c.txt", f, document.KindText, 2)
	at("[x]/d.txt", f, document.KindText, 3)
	at("main.go", g, document.KindCode, 4)
	for name, c := range map[string]struct {
		filter document.Filter
		want   []string
	}{
		"none":          {document.Filter{}, []string{"[x]/d.txt", "main.go", "notes/a.md", "notes/deep/b.md", "notes2/c.txt"}},
		"folder":        {document.Filter{Folders: []document.FolderID{g}}, []string{"main.go"}},
		"folders":       {document.Filter{Folders: []document.FolderID{f, g}, Kinds: []document.Kind{document.KindCode, document.KindText}}, []string{"[x]/d.txt", "main.go", "notes2/c.txt"}},
		"directory":     {document.Filter{Path: "notes"}, []string{"notes/a.md", "notes/deep/b.md"}},
		"slash":         {document.Filter{Path: "./notes/"}, []string{"notes/a.md", "notes/deep/b.md"}},
		"file":          {document.Filter{Path: "notes/a.md"}, []string{"notes/a.md"}},
		"glob":          {document.Filter{Path: "*.md"}, []string{"notes/a.md", "notes/deep/b.md"}},
		"absolute":      {document.Filter{Path: "/home/me/docs/notes"}, []string{"notes/a.md", "notes/deep/b.md"}},
		"whole folder":  {document.Filter{Path: "/home/me/code"}, []string{"main.go"}},
		"above":         {document.Filter{Path: "/home/me"}, []string{"[x]/d.txt", "main.go", "notes/a.md", "notes/deep/b.md", "notes2/c.txt"}},
		"absolute glob": {document.Filter{Path: "/home/*/docs/*.txt"}, []string{"[x]/d.txt", "notes2/c.txt"}},
		"elsewhere":     {document.Filter{Path: "/home/you"}, []string{}},
		"injection":     {document.Filter{Path: "x' OR 1=1 --"}, []string{}},
		"after":         {document.Filter{After: epoch.AddDate(0, 0, 3)}, []string{"[x]/d.txt", "main.go"}},
		"between":       {document.Filter{After: epoch.AddDate(0, 0, 1), Before: epoch.AddDate(0, 0, 3)}, []string{"notes/deep/b.md", "notes2/c.txt"}},
	} {
		lexical := must(db.Lexical(ctx, document.LexicalQuery{Terms: terms("word"), Filter: c.filter, Limit: 10}))(t)
		if diff := cmp.Diff(c.want, paths(t, db, lexical.Hits)); diff != "" {
			t.Errorf("%s, by word:\n%s", name, diff)
		}
		semantic := must(db.Semantic(ctx, fingerprint, unit("q", dim), c.filter, 10))(t).Hits
		if diff := cmp.Diff(c.want, paths(t, db, semantic)); diff != "" {
			t.Errorf("%s, by meaning:\n%s", name, diff)
		}
		// The filter comes before the choice of the best.
		if len(c.want) == 1 {
			for what, hits := range map[string][]document.Hit{
				"word":    must(db.Lexical(ctx, document.LexicalQuery{Terms: terms("word"), Filter: c.filter, Limit: 1}))(t).Hits,
				"meaning": must(db.Semantic(ctx, fingerprint, unit("q", dim), c.filter, 1))(t).Hits,
			} {
				if !slices.Equal(paths(t, db, hits), c.want) {
					t.Errorf("%s, the best by %s: %v", name, what, paths(t, db, hits))
				}
			}
		}
	}
}

// The scan gives the same order as the vectors themselves, to half precision.
func TestSemanticIsExact(t *testing.T) {
	db := open(t)
	ctx := t.Context()
	f := folder(t, db, "/docs")
	hashes := make(map[document.ChunkID]document.Hash)
	for i := range 20 {
		id := add(t, db, f, fmt.Sprintf("%d.txt", i), chunked(numbered(fmt.Sprintf("%d passage %%d", i), 20)...))
		for _, c := range must(db.Chunks(ctx, id))(t) {
			hashes[c.ID] = c.Hash()
		}
	}
	query := unit("the question", dim)
	hits := must(db.Semantic(ctx, fingerprint, query, document.Filter{}, 1000))(t).Hits
	if len(hits) != 400 {
		t.Fatalf("%d hits", len(hits))
	}
	for i, h := range hits {
		if want := canary.Cosine(query, unit(hashes[h.Chunk], dim)); math.Abs(h.Score-want) > 1e-3 {
			t.Errorf("cosine of %d is %g, want %g", h.Chunk, h.Score, want)
		}
		if i > 0 && h.Score > hits[i-1].Score {
			t.Errorf("hit %d is better than the one before it", i)
		}
	}
	if diff := cmp.Diff(hits[:7], must(db.Semantic(ctx, fingerprint, query, document.Filter{}, 7))(t).Hits); diff != "" {
		t.Errorf("the best seven:\n%s", diff)
	}
	twice := slices.Clone(query)
	for i := range twice {
		twice[i] *= 2
	}
	if got := must(db.Semantic(ctx, fingerprint, twice, document.Filter{}, 1))(t).Hits[0].Score; math.Abs(got-hits[0].Score) > 1e-6 {
		t.Errorf("a longer query changes the cosine from %g to %g", hits[0].Score, got)
	}
	if hits := must(db.Semantic(ctx, "unknown", query, document.Filter{}, 5))(t).Hits; len(hits) != 0 {
		t.Errorf("unknown fingerprint: %v", hits)
	}
	for what, q := range map[string][]float32{"dimension": query[:5], "zero": make([]float32, dim)} {
		if _, err := db.Semantic(ctx, fingerprint, q, document.Filter{}, 5); err == nil {
			t.Errorf("a query of wrong %s was answered", what)
		}
	}
}

func TestPassages(t *testing.T) {
	db := open(t)
	ctx := t.Context()
	f := folder(t, db, "/docs")
	text := chunked("first", "second")
	text.Title, text.Chunks[1].Heading = "Title", "A › B"
	id := add(t, db, f, "a.md", text)
	all := must(db.Passages(ctx, []document.ChunkID{2, 77, 1}, terms("first")))(t)
	if len(all) != 2 || all[0].Chunk.Text != "second" || all[0].Chunk.Heading != "A › B" || all[1].Chunk.Text != "first" {
		t.Fatalf("passages: %+v", all)
	}
	p := all[1]
	if p.Folder != "/docs" || p.FileID != "1:a.md" || p.Document.ID != id || p.Document.Title != "Title" || p.Document.Chunks != 2 {
		t.Errorf("passage: %+v", p)
	}
	if diff := cmp.Diff([]document.Mark{{Start: 0, End: 5}}, p.Marks); diff != "" {
		t.Error(diff)
	}
	if got := found(t, db, "title"); !slices.Equal(got, []string{"a.md"}) {
		t.Errorf("by title: %v", got)
	}
	if all := must(db.Passages(ctx, nil, nil))(t); len(all) != 0 {
		t.Errorf("no ids: %+v", all)
	}
}
