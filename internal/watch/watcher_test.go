package watch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/watch"
)

// patience bounds how long a test waits for a hint that must come.
const patience = 20 * time.Second

// start runs a watcher on cfg.Root with short times and returns after its
// first batch, which must be a rescan.
func start(t *testing.T, cfg watch.Config) *watch.Watcher {
	t.Helper()
	if cfg.Quiet == 0 {
		cfg.Quiet = 20 * time.Millisecond
	}
	if cfg.Return == 0 {
		cfg.Return = 10 * time.Millisecond
	}
	w, err := watch.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			t.Error("Run did not return")
		}
	})
	if b := next(t, w); !b.Rescan {
		t.Fatalf("first batch %+v, want a rescan", b)
	}
	return w
}

func next(t *testing.T, w *watch.Watcher) watch.Batch {
	t.Helper()
	select {
	case b := <-w.Batches():
		return b
	case <-time.After(patience):
		t.Fatalf("no batch; state %+v", w.State())
		return watch.Batch{}
	}
}

// await reads batches until one covers every path.
func await(t *testing.T, w *watch.Watcher, paths ...string) {
	t.Helper()
	missing := slices.Clone(paths)
	var seen []watch.Batch
	for len(missing) > 0 {
		select {
		case b := <-w.Batches():
			seen = append(seen, b)
			missing = slices.DeleteFunc(missing, func(p string) bool {
				return slices.ContainsFunc(b.Paths, func(q string) bool { return q == p || strings.HasPrefix(p, q+"/") })
			})
		case <-time.After(patience):
			t.Fatalf("no hint for %v; batches %+v; state %+v", missing, seen, w.State())
		}
	}
}

func write(t *testing.T, root, rel string) {
	t.Helper()
	p := filepath.Join(root, rel)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(rel), 0o644); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFileIsCreatedChangedRenamedDeleted(t *testing.T) {
	root := t.TempDir()
	write(t, root, "sub/old.txt")
	w := start(t, watch.Config{Root: root})

	write(t, root, "sub/new.txt")
	await(t, w, "sub/new.txt")
	write(t, root, "sub/old.txt")
	await(t, w, "sub/old.txt")
	must(t, os.Rename(filepath.Join(root, "sub/old.txt"), filepath.Join(root, "moved.txt")))
	await(t, w, "sub/old.txt", "moved.txt")
	must(t, os.Remove(filepath.Join(root, "moved.txt")))
	await(t, w, "moved.txt")
}

// A file made right after its directories exists before they are watched;
// the directory itself is then the hint.
func TestDirectoriesMadeLater(t *testing.T) {
	root := t.TempDir()
	w := start(t, watch.Config{Root: root})
	for i := range 20 {
		rel := fmt.Sprintf("d%d/deep/deeper/f.txt", i)
		write(t, root, rel)
		await(t, w, rel)
		write(t, root, fmt.Sprintf("d%d/deep/deeper/later.txt", i))
		await(t, w, fmt.Sprintf("d%d/deep/deeper/later.txt", i))
	}
}

// After a directory was renamed, what happens in it is reported under its new
// name, at every depth, also when the old name is taken again.
func TestDirectoryRenamed(t *testing.T) {
	root := t.TempDir()
	write(t, root, "a/b/c/f.txt")
	w := start(t, watch.Config{Root: root})

	must(t, os.Rename(filepath.Join(root, "a"), filepath.Join(root, "z")))
	await(t, w, "a", "z")
	write(t, root, "z/b/c/g.txt")
	await(t, w, "z/b/c/g.txt")

	write(t, root, "a/b/c/h.txt")
	await(t, w, "a/b/c/h.txt")
	write(t, root, "a/b/c/i.txt")
	await(t, w, "a/b/c/i.txt")
	write(t, root, "z/b/c/j.txt")
	await(t, w, "z/b/c/j.txt")

	// Swapped through a third name.
	must(t, os.Rename(filepath.Join(root, "a"), filepath.Join(root, "t")))
	must(t, os.Rename(filepath.Join(root, "z"), filepath.Join(root, "a")))
	must(t, os.Rename(filepath.Join(root, "t"), filepath.Join(root, "z")))
	await(t, w, "a", "z")
	write(t, root, "a/b/c/k.txt")
	await(t, w, "a/b/c/k.txt")
	write(t, root, "z/b/c/l.txt")
	await(t, w, "z/b/c/l.txt")

	must(t, os.RemoveAll(filepath.Join(root, "a")))
	await(t, w, "a")
}

