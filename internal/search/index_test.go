package search_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ondol-app/ondol/internal/chunk"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/extract"
	"github.com/ondol-app/ondol/internal/search"
	"github.com/ondol-app/ondol/internal/sqlite"
)

// library is a real index over real files.
type library struct {
	db     *sqlite.DB
	dir    string
	folder document.FolderID
}

const fingerprint = "test-vectors"

// shelve writes the files, by relative path, and indexes them the way the
// indexer does. vector gives a passage's vector; nil leaves all without one.
func shelve(t *testing.T, files map[string]string, vector func(text string) []float32) library {
	t.Helper()
	l := library{dir: filepath.Join(t.TempDir(), "library")}
	var err error
	if l.db, err = sqlite.Open(filepath.Join(t.TempDir(), "index.db")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.db.Close() })
	var changes document.Changes
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(l.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(files[name]), 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		changes.Found = append(changes.Found, document.File{Path: name, FileID: name, Size: info.Size(), Modified: info.ModTime().UTC()})
	}
	folder, err := l.db.AddFolder(t.Context(), l.dir)
	if err != nil {
		t.Fatal(err)
	}
	l.folder = folder.ID
	if err := l.db.ApplyScan(t.Context(), folder.ID, changes); err != nil {
		t.Fatal(err)
	}
	known, err := l.db.Files(t.Context(), folder.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		l.index(t, name, known[name], vector)
	}
	return l
}

func (l library) index(t *testing.T, name string, known document.Known, vector func(string) []float32) {
	t.Helper()
	text, err := extract.Read(t.Context(), filepath.Join(l.dir, name), extract.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	chunks, err := chunk.Split(text.Content, text.Kind, text.Language, chunk.DefaultSize(), func(texts []string) ([]int, error) {
		counts := make([]int, len(texts))
		for i, s := range texts {
			counts[i] = len(strings.Fields(s)) + 2
		}
		return counts, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.db.SaveText(t.Context(), known.ID, document.Text{Hash: text.Hash, Title: text.Title, Kind: text.Kind, Language: text.Language,
		File: known.File, Chunks: chunks, Fingerprint: fingerprint})
	if err != nil || vector == nil {
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	vectors := make(map[document.Hash][]float32)
	dim := 0
	for _, c := range chunks {
		vectors[c.Hash()] = vector(c.EmbedText())
		dim = len(vectors[c.Hash()])
	}
	if _, err := l.db.SaveVectors(t.Context(), known.ID, fingerprint, dim, vectors); err != nil {
		t.Fatal(err)
	}
}

// embedder gives queries the vectors a test chose for them.
type embedder func(ctx context.Context, text string) ([]float32, error)

func (e embedder) EmbedQuery(ctx context.Context, text string) ([]float32, string, error) {
	v, err := e(ctx, text)
	return v, fingerprint, err
}

var errDown = errors.New("the engine is down")

func (l library) searcher(t *testing.T, e search.Embedder, trust search.Trust) *search.Searcher {
	t.Helper()
	s, err := search.New(search.Config{Store: l.db, Embedder: e, Trust: func(string) search.Trust { return trust }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ask(t *testing.T, s *search.Searcher, req search.Request) search.Reply {
	t.Helper()
	reply, err := s.Search(t.Context(), req)
	if err != nil {
		t.Fatalf("%q: %v", req.Query, err)
	}
	return reply
}

// names are the results' files relative to the library.
func (l library) names(results []search.Result) []string {
	out := []string{}
	for _, r := range results {
		rel, err := filepath.Rel(l.dir, r.Path)
		if err != nil {
			rel = r.Path
		}
		out = append(out, rel)
	}
	return out
}
