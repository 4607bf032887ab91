package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/sqlite"
)

func vectors(t testing.TB, db *sqlite.DB) int64 {
	t.Helper()
	return count(t, db, "SELECT count(*) FROM vectors")
}

func TestLifeOfADocument(t *testing.T) {
	db := open(t)
	ctx := t.Context()
	f := folder(t, db, "/docs")
	check(t, db.ApplyScan(ctx, f, document.Changes{Found: []document.File{file("a.md")}}))
	pending := must(db.PendingText(ctx, f, time.Now(), 10))(t)
	if len(pending) != 1 || pending[0].State != document.Found || pending[0].Path != "a.md" || !pending[0].Modified.Equal(epoch) {
		t.Fatalf("pending after the scan: %+v", pending)
	}
	if pending[0].FileID != "1:a.md" || pending[0].Hash != "" {
		t.Errorf("pending before it was read: %+v", pending[0])
	}
	id := pending[0].ID
	text := chunked("first passage", "second passage", "first passage")
	text.Title, text.Kind, text.Language, text.File = "A", document.KindMarkdown, "", file("a.md")
	if state := must(db.SaveText(ctx, id, text))(t); state != document.Embedding {
		t.Errorf("state after the text: %s", state)
	}
	if waiting := must(db.PendingVectors(ctx, f, 10))(t); len(waiting) != 1 || waiting[0].Hash != text.Hash || waiting[0].Chunks != 3 {
		t.Errorf("waiting for vectors: %+v", waiting)
	}
	if got := found(t, db, "second"); !slices.Equal(got, []string{"a.md"}) {
		t.Errorf("an embedding document is not found by word: %v", got)
	}
	missing := must(db.MissingVectors(ctx, id, fingerprint))(t)
	if len(missing) != 2 {
		t.Fatalf("%d missing vectors for two different texts", len(missing))
	}
	first := map[document.Hash][]float32{missing[0].Hash(): unit(missing[0].Hash(), dim)}
	if state := must(db.SaveVectors(ctx, id, fingerprint, dim, first))(t); state != document.Embedding {
		t.Errorf("state with half of the vectors: %s", state)
	}
	if state := embed(t, db, id); state != document.Indexed {
		t.Errorf("state with all vectors: %s", state)
	}
	if left := slices.Concat(must(db.PendingText(ctx, f, time.Now(), 10))(t), must(db.PendingVectors(ctx, f, 10))(t)); len(left) != 0 {
		t.Errorf("still pending: %+v", left)
	}
	want := text.Chunks
	got := must(db.Chunks(ctx, id))(t)
	for i := range got {
		if got[i].ID == 0 {
			t.Errorf("chunk %d has no id", i)
		}
		got[i].ID = 0
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("chunks:\n%s", diff)
	}
	known := must(db.Files(ctx, f))(t)["a.md"]
	if diff := cmp.Diff(document.Known{ID: id, File: file("a.md"), State: document.Indexed, Hash: text.Hash}, known); diff != "" {
		t.Errorf("known:\n%s", diff)
	}

	// Changed: back in the queue, the old text stays searchable.
	check(t, db.ApplyScan(ctx, f, document.Changes{Changed: []document.Change{{ID: id, File: file("a.md")}}}))
	if got := found(t, db, "second"); !slices.Equal(got, []string{"a.md"}) {
		t.Errorf("old text while the new one is waiting: %v", got)
	}
	text = chunked("first passage", "third passage")
	text.File = file("a.md")
	must(db.SaveText(ctx, id, text))(t)
	if missing := must(db.MissingVectors(ctx, id, fingerprint))(t); len(missing) != 1 || missing[0].Text != "third passage" {
		t.Errorf("missing after an edit: %+v", missing)
	}
	if got := found(t, db, "second"); len(got) != 0 {
		t.Errorf("replaced text is found: %v", got)
	}
	sound(t, db)
}

