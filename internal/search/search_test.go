package search_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/search"
	"github.com/ondol-app/ondol/internal/sqlite"
)

var shelf = map[string]string{
	"notes/car.md":    "# Automobile repair manual\n\nReplace the brake pads every two years. Check the engine oil each month.\n",
	"notes/tea.md":    "# Tea\n\nBoil the water, warm the pot, and wait four minutes.\n",
	"notes/budget.md": "# Budget 2026\n\nThe research budget grows by four percent. The travel budget shrinks.\n",
	"notes/plan.md":   "# Plan\n\nThe percent of research grows; the budget is open. Four people travel.\n",
	"code/user.go":    "package user\n\n// getUserId reads the id of the user.\nfunc getUserId() int { return 1 }\n",
	"log.txt":         "Nothing but weather: rain, wind and a little sun over the mountains.\n",
}

// direction is a unit vector at an angle: cosines between two are those of the difference.
func direction(degrees float64) []float32 {
	r := degrees * math.Pi / 180
	return []float32{float32(math.Cos(r)), float32(math.Sin(r)), 0, 0}
}

// shelfVectors puts the automobile near 0°, everything else far away.
func shelfVectors(text string) []float32 {
	switch {
	case strings.Contains(text, "Automobile"):
		return direction(10)
	case strings.Contains(text, "Tea"):
		return direction(80)
	}
	return direction(100)
}

func at(degrees float64) embedder {
	return func(_ context.Context, text string) ([]float32, error) {
		if text == "ㅁ" {
			return direction(180), nil
		}
		return direction(degrees), nil
	}
}

func TestMeaningFindsWhatSharesNoWord(t *testing.T) {
	l := shelve(t, shelf, shelfVectors)
	reply := ask(t, l.searcher(t, at(0), search.WeakTrust()), search.Request{Query: "vehicle maintenance", Explain: true})
	if got := l.names(reply.Results); len(got) == 0 || got[0] != "notes/car.md" || reply.Evidence.Reason != search.ReasonMeaning {
		t.Fatalf("%v %+v", got, reply.Evidence)
	}
	r := reply.Results[0]
	if r.Title != "Automobile repair manual" || r.Kind != document.KindMarkdown || !slices.Equal(r.Location.Lines, []int{1, 3}) || r.Stale {
		t.Errorf("%+v", r)
	}
	if !strings.HasPrefix(r.Snippet.Text, "Replace the brake pads") || len(r.Snippet.Marks) != 0 {
		t.Errorf("snippet %+v", r.Snippet)
	}
	if e := r.Explain; e == nil || e.SemanticRank != 1 || e.LexicalRank != 0 || e.Cosine == nil || math.Abs(*e.Cosine-math.Cos(10*math.Pi/180)) > 0.001 {
		t.Errorf("explain %+v", r.Explain)
	}
}

// A model that points the wrong way with full confidence must not push a
// document that has all the words below one that has none.
func TestWeakModelCannotBuryWords(t *testing.T) {
	l := shelve(t, shelf, shelfVectors)
	reply := ask(t, l.searcher(t, at(10), search.WeakTrust()), search.Request{Query: "research budget"})
	if got := l.names(reply.Results); len(got) == 0 || got[0] != "notes/budget.md" {
		t.Errorf("%v", got)
	}
}

func TestModes(t *testing.T) {
	l := shelve(t, shelf, shelfVectors)
	s := l.searcher(t, at(10), search.WeakTrust())
	if got := l.names(ask(t, s, search.Request{Query: "research budget", Mode: search.Semantic}).Results); len(got) == 0 || got[0] != "notes/car.md" {
		t.Errorf("semantic: %v", got)
	}
	reply := ask(t, s, search.Request{Query: "research budget", Mode: search.Lexical})
	if got := l.names(reply.Results); len(got) != 2 || got[0] != "notes/budget.md" || len(reply.Degraded) != 0 {
		t.Errorf("lexical: %v %v", got, reply.Degraded)
	}
}