func TestSkippedDirectoriesAreNotWatched(t *testing.T) {
	root := t.TempDir()
	write(t, root, "node_modules/x/y.js")
	write(t, root, "src/y.js")
	var mu sync.Mutex
	skipping := true
	w := start(t, watch.Config{Root: root, Skip: func(rel string, _ bool) bool {
		mu.Lock()
		defer mu.Unlock()
		return skipping && rel == "node_modules"
	}})
	if got := w.State().Watched; got != 2 { // the root and src
		t.Errorf("%d directories watched, want 2", got)
	}
	write(t, root, "node_modules/x/z.js")
	write(t, root, "src/z.js")
	if b := next(t, w); !slices.Equal(b.Paths, []string{"src/z.js"}) {
		t.Errorf("batch %+v, want src/z.js alone", b)
	}

	mu.Lock()
	skipping = false
	mu.Unlock()
	w.Refresh()
	for w.State().Watched != 4 {
		if t.Context().Err() != nil {
			t.Fatal("never watched")
		}
		write(t, root, "src/z.js")
		next(t, w)
	}
	write(t, root, "node_modules/x/w.js")
	await(t, w, "node_modules/x/w.js")
}

func TestSymbolicLinksAreNotFollowed(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	write(t, outside, "d/f.txt")
	must(t, os.Symlink(outside, filepath.Join(root, "before")))
	must(t, os.Symlink(root, filepath.Join(root, "cycle")))
	w := start(t, watch.Config{Root: root})
	must(t, os.Symlink(outside, filepath.Join(root, "after")))
	await(t, w, "after")
	if got := w.State().Watched; got != 1 {
		t.Errorf("%d directories watched, want the root alone", got)
	}
}

func TestRootGoesAndComesBack(t *testing.T) {
	parent := t.TempDir()
	root := filepath.Join(parent, "root")
	write(t, root, "a.txt")
	w := start(t, watch.Config{Root: root})

	must(t, os.Rename(root, filepath.Join(parent, "away")))
	if b := next(t, w); !b.Rescan {
		t.Fatalf("batch %+v after the root went, want a rescan", b)
	}
	write(t, filepath.Join(parent, "away"), "b.txt")
	must(t, os.Rename(filepath.Join(parent, "away"), root))
	for w.State().Mode != watch.ModeEvents {
		next(t, w)
	}
	write(t, root, "c.txt")
	for {
		if b := next(t, w); slices.Contains(b.Paths, "c.txt") {
			return
		} else if !b.Rescan {
			t.Fatalf("batch %+v, want c.txt or a rescan", b)
		}
		write(t, root, "c.txt")
	}
}

// The parent is renamed: no notification tells, the periodic look at the root does.
func TestRootReplacedWithoutNotification(t *testing.T) {
	top := t.TempDir()
	root := filepath.Join(top, "parent", "root")
	write(t, root, "a.txt")
	w := start(t, watch.Config{Root: root, Check: 10 * time.Millisecond})
	must(t, os.Rename(filepath.Join(top, "parent"), filepath.Join(top, "gone")))
	if b := next(t, w); !b.Rescan {
		t.Fatalf("batch %+v, want a rescan", b)
	}
	write(t, root, "a.txt")
	for w.State().Mode != watch.ModeEvents {
		next(t, w)
	}
}

func TestMissingRootIsLookedFor(t *testing.T) {
	root := filepath.Join(t.TempDir(), "later")
	w := start(t, watch.Config{Root: root})
	if m := w.State().Mode; m != watch.ModeMissing {
		t.Errorf("mode %s, want missing", m)
	}
	must(t, os.Mkdir(root, 0o755))
	if b := next(t, w); !b.Rescan {
		t.Fatalf("batch %+v, want a rescan", b)
	}
}

// faulty is a real notifier whose room and luck the test decides.
type faulty struct {
	watch.Notifier
	room int
	errs chan error
	mu   sync.Mutex
}

func (f *faulty) Errors() <-chan error { return f.errs }