func TestFailuresWaitForTheirTime(t *testing.T) {
	db := open(t)
	ctx := t.Context()
	f := folder(t, db, "/docs")
	check(t, db.ApplyScan(ctx, f, document.Changes{Found: []document.File{file("a"), file("b"), file("c")}}))
	files := must(db.Files(ctx, f))(t)
	a, b, c := files["a"].ID, files["b"].ID, files["c"].ID
	now := time.Now().Add(time.Minute)
	check(t, db.SaveFailed(ctx, a, document.ReasonUnreadable, "input/output error", now.Add(time.Hour)))
	check(t, db.SaveFailed(ctx, a, document.ReasonUnreadable, "input/output error", now.Add(time.Hour)))
	check(t, db.SaveFailed(ctx, b, document.ReasonInternal, "", time.Time{}))
	check(t, db.SaveSkipped(ctx, c, document.ReasonBinary, file("c")))
	queue := func(at time.Time) (all []document.ID) {
		for _, d := range must(db.PendingText(ctx, f, at, 10))(t) {
			all = append(all, d.ID)
		}
		return all
	}
	if got := queue(now); len(got) != 0 {
		t.Errorf("too early: %v", got)
	}
	if got := queue(now.Add(time.Hour)); !slices.Equal(got, []document.ID{a}) {
		t.Errorf("when its time has come: %v", got)
	}
	d := must(db.Document(ctx, a))(t)
	if d.Tries != 2 || !d.RetryAt.Equal(now.Add(time.Hour)) || d.Reason != document.ReasonUnreadable || d.Detail != "input/output error" {
		t.Errorf("failed document: %+v", d)
	}
	counts := must(db.Counts(ctx))(t)
	want := document.Counts{Found: 3, Skipped: 1, Failed: 2,
		Reasons: map[document.Reason]int64{document.ReasonUnreadable: 1, document.ReasonInternal: 1, document.ReasonBinary: 1}}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("ledger:\n%s", diff)
	}
	check(t, db.Retry(ctx, a, b))
	if got := queue(now); !slices.Equal(got, []document.ID{a, b}) {
		t.Errorf("after a retry: %v", got)
	}
	if err := db.Retry(ctx, a, 999); !errors.Is(err, sqlite.ErrNotFound) {
		t.Errorf("retry of an unknown document: %v", err)
	}
}

func TestLookup(t *testing.T) {
	db := open(t)
	ctx := t.Context()
	f, g := folder(t, db, "/docs"), folder(t, db, "/other")
	names := []string{"a/", "a/x.md", "a/deep/y.md", "a.md", "a0.md", "b.md"}
	for _, n := range names {
		check(t, db.ApplyScan(ctx, f, document.Changes{Found: []document.File{file(n)}}))
		check(t, db.ApplyScan(ctx, g, document.Changes{Found: []document.File{file(n)}}))
	}
	for _, c := range []struct{ paths, fileIDs, want []string }{
		{[]string{"a"}, nil, []string{"a/", "a/deep/y.md", "a/x.md"}},
		{[]string{"b.md", "gone"}, nil, []string{"b.md"}},
		{nil, []string{"1:a.md", "9:none"}, []string{"a.md"}},
		{[]string{"b.md"}, []string{"1:a.md", "1:b.md"}, []string{"a.md", "b.md"}},
		{[]string{"."}, nil, []string{"a.md", "a/", "a/deep/y.md", "a/x.md", "a0.md", "b.md"}},
		{nil, nil, nil},
	} {
		got := must(db.Lookup(ctx, f, c.paths, c.fileIDs))(t)
		if diff := cmp.Diff(c.want, slices.Sorted(maps.Keys(got))); diff != "" {
			t.Errorf("%q, %q:\n%s", c.paths, c.fileIDs, diff)
		}
		whole := must(db.Files(ctx, f))(t)
		for path, k := range got {
			if diff := cmp.Diff(whole[path], k); diff != "" {
				t.Errorf("%s differs from Files:\n%s", path, diff)
			}
		}
	}
}

