package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/sqlite"
)

// crashEnv makes the test binary the process that is killed.
const crashEnv = "ONDOL_TEST_CRASH_INDEX"

func TestMain(m *testing.M) {
	if path := os.Getenv(crashEnv); path != "" {
		if err := writeForever(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if path := os.Getenv(crashCacheEnv); path != "" {
		if err := cacheForever(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// writeForever rewrites ten documents without end and says so after each
// transaction. Every version of a document has as many passages as its number
// says, all of one word.
func writeForever(path string) error {
	ctx := context.Background()
	db, err := sqlite.Open(path)
	if err != nil {
		return err
	}
	folders, err := db.Folders(ctx)
	if err != nil {
		return err
	}
	known, err := db.Files(ctx, folders[0].ID)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		for name, k := range known {
			n := 1 + (i*7+len(name))%23
			text := chunked(numbered(fmt.Sprintf("version%d of %s number %%d", n, name), n)...)
			text.File = k.File
			if _, err := db.SaveText(ctx, k.ID, text); err != nil {
				return err
			}
			vectors := make(map[document.Hash][]float32)
			for _, c := range text.Chunks {
				vectors[c.Hash()] = unit(c.Hash(), dim)
			}
			if _, err := db.SaveVectors(ctx, k.ID, fingerprint, dim, vectors); err != nil {
				return err
			}
			fmt.Println(i)
		}
	}
}

// A process that is killed in the middle of writing leaves whole documents
// only: every passage of one version, each with its words, none without its
// document; what calls itself indexed has all its vectors.
func TestKilledWhileWriting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	db := must(sqlite.Open(path))(t)
	f := folder(t, db, "/docs")
	for _, n := range numbered("%d.md", 10) {
		check(t, db.ApplyScan(t.Context(), f, document.Changes{Found: []document.File{file(n)}}))
	}
	check(t, db.Close())
	for round := range 8 {
		// Another number of transactions each time, killed in the middle of the next ones.
		killAfter(t, crashEnv, path, 5+round*9)
		db := must(sqlite.Open(path))(t)
		sound(t, db)
		balanced(t, db, round)
		whole(t, db)
		check(t, db.Close())
	}
}

func killAfter(t *testing.T, env, path string, writes int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), env+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for range writes {
		if !lines.Scan() {
			t.Fatalf("the writer ended by itself: %v", cmd.Wait())
		}
	}
	check(t, cmd.Process.Kill())
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the writer was not killed: %v", err)
	}
}

func whole(t *testing.T, db *sqlite.DB) {
	t.Helper()
	docs := must(db.Documents(t.Context(), document.DocumentQuery{Limit: 100}))(t)
	written := 0
	for _, d := range docs {
		chunks := must(db.Chunks(t.Context(), d.ID))(t)
		if len(chunks) != d.Chunks {
			t.Errorf("%s: %d passages, its row says %d", d.Path, len(chunks), d.Chunks)
		}
		if len(chunks) == 0 {
			continue
		}
		written++
		word := fmt.Sprintf("version%d", len(chunks))
		reply := must(db.Lexical(t.Context(), document.LexicalQuery{Terms: terms(word), Filter: document.Filter{Path: d.Path}, Limit: 100}))(t)
		if len(reply.Hits) != len(chunks) {
			t.Errorf("%s: %d of %d passages are found by %s", d.Path, len(reply.Hits), len(chunks), word)
		}
		missing := must(db.MissingVectors(t.Context(), d.ID, fingerprint))(t)
		if (d.State == document.Indexed) != (len(missing) == 0) {
			t.Errorf("%s is %s with %d vectors missing", d.Path, d.State, len(missing))
		}
	}
	if written == 0 {
		t.Error("nothing was written before the kill")
	}
}
