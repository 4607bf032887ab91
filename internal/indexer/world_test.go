package indexer_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/indexer"
	"github.com/ondol-app/ondol/internal/sqlite"
	"github.com/ondol-app/ondol/internal/vector"
	"github.com/ondol-app/ondol/internal/watch"
)

// patience bounds how long a test waits for what must come.
const patience = 60 * time.Second

const dim = 8

// fakeEngine is an Embedder without an engine: vectors follow from the text
// alone, tokens are words. Faults happen when a test asks for them.
type fakeEngine struct {
	mu          sync.Mutex
	fingerprint string
	down        error                 // returned by everything while set
	invalid     string                // a text with this in it gives no valid vector
	crash       string                // a text with this in it gives an error that is about no text
	hold        chan struct{}         // when set, every Embed takes one from it first
	embedded    map[document.Hash]int // how often each text was embedded
	calls       int
}

func newFakeEngine() *fakeEngine {
	return &fakeEngine{fingerprint: "fake-1", embedded: make(map[document.Hash]int)}
}

func (e *fakeEngine) set(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
}

func (e *fakeEngine) Maker() (document.Maker, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return document.Maker{Fingerprint: e.fingerprint, Dim: dim, Model: e.fingerprint}, e.down
}

func (e *fakeEngine) CountTokens(_ context.Context, texts []string) ([]int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	counts := make([]int, len(texts))
	for i, t := range texts {
		counts[i] = len(strings.Fields(t)) + 2
	}
	return counts, e.down
}

func (e *fakeEngine) Embed(ctx context.Context, texts []string) ([][]float32, string, error) {
	e.mu.Lock()
	hold := e.hold
	e.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, "", ctx.Err()
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls++
	if e.down != nil {
		return nil, "", e.down
	}
	var problems []vector.Problem
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		if e.crash != "" && strings.Contains(text, e.crash) {
			return nil, "", errors.New("connection reset")
		}
		if e.invalid != "" && strings.Contains(text, e.invalid) {
			problems = append(problems, vector.Problem{Index: i, Reason: vector.ReasonNotFinite})
		}
		vectors[i] = vectorOf(text)
	}
	if problems != nil {
		return nil, "", &vector.InvalidError{Problems: problems}
	}
	for _, text := range texts {
		e.embedded[document.HashText(text)]++
	}
	return vectors, e.fingerprint, nil
}

// vectorOf is a vector of norm 1 that follows from the text.
func vectorOf(text string) []float32 {
	sum := sha256.Sum256([]byte(text))
	v := make([]float32, dim)
	for i := range v {
		v[i] = float32(binary.LittleEndian.Uint32(sum[4*i:]))/(1<<31) - 1
	}
	if err := vector.Normalize(v); err != nil {
		panic(err)
	}
	return v
}

// world is a watched folder, its index and a running indexer.
type world struct {
	t      *testing.T
	root   string
	db     *sqlite.DB
	engine *fakeEngine
	ix     *indexer.Indexer
	stop   func()

	own     []string                                // of the next run
	readDir func(dir string) ([]fs.DirEntry, error) // of the next run
	keep    time.Duration                           // of the next run
}

// quick are watch times for tests.
var quick = watch.Config{Quiet: 15 * time.Millisecond, Max: 100 * time.Millisecond, Return: 20 * time.Millisecond, Poll: 100 * time.Millisecond, Check: 100 * time.Millisecond}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, root: filepath.Join(t.TempDir(), "root"), engine: newFakeEngine()}
	w.root = mustPath(t, w.root)
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "index.db"))
	check(t, err)
	w.db = db
	t.Cleanup(func() { check(t, db.Close()) })
	w.run()
	t.Cleanup(func() { w.stop() })
	return w
}

// mustPath makes a directory and returns its path without links.
func mustPath(t *testing.T, dir string) string {
	t.Helper()
	check(t, os.MkdirAll(dir, 0o755))
	p, err := filepath.EvalSymlinks(dir)
	check(t, err)
	return p
}

