package indexer_test

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/indexer"
	"github.com/ondol-app/ondol/internal/process"
	"github.com/ondol-app/ondol/internal/sqlite"
)

// hands does to a tree what people and programs do, at random.
type hands struct {
	t    *testing.T
	r    *rand.Rand
	root string
	n    int // made texts, so that each is new
}

func (h *hands) path(rel string) string { return filepath.Join(h.root, filepath.FromSlash(rel)) }

func (h *hands) text() string {
	h.n++
	words := []string{"river", "stone", "마루", "온돌", "window", "copper", "tea", "함께", "north"}
	var b strings.Builder
	for range 1 + h.r.IntN(40) {
		fmt.Fprintf(&b, "%s ", words[h.r.IntN(len(words))])
	}
	return fmt.Sprintf("%s %d", b.String(), h.n)
}

var (
	dirNames  = []string{"a", "b", "c/d", "c/e", "c/d/f", "문서"}
	fileNames = []string{"one.txt", "two.md", "three.txt", "넷.txt", "five.go"}
)

func (h *hands) fileName() string {
	name := fileNames[h.r.IntN(len(fileNames))]
	if h.r.IntN(4) == 0 {
		return name
	}
	return dirNames[h.r.IntN(len(dirNames))] + "/" + name
}

// existing returns the paths of all files or directories, in order.
func (h *hands) existing(dirs bool) []string {
	var all []string
	err := filepath.WalkDir(h.root, func(p string, d os.DirEntry, err error) error {
		if err == nil && p != h.root && d.IsDir() == dirs {
			all = append(all, strings.TrimPrefix(p, h.root+"/"))
		}
		return err
	})
	check(h.t, err)
	return all
}

func (h *hands) put(rel, content string) {
	check(h.t, os.MkdirAll(filepath.Dir(h.path(rel)), 0o755))
	if info, err := os.Lstat(h.path(rel)); err == nil && info.IsDir() {
		return
	}
	check(h.t, os.WriteFile(h.path(rel), []byte(content), 0o644))
}

// act does one thing. What it names may be in the way of itself (a directory
// into its own child): the system refuses, which is as good as nothing done.
func (h *hands) act() {
	files, dirs := h.existing(false), h.existing(true)
	if len(files) == 0 {
		h.put(h.fileName(), h.text())
		return
	}
	file := files[h.r.IntN(len(files))]
	switch h.r.IntN(12) {
	case 0, 1, 2:
		h.put(h.fileName(), h.text())
	case 3: // written in place
		h.put(file, h.text())
	case 4: // grown
		f, err := os.OpenFile(h.path(file), os.O_APPEND|os.O_WRONLY, 0)
		check(h.t, err)
		_, err = f.WriteString(" " + h.text())
		check(h.t, err)
		check(h.t, f.Close())
	case 5: // written beside and renamed over
		h.put(file+".tmp", h.text())
		check(h.t, os.Rename(h.path(file+".tmp"), h.path(file)))
	case 6: // renamed, perhaps over another
		to := h.fileName()
		check(h.t, os.MkdirAll(filepath.Dir(h.path(to)), 0o755))
		_ = os.Rename(h.path(file), h.path(to))
	case 7: // copied
		content, err := os.ReadFile(h.path(file))
		check(h.t, err)
		h.put(h.fileName(), string(content))
	case 8:
		check(h.t, os.Remove(h.path(file)))
	case 9: // swapped
		other := files[h.r.IntN(len(files))]
		if other != file {
			check(h.t, os.Rename(h.path(file), h.path("swap.txt")))
			check(h.t, os.Rename(h.path(other), h.path(file)))
			check(h.t, os.Rename(h.path("swap.txt"), h.path(other)))
		}
	case 10: // a directory moved, perhaps into another
		if len(dirs) > 0 {
			to := fmt.Sprintf("%s/g%d", dirNames[h.r.IntN(len(dirNames))], h.r.IntN(3))
			check(h.t, os.MkdirAll(filepath.Dir(h.path(to)), 0o755))
			_ = os.Rename(h.path(dirs[h.r.IntN(len(dirs))]), h.path(to))
		}
	case 11:
		if len(dirs) > 0 && h.r.IntN(3) == 0 {
			check(h.t, os.RemoveAll(h.path(dirs[h.r.IntN(len(dirs))])))
		}
	}
}

// contents is everything an index says of its documents but their ids.
func contents(t *testing.T, db *sqlite.DB, fingerprint string) map[string][]string {
	t.Helper()
	ctx := context.Background()
	all, err := db.Documents(ctx, document.DocumentQuery{Limit: 100_000})
	check(t, err)
	got := make(map[string][]string)
	for _, d := range all {
		lines := []string{fmt.Sprintf("%s %s %s %s %d", d.State, d.Reason, d.Kind, d.Title, d.Size)}
		chunks, err := db.Chunks(ctx, d.ID)
		check(t, err)
		for _, c := range chunks {
			lines = append(lines, fmt.Sprintf("%d-%d %d-%d %s: %s", c.Start, c.End, c.Line, c.LastLine, c.Heading, c.Text))
		}
		missing, err := db.MissingVectors(ctx, d.ID, fingerprint)
		check(t, err)
		got[d.Path] = append(lines, fmt.Sprintf("%d vectors missing", len(missing)))
	}
	return got
}