func TestQuerySyntax(t *testing.T) {
	l := shelve(t, shelf, nil)
	s := l.searcher(t, nil, search.Trust{})
	for _, tc := range []struct {
		query string
		want  []string
	}{
		{`"research budget"`, []string{"notes/budget.md"}},
		{`“travel budget”`, []string{"notes/budget.md"}},
		{`budget -shrinks`, []string{"notes/plan.md"}},
		{`budget -"grows by"`, []string{"notes/plan.md"}},
		{`user kind:code`, []string{"code/user.go"}},
		{`budget kind:code`, []string{}},
		{`path:code getUserId`, []string{"code/user.go"}},
		{`budget path:"notes/plan.md"`, []string{"notes/plan.md"}},
		{`budget after:2100`, []string{}},
		{`budget before:2001-01-31`, []string{}},
		{`getUserId`, []string{"code/user.go"}},
		{`getuserid`, []string{"code/user.go"}},
		{`mountain winds`, []string{"log.txt"}},
	} {
		got := l.names(ask(t, s, search.Request{Query: tc.query}).Results)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", tc.query, diff)
		}
	}
}

func TestNoEvidence(t *testing.T) {
	l := shelve(t, shelf, shelfVectors)
	s := l.searcher(t, at(-120), search.WeakTrust())
	for query, want := range map[string]search.Reason{
		"quantum chromodynamics lattice": search.ReasonWeak,
		`"budget research"`:              search.ReasonNoPhrase,
	} {
		reply := ask(t, s, search.Request{Query: query})
		if reply.Evidence.Found || len(reply.Results) != 0 || len(reply.NearMisses) != 0 || reply.Evidence.Reason != want {
			t.Errorf("%s: %+v, %d results, %d near misses", query, reply.Evidence, len(reply.Results), len(reply.NearMisses))
		}
	}
	// A near miss has something to do with the query: a word of it here.
	reply := ask(t, s, search.Request{Query: "quantum chromodynamics lattice of the budget"})
	if got := l.names(reply.NearMisses); reply.Evidence.Found || !slices.Equal(slices.Sorted(slices.Values(got)), []string{"notes/budget.md", "notes/plan.md"}) {
		t.Errorf("near misses %v %+v", got, reply.Evidence)
	}
	empty := shelve(t, map[string]string{}, nil)
	if reply := ask(t, empty.searcher(t, nil, search.Trust{}), search.Request{Query: "x"}); reply.Evidence.Reason != search.ReasonIndexPending || reply.Results == nil || reply.NearMisses == nil || reply.Degraded == nil {
		t.Errorf("empty index: %+v", reply)
	}
}

func TestEngineTrouble(t *testing.T) {
	l := shelve(t, shelf, shelfVectors)
	down := embedder(func(context.Context, string) ([]float32, error) { return nil, errDown })
	reply := ask(t, l.searcher(t, down, search.WeakTrust()), search.Request{Query: "research budget"})
	if got := l.names(reply.Results); len(got) == 0 || got[0] != "notes/budget.md" || !slices.Contains(reply.Degraded, search.EngineUnavailable) {
		t.Errorf("engine down: %v %v", got, reply.Degraded)
	}
	if slices.Contains(reply.Degraded, search.EngineTimeout) {
		t.Errorf("an engine that is down is called slow: %v", reply.Degraded)
	}
	busy := embedder(func(context.Context, string) ([]float32, error) {
		return nil, fmt.Errorf("%w: the queue is full", search.ErrNotInTime)
	})
	reply = ask(t, l.searcher(t, busy, search.WeakTrust()), search.Request{Query: "research budget"})
	if !slices.Equal(reply.Degraded, []search.Degradation{search.EngineTimeout}) {
		t.Errorf("busy engine: %v", reply.Degraded)
	}
	// Every text the model does not know has one and the same vector.
	blank := embedder(func(context.Context, string) ([]float32, error) { return direction(100), nil })
	reply = ask(t, l.searcher(t, blank, search.WeakTrust()), search.Request{Query: "예산안을"})
	if reply.Evidence.Found || !slices.Contains(reply.Degraded, search.QueryUnknown) {
		t.Errorf("unknown query: %+v %v %v", reply.Evidence, l.names(reply.Results), reply.Degraded)
	}
	// Words are searchable before vectors.
	pending := shelve(t, shelf, nil)
	pending.serve(t, fingerprint)
	reply = ask(t, pending.searcher(t, at(0), search.WeakTrust()), search.Request{Query: "research budget"})
	if got := pending.names(reply.Results); len(got) == 0 || !slices.Contains(reply.Degraded, search.VectorsPending) || reply.Index.Pending != int64(len(shelf)) {
		t.Errorf("vectors pending: %v %v %+v", got, reply.Degraded, reply.Index)
	}
}

// stalled is a store without data, so that a test can run on a fake clock.
type stalled struct{}

