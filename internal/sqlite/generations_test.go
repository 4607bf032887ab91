package sqlite_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/sqlite"
)

// week is how long tests keep what is retired.
const week = 7 * 24 * time.Hour

func maker(name string) document.Maker {
	return document.Maker{Fingerprint: name, Dim: dim, Model: name + ".gguf", Build: "1", Recipe: "flags of " + name}
}

// complete makes all vectors of a generation beside the one in service, a few at a time.
func complete(t testing.TB, db *sqlite.DB, fingerprint string, step int) (texts int) {
	t.Helper()
	var after int64
	for {
		lacking := must(db.Backlog(t.Context(), fingerprint, after, step))(t)
		if len(lacking) == 0 {
			return texts
		}
		vectors := make(map[document.Hash][]float32)
		for _, l := range lacking {
			vectors[l.Chunk.Hash()] = unit(l.Chunk.Hash(), dim)
			after = l.Text
		}
		check(t, db.AddVectors(t.Context(), fingerprint, dim, vectors))
		texts += len(vectors)
	}
}

// standing is state and figures of each generation, as "b building 2/3".
func standing(t testing.TB, db *sqlite.DB) []string {
	t.Helper()
	var all []string
	for _, g := range must(db.Generations(t.Context()))(t) {
		all = append(all, fmt.Sprintf("%s %s %d/%d", g.Fingerprint, g.State, g.Embedded, g.Texts))
	}
	return all
}

func stands(t testing.TB, db *sqlite.DB, what string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, standing(t, db), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// tallied checks the figures that triggers keep against what they count, and
// that there is at most one active generation.
func tallied(t testing.TB, db *sqlite.DB, step int) {
	t.Helper()
	if n := count(t, db, "SELECT abs((SELECT texts FROM tally) - (SELECT count(*) FROM texts WHERE orphaned IS NULL))"); n != 0 {
		t.Errorf("step %d: the number of texts is wrong by %d", step, n)
	}
	if n := count(t, db, `SELECT count(*) FROM generations g WHERE
		vectors <> (SELECT count(*) FROM vectors v WHERE v.id >> 40 = g.id) OR
		embedded <> (SELECT count(*) FROM vectors v JOIN texts t ON t.id = v.id & 0xFFFFFFFFFF WHERE v.id >> 40 = g.id AND t.orphaned IS NULL)`); n != 0 {
		t.Errorf("step %d: the figures of %d generations are wrong: %v", step, n, standing(t, db))
	}
	if n := count(t, db, "SELECT count(*) FROM vectors v LEFT JOIN generations g ON g.id = v.id >> 40 WHERE g.id IS NULL"); n != 0 {
		t.Errorf("step %d: %d vectors are of no generation", step, n)
	}
}

// switchSomehow does one of the things that happen to generations.
func switchSomehow(t testing.TB, db *sqlite.DB, r *rand.Rand) error {
	ctx, name := t.Context(), fmt.Sprintf("model-%c", 'a'+rune(r.IntN(3)))
	var err error
	switch r.IntN(5) {
	case 0:
		_, _, err = db.Serve(ctx, maker(name))
	case 1:
		if _, err = db.Feed(ctx, maker(name)); err == nil {
			complete(t, db, name, 3)
		}
	case 2:
		_, err = db.Finish(ctx, name, false, 0)
	case 3:
		_, err = db.Collect(ctx, 0, []string{fingerprint}, 5)
	default:
		_, _, err = db.Serve(ctx, maker(fingerprint))
	}
	if errors.Is(err, document.ErrNotFound) {
		return nil
	}
	return err
}

func states(t testing.TB, db *sqlite.DB) map[string]document.State {
	t.Helper()
	all := make(map[string]document.State)
	for _, d := range must(db.Documents(t.Context(), document.DocumentQuery{Limit: 100}))(t) {
		all[d.Path] = d.State
	}
	return all
}

// A generation beside the one in service is filled, switched to and left again
// without one document being pending, and every search is of one generation.
func TestGenerationBesideTheOneInService(t *testing.T) {
	db := open(t)
	ctx := t.Context()
	f := folder(t, db, "/docs")
	must2(db.Serve(ctx, maker("model-a")))(t)
	add(t, db, f, "a.md", chunked("one", "two"))
	add(t, db, f, "b.md", chunked("two", "three"))
	stands(t, db, "the first is active from the start", "model-a active 3/3")

	g := must(db.Feed(ctx, maker("model-b")))(t)
	if g.State != document.Building || g.Missing() != 3 || g.Whole() {
		t.Errorf("opened as %+v", g)
	}
	if g = must(db.Finish(ctx, "model-b", false, 2))(t); g.State != document.Building {
		t.Errorf("%s with 3 texts missing, 2 of them refused", g.State)
	}
	if n := complete(t, db, "model-b", 2); n != 3 {
		t.Errorf("%d texts were missing", n)
	}
	if g = must(db.Finish(ctx, "model-b", false, 0))(t); g.State != document.Ready || g.Completed.IsZero() {
		t.Errorf("filled, it is %+v", g)
	}
	stands(t, db, "beside", "model-a active 3/3", "model-b ready 3/3")

	// Texts that come now are missing in the one that is not in service.
	add(t, db, f, "c.md", chunked("three", "four"))
	stands(t, db, "edited", "model-a active 4/4", "model-b ready 3/4")

	g, embedding := must2(db.Serve(ctx, maker("model-b")))(t)
	if g.State != document.Active || g.Missing() != 1 || embedding != 1 {
		t.Errorf("in service: %+v, %d documents embedding", g, embedding)
	}
	stands(t, db, "switched", "model-a retired 4/4", "model-b active 3/4")
	if diff := cmp.Diff(map[string]document.State{"a.md": document.Indexed, "b.md": document.Indexed, "c.md": document.Embedding}, states(t, db)); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}

	g, embedding = must2(db.Serve(ctx, maker("model-a")))(t)
	if g.State != document.Active || embedding != 0 || g.Recipe != "flags of model-a" {
		t.Errorf("rolled back: %+v, %d documents embedding", g, embedding)
	}
	for path, state := range states(t, db) {
		if state != document.Indexed {
			t.Errorf("%s is %s after the way back", path, state)
		}
	}
	for _, name := range []string{"model-a", "model-b"} {
		reply := must(db.Semantic(ctx, name, unit("q", dim), document.Filter{}, 10))(t)
		if reply.Generation.Fingerprint != name || len(reply.Hits) != map[string]int{"model-a": 6, "model-b": 5}[name] {
			t.Errorf("%s: %d hits of %+v", name, len(reply.Hits), reply.Generation)
		}
	}
	tallied(t, db, 0)
	sound(t, db)
}