// What a search asks at each call agrees with the ledger.
func TestStanding(t *testing.T) {
	db := open(t)
	ctx := t.Context()
	if got := must(db.Standing(ctx))(t); len(got.Folders) != 0 || got.Pending != 0 || !got.LastScan.IsZero() {
		t.Errorf("empty index: %+v", got)
	}
	f, g := folder(t, db, "/docs"), folder(t, db, "/other")
	check(t, db.ApplyScan(ctx, f, document.Changes{Found: []document.File{file("a.md"), file("b.md"), file("c.md")}}))
	check(t, db.ApplyScan(ctx, g, document.Changes{Found: []document.File{file("d.md")}}))
	known := must(db.Files(ctx, f))(t)
	check(t, db.SaveFailed(ctx, known["a.md"].ID, document.ReasonDenied, "no", time.Time{}))
	check(t, db.SaveSkipped(ctx, known["b.md"].ID, document.ReasonEmpty, file("b.md")))
	check(t, db.SetFolderState(ctx, f, document.FolderWatching, "", time.Unix(20, 0)))
	if got := must(db.Standing(ctx))(t); !got.LastScan.IsZero() {
		t.Errorf("last scan %v although one folder had none", got.LastScan)
	}
	check(t, db.SetFolderState(ctx, g, document.FolderOffline, "missing", time.Unix(10, 0)))
	want := document.Standing{
		Folders: map[document.FolderID]document.FolderState{f: document.FolderWatching, g: document.FolderOffline},
		Pending: must(db.Counts(ctx))(t).Pending, LastScan: time.Unix(10, 0).UTC(),
	}
	if diff := cmp.Diff(want, must(db.Standing(ctx))(t)); diff != "" || want.Pending != 2 {
		t.Errorf("%d pending:\n%s", want.Pending, diff)
	}
}

// A file that was rewritten with the bytes it had is indexed again without being cut.
func TestTouch(t *testing.T) {
	db := open(t)
	ctx := t.Context()
	f := folder(t, db, "/docs")
	id := add(t, db, f, "a.md", chunked("first"))
	newer := file("a.md")
	newer.Modified = epoch.Add(time.Hour)
	check(t, db.ApplyScan(ctx, f, document.Changes{Changed: []document.Change{{ID: id, File: newer}}}))
	if state := must(db.Touch(ctx, id, fingerprint, newer))(t); state != document.Indexed {
		t.Errorf("state %s", state)
	}
	if k := must(db.Files(ctx, f))(t)["a.md"]; !k.File.SameContent(newer) {
		t.Errorf("known as %+v", k)
	}
	if state := must(db.Touch(ctx, id, "model-b", newer))(t); state != document.Embedding {
		t.Errorf("state without vectors of the fingerprint: %s", state)
	}
	if state := must(db.Settle(ctx, id, fingerprint))(t); state != document.Indexed {
		t.Errorf("state settled: %s", state)
	}
	check(t, db.ApplyScan(ctx, f, document.Changes{Found: []document.File{file("b.md")}}))
	unread := must(db.Files(ctx, f))(t)["b.md"].ID
	for what, id := range map[string]document.ID{"unread": unread, "unknown": 999} {
		if _, err := db.Touch(ctx, id, fingerprint, newer); !errors.Is(err, sqlite.ErrNotFound) {
			t.Errorf("touch of an %s document: %v", what, err)
		}
	}
	if got := must(db.Work(ctx, id, 999, unread))(t); len(got) != 2 || got[0].ID != id || got[1].ID != unread {
		t.Errorf("work: %+v", got)
	}
}

