package indexer_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ondol-app/ondol/internal/document"
)

// What Ondol writes lies in the folder around it; none of it is indexed.
func TestOwnFoldersAreLeftOut(t *testing.T) {
	w := newWorld(t)
	w.stop()
	home := mustPath(t, filepath.Join(w.root, "home"))
	w.own = []string{home, filepath.Join(w.root, "logs-not-there-yet")}
	w.write("a.txt", "alpha")
	w.write("home/ondol.db.txt", "a database")
	w.write("logs-not-there-yet/ondol.txt", "a line")
	w.run()
	for _, dir := range []string{home, mustPath(t, filepath.Join(home, "models")), "/"} {
		_, err := w.ix.Add(context.Background(), dir)
		var refused *document.FolderRefusedError
		if !errors.As(err, &refused) {
			t.Errorf("add %s: %v, want a refusal", dir, err)
		}
	}
	w.add()
	w.until("a.txt is indexed", func() bool { return w.documents()["a.txt"].State == document.Indexed })
	w.write("home/more.txt", "a line more")
	w.write("logs-not-there-yet/ondol.txt", "a line more")
	w.write("b.txt", "beta")
	w.until("b.txt is indexed", func() bool { return w.documents()["b.txt"].State == document.Indexed })
	if got := w.documents(); len(got) != 2 {
		t.Errorf("documents %v, want a.txt and b.txt alone", w.describe())
	}
}

// A directory that cannot be listed is a failed document; what was indexed
// below it stays. When it can be listed, it is one no more.
func TestUnreadableDirectoryIsAccountedFor(t *testing.T) {
	w := newWorld(t)
	w.write("a.txt", "alpha")
	w.write("d/b.txt", "beta")
	folder := w.add()
	w.settled()
	w.stop()
	var shut atomic.Bool
	shut.Store(true)
	w.readDir = func(dir string) ([]fs.DirEntry, error) {
		if shut.Load() && dir == filepath.Join(w.root, "d") {
			return nil, &fs.PathError{Op: "open", Path: dir, Err: syscall.EACCES}
		}
		return os.ReadDir(dir)
	}
	w.run()
	w.watchLedger()
	w.until("the directory failed", func() bool {
		d := w.documents()["d/"]
		return d.State == document.Failed && d.Reason == document.ReasonDenied && !d.RetryAt.IsZero()
	})
	if got := w.documents(); len(got) != 3 || got["d/b.txt"].State != document.Indexed {
		t.Errorf("documents %v, want d/b.txt kept", w.describe())
	}
	folders, err := w.db.Folders(context.Background())
	check(t, err)
	if c := folders[0].Counts; c.Found != 3 || c.Failed != 1 || c.Reasons[document.ReasonDenied] != 1 {
		t.Errorf("ledger %+v", c)
	}
	id := w.documents()["d/"].ID
	w.rename("d/b.txt", "d/c.txt") // what a hint tells of it changes nothing
	w.write("e.txt", "epsilon")
	w.until("e.txt is indexed", func() bool { return w.documents()["e.txt"].State == document.Indexed })
	check(t, w.ix.Rescan(context.Background(), folder.ID))
	w.until("still failed", func() bool {
		d := w.documents()["d/"]
		return d.ID == id && d.State == document.Failed
	})
	shut.Store(false)
	check(t, w.ix.Retry(context.Background(), id))
	w.settled()
}