func must2[A, B any](a A, b B, err error) func(testing.TB) (A, B) {
	return func(t testing.TB) (A, B) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return a, b
	}
}

// A generation that takes the place of one at once is building until it is
// whole; going back before that leaves nothing to do.
func TestGenerationInPlaceOfTheOneInService(t *testing.T) {
	db := open(t)
	ctx := t.Context()
	f := folder(t, db, "/docs")
	must2(db.Serve(ctx, maker("model-a")))(t)
	a := add(t, db, f, "a.md", chunked("one", "two"))
	b := add(t, db, f, "b.md", chunked("three"))

	g, embedding := must2(db.Serve(ctx, maker("model-b")))(t)
	if g.State != document.Building || embedding != 2 {
		t.Errorf("in place: %+v, %d documents embedding", g, embedding)
	}
	reply := must(db.Semantic(ctx, "model-b", unit("q", dim), document.Filter{}, 10))(t)
	if len(reply.Hits) != 0 || reply.Generation.Whole() || reply.Generation.Missing() != 3 {
		t.Errorf("searched: %+v", reply)
	}
	save(t, db, a, "model-b")
	if g = must(db.Finish(ctx, "model-b", true, 0))(t); g.State != document.Building {
		t.Errorf("%s with a document embedding", g.State)
	}
	stands(t, db, "half way", "model-a active 3/3", "model-b building 2/3")

	if g, embedding = must2(db.Serve(ctx, maker("model-a")))(t); g.State != document.Active || embedding != 0 {
		t.Errorf("back half way: %+v, %d documents embedding", g, embedding)
	}
	if _, embedding = must2(db.Serve(ctx, maker("model-b")))(t); embedding != 1 {
		t.Errorf("%d documents embedding, want the one that still lacks its vector", embedding)
	}
	save(t, db, b, "model-b")
	if g = must(db.Finish(ctx, "model-b", true, 0))(t); g.State != document.Active {
		t.Errorf("whole, it is %s", g.State)
	}
	stands(t, db, "whole", "model-a retired 3/3", "model-b active 3/3")
	tallied(t, db, 0)
}