func (f *faulty) Add(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.room == 0 {
		return fmt.Errorf("add watch: %w", syscall.ENOSPC)
	}
	f.room--
	return f.Notifier.Add(dir)
}

func openFaulty(t *testing.T, room int) (*faulty, func() (watch.Notifier, error)) {
	t.Helper()
	real, err := watch.NewFSNotify()
	must(t, err)
	f := &faulty{Notifier: real, room: room, errs: make(chan error)}
	return f, func() (watch.Notifier, error) { return f, nil }
}

func TestNoRoomForWatchesIsPolling(t *testing.T) {
	root := t.TempDir()
	for i := range 5 {
		write(t, root, fmt.Sprintf("d%d/f.txt", i))
	}
	f, open := openFaulty(t, 3)
	w := start(t, watch.Config{Root: root, Open: open, Poll: 50 * time.Millisecond})
	s := w.State()
	if s.Mode != watch.ModePolling || s.Watched != 3 || s.Polled != 3 || !strings.Contains(s.Reason, "no space left") {
		t.Errorf("state %+v, want 3 watched, 3 polled and the reason", s)
	}
	await(t, w, "d2/f.txt", "d3/f.txt", "d4/f.txt")

	f.mu.Lock()
	f.room = 100
	f.mu.Unlock()
	for w.State().Mode != watch.ModeEvents {
		next(t, w)
	}
}

func TestNoNotificationAtAllIsPolling(t *testing.T) {
	w := start(t, watch.Config{Root: t.TempDir(), Poll: 20 * time.Millisecond,
		Open: func() (watch.Notifier, error) { return nil, syscall.EMFILE }})
	if s := w.State(); s.Mode != watch.ModePolling || !strings.Contains(s.Reason, "too many open files") {
		t.Errorf("state %+v, want polling and the reason", s)
	}
	if b := next(t, w); !b.Rescan {
		t.Errorf("batch %+v, want a rescan", b)
	}
}

func TestLostNotificationsAreARescan(t *testing.T) {
	root := t.TempDir()
	f, open := openFaulty(t, 100)
	w := start(t, watch.Config{Root: root, Open: open})
	f.errs <- watch.ErrOverflow
	if b := next(t, w); !b.Rescan {
		t.Errorf("batch %+v, want a rescan", b)
	}
	if s := w.State(); s.Lost != 1 || s.Reason != watch.ErrOverflow.Error() {
		t.Errorf("state %+v, want the loss told", s)
	}
}

func TestSlowReaderFindsHintsMerged(t *testing.T) {
	root := t.TempDir()
	w := start(t, watch.Config{Root: root, MaxPaths: 50})
	for i := range 200 {
		write(t, root, fmt.Sprintf("f%d.txt", i))
	}
	for range 200 { // at the very most one batch a file
		if next(t, w).Rescan {
			return
		}
	}
	t.Error("200 paths against a limit of 50 and no rescan")
}

func TestNewRefusesRelativeRoot(t *testing.T) {
	if _, err := watch.New(watch.Config{Root: "here"}); err == nil {
		t.Error("a relative root was accepted")
	}
}

// A directory moves into one that was just made: nobody was watching there, so
// its arrival is not notified, only its going.
func TestDirectoryMovedIntoANewOne(t *testing.T) {
	root := t.TempDir()
	for i := range 20 {
		write(t, root, fmt.Sprintf("d%d/sub/f.txt", i))
	}
	w := start(t, watch.Config{Root: root})
	for i := range 20 {
		must(t, os.Mkdir(filepath.Join(root, fmt.Sprintf("n%d", i)), 0o755))
		must(t, os.Rename(filepath.Join(root, fmt.Sprintf("d%d", i)), filepath.Join(root, fmt.Sprintf("n%d/e", i))))
		await(t, w, fmt.Sprintf("n%d", i), fmt.Sprintf("d%d", i))
		write(t, root, fmt.Sprintf("n%d/e/sub/g.txt", i))
		await(t, w, fmt.Sprintf("n%d/e/sub/g.txt", i))
		must(t, os.RemoveAll(filepath.Join(root, fmt.Sprintf("n%d/e/sub", i))))
		await(t, w, fmt.Sprintf("n%d/e/sub", i))
	}
}