// sameAsFresh compares the index with one made anew of the same tree, and has
// the database check itself.
func (w *world) sameAsFresh() {
	w.t.Helper()
	fresh := newWorld(w.t)
	fresh.root = w.root
	fresh.add()
	fresh.settled()
	if d := cmp.Diff(contents(w.t, fresh.db, "fake-1"), contents(w.t, w.db, "fake-1")); d != "" {
		w.t.Errorf("the index differs from a fresh one (-fresh +index):\n%s", d)
	}
	problems, err := w.db.Check(context.Background())
	check(w.t, err)
	if len(problems) > 0 {
		w.t.Errorf("the database says: %v", problems)
	}
	fresh.stop()
}

// Whatever is done to a tree, in whatever order and haste, the index ends as
// one that is made anew; in between, the ledger always adds up.
func TestIndexFollowsTheTree(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3, 4, 11, 12} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t)
			h := &hands{t: t, r: rand.New(rand.NewPCG(seed, 0)), root: w.root}
			for range 30 {
				h.act()
			}
			w.watchLedger()
			w.add()
			for range 6 {
				for range 40 {
					h.act()
				}
				if h.r.IntN(2) == 0 {
					w.settled()
				}
			}
			w.settled()
			w.sameAsFresh()
		})
	}
}

// Renames and moves of every sort, many at once, embed nothing.
func TestRenamesEmbedNothing(t *testing.T) {
	w := newWorld(t)
	h := &hands{t: t, r: rand.New(rand.NewPCG(7, 0)), root: w.root}
	for i := range 120 {
		h.put(fmt.Sprintf("d%d/f%d.txt", i%12, i), h.text())
	}
	w.add()
	w.settled()
	ids := w.documents()
	embedded := w.ix.Stats().EmbeddedChunks
	for i := range 12 {
		w.rename(fmt.Sprintf("d%d", i), fmt.Sprintf("moved/e%d", i))
	}
	w.settled()
	for i := range 120 {
		w.rename(fmt.Sprintf("moved/e%d/f%d.txt", i%12, i), fmt.Sprintf("x%d/y/g%d.txt", i%5, i))
	}
	w.settled()
	if got := w.ix.Stats().EmbeddedChunks; got != embedded {
		t.Errorf("%d chunks embedded by renames", got-embedded)
	}
	if n := len(w.documents()); n != len(ids) {
		t.Errorf("%d documents, were %d", n, len(ids))
	}
}

const (
	childRoot  = "ONDOL_TEST_INDEXER_ROOT"
	childIndex = "ONDOL_TEST_INDEXER_INDEX"
)

// TestMain lets the test binary be the process that is killed.
func TestMain(m *testing.M) {
	process.GuardMain()
	if files := os.Getenv(childBench); files != "" {
		if err := fillUntilKilled(benchFilesOf(files)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if root := os.Getenv(childRoot); root != "" {
		if err := child(root, os.Getenv(childIndex)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child indexes until it is killed. It says so when it begins.
func child(root, index string) error {
	db, err := sqlite.Open(index)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx := context.Background()
	if folders, err := db.Folders(ctx); err != nil {
		return err
	} else if len(folders) == 0 {
		if _, err := db.AddFolder(ctx, root); err != nil {
			return err
		}
	}
	ix, err := indexer.New(indexer.Config{Store: db, Embedder: newFakeEngine(), DefaultIgnores: true, Watch: quick})
	if err != nil {
		return err
	}
	fmt.Println("running")
	return ix.Run(ctx)
}

// kill -9 at any moment, again and again while files change: whoever goes on
// with the index ends where a fresh one does.
func TestKilledInTheMiddle(t *testing.T) {
	w := newWorld(t)
	w.stop()
	h := &hands{t: t, r: rand.New(rand.NewPCG(11, 0)), root: w.root}
	for range 60 {
		h.act()
	}
	for range 12 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childRoot+"="+w.root, childIndex+"="+w.db.Path())
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		check(t, err)
		check(t, cmd.Start())
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatalf("child said %q: %v", line, err)
		}
		// The moment of death is wherever this many deeds have got it to.
		for range h.r.IntN(60) {
			h.act()
		}
		check(t, cmd.Process.Kill())
		_ = cmd.Wait() // killed, as wanted
	}
	w.watchLedger()
	w.run()
	w.settled()
	w.sameAsFresh()
}

// Stopping and starting in order serves the same index and does nothing again.
func TestRestartServesTheSameIndex(t *testing.T) {
	w := newWorld(t)
	h := &hands{t: t, r: rand.New(rand.NewPCG(5, 0)), root: w.root}
	for range 50 {
		h.act()
	}
	w.add()
	w.settled()
	w.stop()
	before := w.documents()
	w.run()
	w.until("the scan after the start", func() bool {
		folders, err := w.db.Folders(context.Background())
		check(t, err)
		return len(w.ix.Watching()) == 1 && folders[0].State == document.FolderWatching
	})
	w.write("last.txt", "written after the restart")
	w.settled()
	after := w.documents()
	delete(after, "last.txt")
	if d := cmp.Diff(slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after))); d != "" {
		t.Errorf("(-before +after):\n%s", d)
	}
	if s := w.ix.Stats(); s.EmbeddedChunks != 1 || s.Read != 1 {
		t.Errorf("stats %+v: want the new file alone read and embedded", s)
	}
}