// save saves all vectors that a document lacks of a generation in service.
func save(t testing.TB, db *sqlite.DB, id document.ID, fingerprint string) {
	t.Helper()
	vectors := make(map[document.Hash][]float32)
	for _, c := range must(db.MissingVectors(t.Context(), id, fingerprint))(t) {
		vectors[c.Hash()] = unit(c.Hash(), dim)
	}
	if state := must(db.SaveVectors(t.Context(), id, fingerprint, dim, vectors))(t); state != document.Indexed {
		t.Errorf("document %d is %s with all its vectors", id, state)
	}
}

// A document that one engine had no valid vector for is indexed by another that has one.
func TestRefusedByOneEngineOnly(t *testing.T) {
	db := open(t)
	ctx := t.Context()
	f := folder(t, db, "/docs")
	must2(db.Serve(ctx, maker("model-a")))(t)
	id := add(t, db, f, "a.md", chunked("one"))
	must2(db.Serve(ctx, maker("model-b")))(t)
	check(t, db.SaveFailed(ctx, id, document.ReasonInvalidVector, "NaN", time.Now()))
	if g := must(db.Finish(ctx, "model-b", true, 0))(t); g.State != document.Active {
		t.Errorf("%s, though nothing waits any more", g.State)
	}
	must2(db.Serve(ctx, maker("model-a")))(t)
	if s := states(t, db)["a.md"]; s != document.Indexed {
		t.Errorf("it is %s with the engine that takes it", s)
	}
	check(t, db.SaveFailed(ctx, id, document.ReasonUnreadable, "gone", time.Now()))
	must2(db.Serve(ctx, maker("model-a")))(t)
	if s := states(t, db)["a.md"]; s != document.Failed {
		t.Errorf("it is %s, though it cannot be read", s)
	}
}

// What is not in use is kept for a week, then removed a little at a time, and
// its place on disk is given back.
func TestCollect(t *testing.T) {
	now := epoch
	db := must(sqlite.OpenConfig(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "index.db"), Now: func() time.Time { return now }}))(t)
	defer func() { check(t, db.Close()) }()
	ctx := t.Context()
	f := folder(t, db, "/docs")
	must2(db.Serve(ctx, maker("model-a")))(t)
	add(t, db, f, "a.md", chunked(numbered("passage %d", 50)...))
	must(db.Feed(ctx, maker("model-b")))(t)
	complete(t, db, "model-b", 64)
	must(db.Finish(ctx, "model-b", false, 0))(t)
	must2(db.Serve(ctx, maker("model-b")))(t)
	now = now.Add(week - time.Second)
	if must(db.Collect(ctx, week, []string{"model-b"}, 20))(t) {
		t.Error("something is removed before its time")
	}
	now = now.Add(2 * time.Second)
	if must(db.Collect(ctx, week, []string{"model-a", "model-b"}, 20))(t) {
		t.Error("something is removed that an engine has just been seen of")
	}
	now = now.Add(week)
	steps := 0
	for must(db.Collect(ctx, week, []string{"model-b"}, 20))(t) {
		if steps++; steps == 1 {
			// Its engine comes back in the middle: what is left of it is of use.
			if g := must(db.Feed(ctx, maker("model-a")))(t); g.State != document.Building || g.Missing() != 20 {
				t.Errorf("half removed, it is %+v", g)
			}
			now = now.Add(week)
		}
	}
	if steps != 4 { // 20 + 20 + 10 vectors, then the row
		t.Errorf("%d steps", steps)
	}
	stands(t, db, "collected", "model-b active 50/50")
	if n := count(t, db, "PRAGMA freelist_count"); n != 0 {
		t.Errorf("%d free pages were kept", n)
	}
	now = now.Add(10 * week)
	if must(db.Collect(ctx, week, nil, 20))(t) {
		t.Error("the active one is removed")
	}
	if s := states(t, db)["a.md"]; s != document.Indexed {
		t.Errorf("the document is %s", s)
	}
	tallied(t, db, 0)
	sound(t, db)
}