func TestRenameKeepsEverything(t *testing.T) {
	db := open(t)
	ctx := t.Context()
	f := folder(t, db, "/docs")
	id := add(t, db, f, "plans/2025.md", chunked("예산안을 승인했다", "more"))
	other := add(t, db, f, "b.md", chunked("something else"))
	before, chunks := vectors(t, db), must(db.Chunks(ctx, id))(t)

	moved := file("archive/회의 2026.md")
	check(t, db.ApplyScan(ctx, f, document.Changes{Moved: []document.Change{{ID: id, File: moved}}}))
	d := must(db.Document(ctx, id))(t)
	if d.Path != moved.Path || d.State != document.Indexed {
		t.Errorf("moved document: %+v", d)
	}
	if diff := cmp.Diff(chunks, must(db.Chunks(ctx, id))(t)); diff != "" {
		t.Errorf("chunks:\n%s", diff)
	}
	if after := vectors(t, db); after != before {
		t.Errorf("%d vectors, %d before", after, before)
	}
	if missing := must(db.MissingVectors(ctx, id, fingerprint))(t); len(missing) != 0 {
		t.Errorf("missing: %+v", missing)
	}
	for query, want := range map[string][]string{"archive": {moved.Path}, "회의": {moved.Path}, "plans": {}, "2025": {}, "예산": {moved.Path}} {
		if diff := cmp.Diff(want, found(t, db, query)); diff != "" {
			t.Errorf("%q:\n%s", query, diff)
		}
	}

	// Two documents change places, a third path is taken over.
	third := add(t, db, f, "c.md", chunked("third"))
	check(t, db.ApplyScan(ctx, f, document.Changes{Moved: []document.Change{{ID: id, File: file("b.md")}, {ID: other, File: file("c.md")}}}))
	if d := must(db.Document(ctx, id))(t); d.Path != "b.md" {
		t.Errorf("swapped: %+v", d)
	}
	if _, err := db.Document(ctx, third); !errors.Is(err, sqlite.ErrNotFound) {
		t.Errorf("overwritten document: %v", err)
	}
	sound(t, db)
}

// A copy, a file that goes and comes back, and one that moves to another
// folder between scans need no embedding.
func TestVectorsBelongToTexts(t *testing.T) {
	ctx := t.Context()
	now := epoch
	db := must(sqlite.OpenConfig(ctx, sqlite.Config{
		Path: filepath.Join(t.TempDir(), "index.db"), Grace: time.Hour, Now: func() time.Time { return now },
	}))(t)
	defer db.Close()
	f, g := folder(t, db, "/docs"), folder(t, db, "/other")
	text := chunked("one passage", "another passage")
	id := add(t, db, f, "a.md", text)

	saveOnly := func(f document.FolderID, path string) (document.ID, document.State) {
		check(t, db.ApplyScan(ctx, f, document.Changes{Found: []document.File{file(path)}}))
		id := must(db.Files(ctx, f))(t)[path].ID
		text.File = file(path)
		return id, must(db.SaveText(ctx, id, text))(t)
	}
	twin, state := saveOnly(f, "copy.md")
	if state != document.Indexed {
		t.Errorf("a copy is %s", state)
	}
	now = now.Add(time.Minute)
	check(t, db.ApplyScan(ctx, f, document.Changes{Gone: []document.ID{id, twin}}))
	if n := vectors(t, db); n != 2 {
		t.Errorf("%d vectors right after the documents went", n)
	}
	if got := must(db.Semantic(ctx, fingerprint, unit("x", dim), document.Filter{}, 10))(t).Hits; len(got) != 0 {
		t.Errorf("vectors without a document are found: %v", got)
	}
	now = now.Add(59 * time.Minute)
	back, state := saveOnly(g, "a.md")
	if state != document.Indexed {
		t.Errorf("a document that came back is %s", state)
	}
	now = now.Add(24 * time.Hour)
	check(t, db.ApplyScan(ctx, f, document.Changes{}))
	if n := vectors(t, db); n != 2 {
		t.Errorf("%d vectors of a text that is in use again", n)
	}
	check(t, db.ApplyScan(ctx, g, document.Changes{Gone: []document.ID{back}}))
	now = now.Add(time.Hour + time.Second)
	check(t, db.ApplyScan(ctx, f, document.Changes{}))
	if n := vectors(t, db); n != 0 {
		t.Errorf("%d vectors after the grace period", n)
	}
	sound(t, db)
}