// run starts an indexer on the index; stop ends it.
func (w *world) run() {
	w.t.Helper()
	ix, err := indexer.New(indexer.Config{
		Store: w.db, Embedder: w.engine, Log: slog.New(slog.NewTextHandler(testWriter{w.t}, nil)), DefaultIgnores: true, Watch: quick,
		Own: w.own, ReadDir: w.readDir, Keep: w.keep,
	})
	check(w.t, err)
	w.ix = ix
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- ix.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				w.t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			w.t.Error("Run did not return")
		}
	})
}

// testWriter sends log lines to the test, whose end it may outlive by none.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", bytes.TrimRight(p, "\n"))
	return len(p), nil
}

func (w *world) add() document.Folder {
	w.t.Helper()
	f, err := w.ix.Add(context.Background(), w.root)
	check(w.t, err)
	return f
}

func (w *world) write(rel, content string) {
	w.t.Helper()
	p := filepath.Join(w.root, rel)
	check(w.t, os.MkdirAll(filepath.Dir(p), 0o755))
	check(w.t, os.WriteFile(p, []byte(content), 0o644))
}

func (w *world) rename(from, to string) {
	w.t.Helper()
	check(w.t, os.MkdirAll(filepath.Dir(filepath.Join(w.root, to)), 0o755))
	check(w.t, os.Rename(filepath.Join(w.root, from), filepath.Join(w.root, to)))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// until polls a condition that must come true.
func (w *world) until(what string, cond func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for !cond() {
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: not after %v\nindex: %v\nstats: %+v\nwatching: %+v", what, patience, w.describe(), w.ix.Stats(), w.ix.Watching())
		}
		<-time.After(5 * time.Millisecond)
	}
}

func (w *world) documents() map[string]document.Document {
	w.t.Helper()
	all, err := w.db.Documents(context.Background(), document.DocumentQuery{Limit: 100_000})
	check(w.t, err)
	byPath := make(map[string]document.Document)
	for _, d := range all {
		byPath[d.Path] = d
	}
	return byPath
}

func (w *world) describe() []string {
	var lines []string
	for p, d := range w.documents() {
		lines = append(lines, fmt.Sprintf("%s %s %s", p, d.State, d.Reason))
	}
	return lines
}

// text is what the index holds of each document, by path: its passages without
// white space, which passages leave out between them.
func text(t *testing.T, db *sqlite.DB) map[string]string {
	t.Helper()
	all, err := db.Documents(context.Background(), document.DocumentQuery{Limit: 100_000})
	check(t, err)
	got := make(map[string]string)
	for _, d := range all {
		if d.State != document.Indexed {
			got[d.Path] = d.State.String() + "(" + string(d.Reason) + ")"
			continue
		}
		chunks, err := db.Chunks(context.Background(), d.ID)
		check(t, err)
		var b strings.Builder
		for _, c := range chunks {
			b.WriteString(c.Text)
		}
		got[d.Path] = strings.Join(strings.Fields(b.String()), "")
	}
	return got
}

// files is what a tree of plain text holds, by path, as text gives it.
func files(t *testing.T, root string) map[string]string {
	t.Helper()
	want := make(map[string]string)
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		want[filepath.ToSlash(rel)] = strings.Join(strings.Fields(string(content)), "")
		return err
	})
	check(t, err)
	return want
}

// settled waits until the index says exactly what the tree says and nothing is pending.
func (w *world) settled() {
	w.t.Helper()
	want := files(w.t, w.root)
	var last map[string]string
	deadline := time.Now().Add(patience)
	for {
		if last = text(w.t, w.db); cmp.Equal(want, last) {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("the index does not follow the tree (-tree +index):\n%s\nstats %+v\nwatching %+v", cmp.Diff(want, last), w.ix.Stats(), w.ix.Watching())
		}
		<-time.After(5 * time.Millisecond)
	}
}

// watchLedger checks at every moment that the columns of the ledger add up.
func (w *world) watchLedger() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			folders, err := w.db.Folders(ctx)
			if err != nil {
				continue
			}
			for _, f := range folders {
				c := f.Counts
				if c.Found != c.Indexed+c.Skipped+c.Failed+c.Pending {
					w.t.Errorf("the ledger does not add up: %+v", c)
				}
			}
		}
	}()
	w.t.Cleanup(func() { cancel(); <-ended })
}