// What a generation is said to take is what the file grows by.
func TestVectorBytes(t *testing.T) {
	for _, dim := range []int{128, 1024, 2560, 4096} {
		db := open(t)
		ctx := t.Context()
		f := folder(t, db, "/docs")
		check(t, db.ApplyScan(ctx, f, document.Changes{Found: []document.File{file("a.md")}}))
		id := must(db.Files(ctx, f))(t)["a.md"].ID
		text := chunked(numbered("passage %d", 700)...)
		text.File = file("a.md")
		must(db.SaveText(ctx, id, text))(t)
		said, texts, err := db.VectorCost(ctx, dim)
		check(t, err)
		before := count(t, db, "PRAGMA page_count")
		vectors := make(map[document.Hash][]float32)
		for _, c := range text.Chunks {
			vectors[c.Hash()] = unit(c.Hash(), dim)
		}
		check(t, db.AddVectors(ctx, "model-a", dim, vectors))
		grown := (count(t, db, "PRAGMA page_count") - before) * 16384
		t.Logf("%d dimensions: said %d bytes for %d vectors, grown by %d", dim, said, texts, grown)
		if off := grown - said; texts != 700 || max(off, -off) > said/10+2*16384 {
			t.Errorf("dimension %d: %d bytes said for %d vectors, grown by %d", dim, said, texts, grown)
		}
		if g := must(db.Generations(ctx))(t); g[0].Bytes != said {
			t.Errorf("dimension %d: %d bytes said before, %d after", dim, said, g[0].Bytes)
		}
	}
}

func TestMakersThatNameNoVectors(t *testing.T) {
	db := open(t)
	ctx := t.Context()
	must2(db.Serve(ctx, maker("model-a")))(t)
	wrong := maker("model-a")
	wrong.Dim++
	for _, m := range []document.Maker{{}, {Fingerprint: "x"}, {Dim: 3}, wrong} {
		if _, _, err := db.Serve(ctx, m); err == nil {
			t.Errorf("%+v was taken into service", m)
		}
		if _, err := db.Feed(ctx, m); err == nil {
			t.Errorf("%+v was opened", m)
		}
	}
	if _, err := db.Finish(ctx, "unknown", true, 0); !errors.Is(err, document.ErrNotFound) {
		t.Errorf("an unknown one was finished: %v", err)
	}
	if err := db.AddVectors(ctx, "model-a", dim+1, nil); err == nil {
		t.Error("a fingerprint changed its dimension")
	}
}

// An index of before generations keeps its vectors: the newest kind is active.
func TestGenerationsOfAnOldIndex(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	old := sqlite.OpenOld(t, path, 1)
	for _, statement := range []string{
		"INSERT INTO fingerprints (id, name, dim, created) VALUES (1, 'model-a', 32, 7), (2, 'model-b', 32, 9)",
		"INSERT INTO texts (id, hash, orphaned) VALUES (1, x'01', NULL), (2, x'02', NULL), (3, x'03', 5)",
		"INSERT INTO vectors (id, embedding) VALUES ((1 << 40) + 1, x'00'), ((1 << 40) + 3, x'00'), ((2 << 40) + 1, x'00'), ((2 << 40) + 2, x'00')",
	} {
		if _, err := old.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	check(t, old.Close())
	db := must(sqlite.Open(path))(t)
	defer func() { check(t, db.Close()) }()
	stands(t, db, "migrated", "model-a retired 1/2", "model-b active 2/2")
	tallied(t, db, 0)
	if g := must(db.Generations(t.Context()))(t); g[0].Vectors != 2 || !g[0].Completed.IsZero() || g[1].Completed.IsZero() {
		t.Errorf("migrated: %+v", g)
	}
}