func TestRemoveFolder(t *testing.T) {
	db := open(t)
	ctx := t.Context()
	f, g := folder(t, db, "/docs"), folder(t, db, "/other")
	add(t, db, f, "a.md", chunked("shared passage", "only in docs"))
	add(t, db, g, "b.md", chunked("shared passage", "only in other"))
	check(t, db.RemoveFolder(ctx, f))
	if got := found(t, db, "passage", "only"); !slices.Equal(got, []string{"b.md"}) {
		t.Errorf("found %v", got)
	}
	if n := vectors(t, db); n != 2 {
		t.Errorf("%d vectors, want those of the other folder", n)
	}
	if err := db.RemoveFolder(ctx, f); !errors.Is(err, sqlite.ErrNotFound) {
		t.Errorf("a second time: %v", err)
	}
	if n := count(t, db, "PRAGMA freelist_count"); n != 0 {
		t.Errorf("%d free pages were kept", n)
	}
	sound(t, db)
}

func TestBytesOfPathsAreKept(t *testing.T) {
	db := open(t)
	ctx := t.Context()
	f := folder(t, db, "/docs")
	nfd, nfc := "\u110e\u1169\u110b\u1161\u11ab.md", "\ucd08\uc548.md" // 초안
	names := []string{nfd, nfc, "caf\xe9.txt", "a\nb.txt", "A.md", "a.md"}
	for i, n := range names {
		add(t, db, f, n, chunked(fmt.Sprintf("passage %d", i)))
	}
	known := must(db.Files(ctx, f))(t)
	for _, n := range names {
		if known[n].File.Path != n {
			t.Errorf("%q is not known by its own bytes", n)
		}
	}
	for _, path := range []string{nfd, nfc} {
		reply := must(db.Lexical(ctx, document.LexicalQuery{Terms: terms("passage"), Filter: document.Filter{Path: path}, Limit: 10}))(t)
		if got := paths(t, db, reply.Hits); !slices.Equal(got, []string{nfd, nfc}) {
			t.Errorf("filter %q finds %q", path, got)
		}
	}
	if got := found(t, db, "초안"); len(got) != 2 {
		t.Errorf("초안 finds %q", got)
	}
	sound(t, db)
}

// The ledger holds after every one of many random steps, seen by a reader on
// another connection, and at the end nothing hangs loose.
func TestLedgerHoldsUnderRandomSteps(t *testing.T) {
	db := open(t)
	ctx := t.Context()
	r := rand.New(rand.NewPCG(1, 2))
	folders := []document.FolderID{folder(t, db, "/a"), folder(t, db, "/b")}
	words := numbered("word%d", 30)
	random := func() document.Text {
		var passages []string
		for range 1 + r.IntN(4) {
			passages = append(passages, words[r.IntN(len(words))]+" "+words[r.IntN(len(words))])
		}
		return chunked(passages...)
	}
	for step := range 600 {
		f := folders[r.IntN(2)]
		known := must(db.Files(ctx, f))(t)
		path := fmt.Sprintf("%d.md", r.IntN(20))
		k, exists := known[path]
		var err error
		switch op := r.IntN(10); {
		case !exists:
			err = db.ApplyScan(ctx, f, document.Changes{Found: []document.File{file(path)}})
		case op == 0:
			err = db.ApplyScan(ctx, f, document.Changes{Gone: []document.ID{k.ID}})
		case op == 1:
			err = db.ApplyScan(ctx, f, document.Changes{Moved: []document.Change{{ID: k.ID, File: file(fmt.Sprintf("%d.md", r.IntN(20)))}}})
		case op == 2:
			err = db.ApplyScan(ctx, f, document.Changes{Changed: []document.Change{{ID: k.ID, File: k.File}}})
		case op == 3:
			err = db.SaveSkipped(ctx, k.ID, document.ReasonBinary, k.File)
		case op == 4:
			err = db.SaveFailed(ctx, k.ID, document.ReasonUnreadable, "x", time.Now())
		case op == 5:
			err = db.Retry(ctx, k.ID)
		case op == 6:
			embed(t, db, k.ID)
		case op == 7 && r.IntN(4) == 0:
			err = switchSomehow(t, db, r)
		default:
			text := random()
			text.File = k.File
			_, err = db.SaveText(ctx, k.ID, text)
		}
		check(t, err)
		balanced(t, db, step)
		tallied(t, db, step)
	}
	if n := count(t, db, "SELECT count(*) FROM chunks c LEFT JOIN documents d ON d.id = c.document_id WHERE d.id IS NULL"); n != 0 {
		t.Errorf("%d chunks without a document", n)
	}
	if n := count(t, db, "SELECT count(*) FROM texts t WHERE (orphaned IS NULL) <> EXISTS (SELECT 1 FROM chunks WHERE text_id = t.id)"); n != 0 {
		t.Errorf("%d texts are wrong about being orphaned", n)
	}
	if n := count(t, db, `SELECT count(*) FROM documents d WHERE state = 'indexed' AND (chunks = 0 OR EXISTS (
		SELECT 1 FROM chunks c WHERE c.document_id = d.id AND NOT EXISTS (SELECT 1 FROM vectors WHERE id % (1 << 40) = c.text_id)))`); n != 0 {
		t.Errorf("%d documents call themselves indexed and are not", n)
	}
	sound(t, db)
}

