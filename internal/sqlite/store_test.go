package sqlite_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/sqlite"
	"github.com/ondol-app/ondol/internal/vector"
)

const fingerprint = "model-a"

// dim is the dimension of the vectors that tests make.
const dim = 32

var epoch = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

func open(t testing.TB) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "index.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sound fails the test when the file, its references or its words are not in order.
func sound(t testing.TB, db *sqlite.DB) {
	t.Helper()
	if problems := must(db.Check(t.Context()))(t); len(problems) > 0 {
		t.Errorf("check: %s", strings.Join(problems, "; "))
	}
	if _, err := db.Raw().ExecContext(t.Context(), "INSERT INTO passages (passages, rank) VALUES ('integrity-check', 1)"); err != nil {
		t.Errorf("check words: %v", err)
	}
}

func file(path string) document.File {
	return document.File{Path: path, FileID: "1:" + path, Size: int64(len(path)), Modified: epoch}
}

// chunked makes a text of the given passages.
func chunked(passages ...string) document.Text {
	t := document.Text{Hash: document.HashText(strings.Join(passages, "\n")), Kind: document.KindText, Fingerprint: fingerprint}
	at, line := 0, 1
	for i, p := range passages {
		lines := strings.Count(p, "\n")
		t.Chunks = append(t.Chunks, document.Chunk{
			Ordinal: i, Start: at, End: at + len(p), Line: line, LastLine: line + lines, Text: p, Tokens: len(p)/4 + 1,
		})
		at, line = at+len(p)+1, line+lines+1
	}
	return t
}

// unit is a vector of norm 1 that depends on the text alone.
func unit(hash document.Hash, dim int) []float32 {
	var seed [32]byte
	copy(seed[:], hash)
	r := rand.New(rand.NewChaCha8(seed))
	v := make([]float32, dim)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	if err := vector.Normalize(v); err != nil {
		panic(err)
	}
	return v
}

// add puts a file with the given text into the index, up to its vectors.
func add(t testing.TB, db *sqlite.DB, folder document.FolderID, path string, text document.Text) document.ID {
	t.Helper()
	ctx := t.Context()
	check(t, db.ApplyScan(ctx, folder, document.Changes{Found: []document.File{file(path)}}))
	id := must(db.Files(ctx, folder))(t)[path].ID
	if id == 0 {
		t.Fatalf("%s is not known after the scan that found it", path)
	}
	text.File = file(path)
	must(db.SaveText(ctx, id, text))(t)
	if state := embed(t, db, id); state != document.Indexed {
		t.Fatalf("%s is %s after its vectors were saved", path, state)
	}
	return id
}

// embed saves all vectors that a document lacks.
func embed(t testing.TB, db *sqlite.DB, id document.ID) document.State {
	t.Helper()
	missing := must(db.MissingVectors(t.Context(), id, fingerprint))(t)
	vectors := make(map[document.Hash][]float32)
	for _, c := range missing {
		vectors[c.Hash()] = unit(c.Hash(), dim)
	}
	return must(db.SaveVectors(t.Context(), id, fingerprint, dim, vectors))(t)
}

func terms(words ...string) []document.Term {
	all := make([]document.Term, len(words))
	for i, w := range words {
		all[i].Text = w
	}
	return all
}

// found lists the paths of the documents that hold the words, sorted.
func found(t testing.TB, db *sqlite.DB, words ...string) []string {
	t.Helper()
	reply := must(db.Lexical(t.Context(), document.LexicalQuery{Terms: terms(words...), Limit: 100}))(t)
	return paths(t, db, reply.Hits)
}

func paths(t testing.TB, db *sqlite.DB, hits []document.Hit) []string {
	t.Helper()
	all := []string{}
	for _, h := range hits {
		d := must(db.Document(t.Context(), h.Document))(t)
		all = append(all, d.Path)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func ids(hits []document.Hit) []document.ChunkID {
	all := make([]document.ChunkID, len(hits))
	for i, h := range hits {
		all[i] = h.Chunk
	}
	return all
}

// count runs a query of one number.
func count(t testing.TB, db *sqlite.DB, query string, args ...any) (n int64) {
	t.Helper()
	check(t, db.Raw().QueryRowContext(context.Background(), query, args...).Scan(&n))
	return n
}

func folder(t testing.TB, db *sqlite.DB, path string) document.FolderID {
	t.Helper()
	return must(db.AddFolder(t.Context(), path))(t).ID
}

func numbered(format string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(format, i)
	}
	return all
}