func (stalled) Lexical(context.Context, document.LexicalQuery) (document.LexicalReply, error) {
	return document.LexicalReply{}, nil
}
func (stalled) Semantic(context.Context, string, []float32, document.Filter, int) (document.SemanticReply, error) {
	return document.SemanticReply{}, errors.New("there is no vector to search with")
}
func (stalled) Passages(context.Context, []document.ChunkID, []document.Term) ([]document.Passage, error) {
	return nil, nil
}
func (stalled) Standing(context.Context) (document.Standing, error) {
	return document.Standing{}, nil
}

func TestBusyQueueCostsTheWaitOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := embedder(func(ctx context.Context, _ string) ([]float32, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		s, err := search.New(search.Config{Store: stalled{}, Embedder: busy, Wait: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		reply, err := s.Search(t.Context(), search.Request{Query: "words"})
		if err != nil || time.Since(began) != 2*time.Second || !slices.Equal(reply.Degraded, []search.Degradation{search.EngineTimeout}) {
			t.Errorf("%v after %s: %v", reply.Degraded, time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Search(ctx, search.Request{Query: "words"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller's own deadline: %v", err)
		}
		synctest.Wait()
	})
}

func TestFilesAreLookedAt(t *testing.T) {
	l := shelve(t, shelf, nil)
	s := l.searcher(t, nil, search.Trust{})
	if err := os.Remove(filepath.Join(l.dir, "notes/budget.md")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(l.dir, "notes/plan.md"), []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	reply := ask(t, s, search.Request{Query: "research budget"})
	if got := l.names(reply.Results); len(got) != 1 || got[0] != "notes/plan.md" || !reply.Results[0].Stale || reply.Results[0].StaleReason != search.StaleChanged || reply.Index.StaleRemoved != 1 {
		t.Errorf("%v, stale removed %d", got, reply.Index.StaleRemoved)
	}
	// A volume that is not there is no reason to forget what is on it.
	if err := os.RemoveAll(l.dir); err != nil {
		t.Fatal(err)
	}
	offline := func(when string) {
		t.Helper()
		reply := ask(t, s, search.Request{Query: "research budget"})
		if len(reply.Results) != 2 || !reply.Results[0].Stale || reply.Results[0].StaleReason != search.StaleOffline || reply.Index.StaleRemoved != 0 {
			t.Errorf("%s: %v %+v, stale removed %d", when, l.names(reply.Results), reply.Results, reply.Index.StaleRemoved)
		}
	}
	offline("before a scan knows")
	if err := l.db.SetFolderState(t.Context(), l.folder, document.FolderOffline, "gone", time.Time{}); err != nil {
		t.Fatal(err)
	}
	offline("as a scan found")
	// The mount point is there without its volume.
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	offline("an empty mount point")
}

// What failed is still found by the text of before, and says so.
func TestFailedDocumentIsMarked(t *testing.T) {
	l := shelve(t, shelf, nil)
	known, err := l.db.Files(t.Context(), l.folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.db.SaveFailed(t.Context(), known["notes/tea.md"].ID, document.ReasonDenied, "no", time.Time{}); err != nil {
		t.Fatal(err)
	}
	s := l.searcher(t, nil, search.Trust{})
	reply := ask(t, s, search.Request{Query: "boil water"})
	if len(reply.Results) != 1 || reply.Results[0].State != document.Failed || reply.Results[0].Reason != document.ReasonDenied {
		t.Errorf("failed document: %+v", reply.Results)
	}
	reply = ask(t, s, search.Request{Query: "brake pads"})
	if len(reply.Results) != 1 || reply.Results[0].State == document.Failed || reply.Results[0].Reason != "" {
		t.Errorf("sound document: %+v", reply.Results)
	}
}

func TestWhyTheIndexIsEmpty(t *testing.T) {
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "index.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s, err := search.New(search.Config{Store: db})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(want search.Reason) {
		t.Helper()
		if got := ask(t, s, search.Request{Query: "words"}).Evidence; got != (search.Evidence{Reason: want}) {
			t.Errorf("%+v, want %s", got, want)
		}
	}
	expect(search.ReasonEmptyIndex)
	folder, err := db.AddFolder(t.Context(), "/shelf")
	if err != nil {
		t.Fatal(err)
	}
	expect(search.ReasonIndexPending) // nobody has looked yet
	scanned := func() {
		t.Helper()
		if err := db.SetFolderState(t.Context(), folder.ID, document.FolderWatching, "", time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	found := document.Changes{Found: []document.File{{Path: "a.txt", FileID: "1:1", Size: 1, Modified: time.Unix(1, 0)}}}
	if err := db.ApplyScan(t.Context(), folder.ID, found); err != nil {
		t.Fatal(err)
	}
	scanned()
	expect(search.ReasonIndexPending)
	known, err := db.Files(t.Context(), folder.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.SaveFailed(t.Context(), known["a.txt"].ID, document.ReasonDenied, "no", time.Time{}); err != nil {
		t.Fatal(err)
	}
	expect(search.ReasonIndexTextless)
}

func TestRequestIsChecked(t *testing.T) {
	s := shelve(t, map[string]string{}, nil).searcher(t, nil, search.Trust{})
	for _, tc := range []struct {
		req   search.Request
		field string
	}{
		{search.Request{Query: "  "}, "query"},
		{search.Request{Query: "a\xff"}, "query"},
		{search.Request{Query: strings.Repeat("a", search.MaxQuery+1)}, "query"},
		{search.Request{Query: "a", Mode: "fuzzy"}, "mode"},
		{search.Request{Query: "a", Limit: -1}, "limit"},
		{search.Request{Query: "a", Limit: search.MaxLimit + 1}, "limit"},
		{search.Request{Query: "a", Kinds: []document.Kind{"film"}}, "kinds"},
		{search.Request{Query: "a", Rerank: "maybe"}, "rerank"},
		{search.Request{Query: "a kind:film"}, "query"},
		{search.Request{Query: "a after:yesterday"}, "query"},
		{search.Request{Query: "a path:x", Path: "y"}, "query"},
		{search.Request{Query: "a", After: time.Unix(2, 0), Before: time.Unix(1, 0)}, "before"},
	} {
		_, err := s.Search(t.Context(), tc.req)
		var invalid *search.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != tc.field || invalid.Remedy == "" {
			t.Errorf("%+v: %v", tc.req, err)
		}
	}
	if _, err := search.New(search.Config{}); err == nil {
		t.Error("a searcher without a store was made")
	}
}

func TestRerankIsSaidToBeMissing(t *testing.T) {
	l := shelve(t, shelf, nil)
	reply := ask(t, l.searcher(t, nil, search.Trust{}), search.Request{Query: "budget", Rerank: search.RerankOn})
	if !slices.Contains(reply.Degraded, search.RerankUnavailable) {
		t.Errorf("%v", reply.Degraded)
	}
}

// The best passage speaks for its document, and each document speaks once.
func TestOneResultADocument(t *testing.T) {
	long := "# Long\n\n" + strings.Repeat("A sentence about rivers and bridges in the north. ", 200) +
		"\n\n## Deep part\n\nThe kingfisher nests in the steep bank of the stream.\n\n" + strings.Repeat("Another sentence about roads and rails. ", 200)
	l := shelve(t, map[string]string{"long.md": long, "other.md": "# Birds\n\nA list.\n"}, nil)
	reply := ask(t, l.searcher(t, nil, search.Trust{}), search.Request{Query: "where does the kingfisher nest"})
	if len(reply.Results) != 1 {
		t.Fatalf("%v", l.names(reply.Results))
	}
	r := reply.Results[0]
	if !strings.Contains(r.Snippet.Text, "kingfisher nests") || r.Location.Heading != "Long › Deep part" && !strings.HasPrefix(r.Location.Heading, "Long") {
		t.Errorf("heading %q, snippet %q", r.Location.Heading, r.Snippet.Text)
	}
	var marked []string
	for _, m := range r.Snippet.Marks {
		marked = append(marked, r.Snippet.Text[m[0]:m[1]])
	}
	if !slices.Equal(marked, []string{"kingfisher nests"}) && !slices.Equal(marked, []string{"kingfisher", "nests"}) {
		t.Errorf("marked %q", marked)
	}
}

func TestKoreanMarksAreWholeRuns(t *testing.T) {
	l := shelve(t, koreanShelf, nil)
	reply := ask(t, l.searcher(t, nil, search.Trust{}), search.Request{Query: "보안 취약점"})
	if len(reply.Results) == 0 {
		t.Fatal("nothing found")
	}
	r := reply.Results[0]
	var marked []string
	for _, m := range r.Snippet.Marks {
		marked = append(marked, r.Snippet.Text[m[0]:m[1]])
	}
	if !slices.Contains(marked, "보안취약점") {
		t.Errorf("marked %q in %q", marked, r.Snippet.Text)
	}
}