func balanced(t testing.TB, db *sqlite.DB, step int) {
	t.Helper()
	folders, err := db.Folders(context.Background())
	if err != nil {
		t.Errorf("step %d: %v", step, err)
		return
	}
	for _, f := range folders {
		if c := f.Counts; c.Found != c.Indexed+c.Skipped+c.Failed+c.Pending {
			t.Errorf("step %d: folder %s: %+v", step, f.Path, c)
		}
	}
}

// Readers see whole transactions and go on while the writer holds the file.
func TestReadersDoNotWait(t *testing.T) {
	db := open(t)
	ctx := t.Context()
	f := folder(t, db, "/docs")
	add(t, db, f, "a.md", chunked("예산안 one"))
	tx, err := db.Raw().BeginTx(ctx, nil) // holds the only writer
	check(t, err)
	if _, err := tx.ExecContext(ctx, "DELETE FROM chunks"); err != nil {
		t.Fatal(err)
	}
	if got := found(t, db, "예산"); !slices.Equal(got, []string{"a.md"}) {
		t.Errorf("while a write is under way 예산 finds %v", got)
	}
	if n := len(must(db.Semantic(ctx, fingerprint, unit("q", dim), document.Filter{}, 9))(t).Hits); n != 1 {
		t.Errorf("%d vectors while a write is under way", n)
	}
	// A writer that gives up waiting leaves the queue.
	short, cancel := context.WithCancel(ctx)
	cancel()
	if err := db.Retry(short, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled writer: %v", err)
	}
	check(t, tx.Rollback())
	sound(t, db)
}

func TestReadersAndWritersTogether(t *testing.T) {
	db := open(t)
	ctx := t.Context()
	f := folder(t, db, "/docs")
	texts := []document.Text{chunked("alpha one", "alpha two"), chunked("beta one", "beta two", "beta three")}
	id := add(t, db, f, "a.md", texts[0])
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				// One document flips between two texts: a search sees one or the other.
				reply, err := db.Lexical(ctx, document.LexicalQuery{Terms: terms("alpha", "beta"), Limit: 10})
				if err != nil {
					t.Error(err)
					return
				}
				kinds := make(map[int]int)
				for _, h := range reply.Hits {
					kinds[h.Matched[0]]++
				}
				if !(len(kinds) == 1 && (kinds[0] == 2 || kinds[1] == 3)) {
					t.Errorf("a search saw %v", kinds)
				}
				balanced(t, db, 0)
				if _, err := db.Semantic(ctx, fingerprint, unit("q", dim), document.Filter{}, 5); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 150 {
		text := texts[(i+1)%2]
		text.File = file("a.md")
		must(db.SaveText(ctx, id, text))(t)
		if i < 2 {
			embed(t, db, id)
		}
	}
	close(done)
	wg.Wait()
	sound(t, db)
}
