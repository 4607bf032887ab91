package indexer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ondol-app/ondol/internal/document"
)

func TestFileIsCreatedChangedRenamedDeleted(t *testing.T) {
	w := newWorld(t)
	w.write("before.txt", "there before the folder was added")
	w.add()
	w.settled()

	w.write("new/note.md", "# Title\n\nmade later")
	w.settled()
	id := w.documents()["new/note.md"].ID
	embedded := w.ix.Stats().EmbeddedChunks

	w.rename("new/note.md", "other/name.md")
	w.settled()
	if got := w.documents()["other/name.md"].ID; got != id {
		t.Errorf("document %d after the rename, was %d", got, id)
	}
	w.rename("other", "moved")
	w.settled()
	if got := w.documents()["moved/name.md"].ID; got != id {
		t.Errorf("document %d after the move of its directory, was %d", got, id)
	}
	if got := w.ix.Stats().EmbeddedChunks; got != embedded {
		t.Errorf("%d chunks embedded by a rename", got-embedded)
	}

	w.write("before.txt", "something else now")
	w.settled()
	check(t, os.Remove(filepath.Join(w.root, "before.txt")))
	w.settled()
}

// Editors write beside the file and rename over it: the document stays.
func TestAtomicSaveKeepsTheDocument(t *testing.T) {
	w := newWorld(t)
	w.write("a.txt", "first")
	w.add()
	w.settled()
	id := w.documents()["a.txt"].ID
	w.write(".a.txt.swap", "second")
	w.rename(".a.txt.swap", "a.txt")
	w.settled()
	if got := w.documents()["a.txt"].ID; got != id {
		t.Errorf("document %d after the save, was %d", got, id)
	}
}

func TestCopyAndTouchEmbedNothing(t *testing.T) {
	w := newWorld(t)
	w.write("a.txt", "the same words")
	w.add()
	w.settled()
	embedded := w.ix.Stats().EmbeddedChunks
	w.write("b.txt", "the same words")
	w.settled()
	w.write("a.txt", "the same words")
	w.until("the touched file is read", func() bool { return w.ix.Stats().Unchanged > 0 })
	w.settled()
	if s := w.ix.Stats(); s.EmbeddedChunks != embedded || s.ReusedChunks == 0 {
		t.Errorf("stats %+v: want nothing embedded beyond %d, and reuse counted", s, embedded)
	}
}

func TestNamesSwapped(t *testing.T) {
	w := newWorld(t)
	w.write("a.txt", "alpha")
	w.write("b.txt", "beta, longer")
	w.add()
	w.settled()
	before := w.documents()
	embedded := w.ix.Stats().EmbeddedChunks
	w.stop() // all three renames at once
	w.rename("a.txt", "c.txt")
	w.rename("b.txt", "a.txt")
	w.rename("c.txt", "b.txt")
	w.run()
	w.settled()
	after := w.documents()
	if after["a.txt"].ID != before["b.txt"].ID || after["b.txt"].ID != before["a.txt"].ID {
		t.Errorf("before %v, after %v: the documents did not follow their files", before, after)
	}
	if got := w.ix.Stats().EmbeddedChunks; got != 0 {
		t.Errorf("%d chunks embedded beyond %d", got, embedded)
	}
}

func TestRenameToAnotherFormatIsReadAgain(t *testing.T) {
	w := newWorld(t)
	w.write("a.txt", "# one\n\ntext")
	w.add()
	w.settled()
	id := w.documents()["a.txt"].ID
	w.rename("a.txt", "a.md")
	w.until("it is Markdown", func() bool {
		d := w.documents()["a.md"]
		return d.Kind == document.KindMarkdown && d.State == document.Indexed && d.ID == id
	})
}

func TestIgnoreRulesAreFollowedAsTheyChange(t *testing.T) {
	w := newWorld(t)
	w.write("keep.txt", "keep")
	w.write("draft/a.txt", "draft a")
	w.write("draft/deep/b.txt", "draft b")
	w.write("node_modules/x.js", "var x")
	w.add()
	paths := func(want ...string) func() bool {
		return func() bool {
			got := w.documents()
			if len(got) != len(want) {
				return false
			}
			for _, p := range want {
				if got[p].State != document.Indexed {
					return false
				}
			}
			return true
		}
	}
	w.until("all but the dependencies", paths("keep.txt", "draft/a.txt", "draft/deep/b.txt"))
	w.write(".gitignore", "draft/\n")
	w.until("the drafts leave", paths("keep.txt"))
	w.write("draft/c.txt", "nobody looks")
	w.write(".gitignore", "draft/a.txt\n")
	w.until("all but one come back", paths("keep.txt", "draft/c.txt", "draft/deep/b.txt"))
	w.write("draft/deep/.ondolignore", "b.*\n")
	w.until("a rule file below", paths("keep.txt", "draft/c.txt"))
	check(t, os.Remove(filepath.Join(w.root, "draft/deep/.ondolignore")))
	w.write("draft/deep/d.txt", "directory is watched again")
	w.until("its removal", paths("keep.txt", "draft/c.txt", "draft/deep/b.txt", "draft/deep/d.txt"))
}

func TestOnlyRegularFilesInsideAreRead(t *testing.T) {
	w := newWorld(t)
	outside := mustPath(t, filepath.Join(t.TempDir(), "outside"))
	check(t, os.WriteFile(filepath.Join(outside, "secret.txt"), []byte("secret"), 0o644))
	w.write("a.txt", "inside")
	check(t, os.Symlink(outside, filepath.Join(w.root, "dir")))
	check(t, os.Symlink(filepath.Join(outside, "secret.txt"), filepath.Join(w.root, "link.txt")))
	check(t, os.Symlink(w.root, filepath.Join(w.root, "cycle")))
	check(t, syscall.Mkfifo(filepath.Join(w.root, "pipe.txt"), 0o644)) // opening it would wait forever
	w.add()
	w.settled()
	check(t, os.Symlink(filepath.Join(outside, "secret.txt"), filepath.Join(w.root, "later.txt")))
	// A file that is replaced by a link is gone.
	check(t, os.Remove(filepath.Join(w.root, "a.txt")))
	check(t, os.Symlink(filepath.Join(outside, "secret.txt"), filepath.Join(w.root, "a.txt")))
	w.write("b.txt", "after")
	w.settled()
}

func TestSkippedAndFailedAreCounted(t *testing.T) {
	w := newWorld(t)
	w.engine.set(func() { w.engine.invalid = "POISON" })
	w.write("good.txt", "good")
	w.write("empty.txt", "")
	w.write("binary.txt", "\x00\x01\x02\x03binary\x00")
	w.write("poison.txt", "POISON here")
	w.watchLedger()
	f := w.add()
	w.until("all are settled", func() bool {
		folders, err := w.db.Folders(context.Background())
		check(t, err)
		c := folders[0].Counts
		return c.Found == 4 && c.Indexed == 1 && c.Skipped == 2 && c.Failed == 1
	})
	got := w.documents()
	for path, want := range map[string]document.Reason{"empty.txt": document.ReasonEmpty, "binary.txt": document.ReasonBinary, "poison.txt": document.ReasonInvalidVector} {
		if got[path].Reason != want {
			t.Errorf("%s: reason %q, want %q", path, got[path].Reason, want)
		}
	}
	if got["poison.txt"].RetryAt.IsZero() {
		t.Error("no time for another try")
	}

	w.engine.set(func() { w.engine.invalid = "" })
	check(t, w.ix.Retry(context.Background(), got["poison.txt"].ID))
	w.until("the retry", func() bool { return w.documents()["poison.txt"].State == document.Indexed })
	if err := w.ix.Retry(context.Background(), 99999); !errors.Is(err, document.ErrNotFound) {
		t.Errorf("retry of an unknown document: %v", err)
	}
	check(t, w.ix.Rescan(context.Background(), f.ID))
}

// An invalid vector costs its own document, not those of the same batch.
func TestOneBadTextInABatch(t *testing.T) {
	w := newWorld(t)
	hold := make(chan struct{})
	w.engine.set(func() { w.engine.invalid = "POISON"; w.engine.hold = hold })
	for i := range 20 {
		w.write(fmt.Sprintf("f%02d.txt", i), fmt.Sprintf("text number %d %s", i, map[bool]string{true: "POISON"}[i == 7]))
	}
	w.add()
	w.until("all are read", func() bool { return w.ix.Stats().Read == 20 })
	close(hold)
	w.until("all but one are indexed", func() bool {
		indexed, failed := 0, 0
		for _, d := range w.documents() {
			switch d.State {
			case document.Indexed:
				indexed++
			case document.Failed:
				failed++
			}
		}
		return indexed == 19 && failed == 1
	})
}

// A text on which the engine breaks each time does not hold up the others.
func TestTextThatBreaksTheEngine(t *testing.T) {
	w := newWorld(t)
	w.engine.set(func() { w.engine.crash = "CRASH" })
	w.write("a.txt", "CRASH")
	for i := range 5 {
		w.write(fmt.Sprintf("b%d.txt", i), fmt.Sprintf("fine %d", i))
	}
	w.add()
	w.until("the others are indexed, it is blamed", func() bool {
		got := w.documents()
		for i := range 5 {
			if got[fmt.Sprintf("b%d.txt", i)].State != document.Indexed {
				return false
			}
		}
		return got["a.txt"].State == document.Failed && got["a.txt"].Reason == document.ReasonInternal
	})
}

func TestEngineDownLosesNothing(t *testing.T) {
	w := newWorld(t)
	w.engine.set(func() { w.engine.down = errors.New("engine is starting") })
	for i := range 10 {
		w.write(fmt.Sprintf("f%d.txt", i), fmt.Sprintf("text %d", i))
	}
	w.watchLedger()
	w.add()
	w.until("they wait", func() bool {
		folders, err := w.db.Folders(context.Background())
		check(t, err)
		return folders[0].Counts.Pending == 10 && w.ix.Stats().EngineWaiting
	})
	w.engine.set(func() { w.engine.down = nil })
	w.ix.EngineChanged()
	w.settled()
	if s := w.ix.Stats(); s.Failed != 0 {
		t.Errorf("%d failures for an engine that was down", s.Failed)
	}
}

// The text is searchable by word while vectors are being made.
func TestTextComesBeforeVectors(t *testing.T) {
	w := newWorld(t)
	hold := make(chan struct{})
	w.engine.set(func() { w.engine.hold = hold })
	w.write("a.txt", "searchable word")
	w.add()
	w.until("its text is stored", func() bool { return w.documents()["a.txt"].State == document.Embedding })
	reply, err := w.db.Lexical(context.Background(), document.LexicalQuery{Terms: []document.Term{{Text: "searchable"}}, Limit: 10})
	check(t, err)
	if len(reply.Hits) != 1 {
		t.Errorf("%d hits by word, want 1", len(reply.Hits))
	}
	close(hold)
	w.settled()
}

// What a person saves goes before a backlog, in both stages.
func TestFreshFileGoesBeforeTheBacklog(t *testing.T) {
	w := newWorld(t)
	hold := make(chan struct{})
	w.engine.set(func() { w.engine.hold = hold })
	const backlog = 600
	for i := range backlog {
		w.write(fmt.Sprintf("old/f%d.txt", i), fmt.Sprintf("%d %s", i, strings.Repeat("word ", 50)))
	}
	w.add()
	w.until("the backlog is read", func() bool { return w.ix.Stats().Read == backlog })
	w.write("fresh.txt", "just saved")
	w.until("the fresh file is read", func() bool { return w.documents()["fresh.txt"].State == document.Embedding })
	for range 2 { // the batch under way, and the next
		hold <- struct{}{}
	}
	w.until("the fresh file is indexed", func() bool { return w.documents()["fresh.txt"].State == document.Indexed })
	folders, err := w.db.Folders(context.Background())
	check(t, err)
	if folders[0].Counts.Pending == 0 {
		t.Error("nothing is pending: the backlog was too small to show anything")
	}
	close(hold)
	w.settled()
}

func TestOtherVectorsAreMadeInTheBackground(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		w.write(fmt.Sprintf("f%d.txt", i), fmt.Sprintf("text %d", i))
	}
	w.add()
	w.settled()
	w.engine.set(func() { w.engine.fingerprint = "fake-2" })
	w.ix.EngineChanged()
	w.until("all have vectors of the new kind", func() bool {
		for _, d := range w.documents() {
			missing, err := w.db.MissingVectors(context.Background(), d.ID, "fake-2")
			check(t, err)
			if len(missing) > 0 || d.State != document.Indexed {
				return false
			}
		}
		return true
	})
	if got := w.ix.Stats().EmbeddedChunks; got != 10 {
		t.Errorf("%d chunks embedded, want 5 twice", got)
	}
}

// A missing root is offline and deletes nothing; its return embeds nothing.
func TestMissingRootIsOffline(t *testing.T) {
	w := newWorld(t)
	w.write("d/a.txt", "alpha")
	w.add()
	w.settled()
	embedded := w.ix.Stats().EmbeddedChunks
	state := func() document.Folder {
		folders, err := w.db.Folders(context.Background())
		check(t, err)
		return folders[0]
	}
	check(t, os.Rename(w.root, w.root+".away"))
	w.until("offline", func() bool { return state().State == document.FolderOffline })
	if f := state(); f.Reason != "missing" || f.Counts.Indexed != 1 {
		t.Errorf("folder %+v: want the reason and the document kept", f)
	}
	check(t, os.WriteFile(w.root, nil, 0o644))
	w.until("something else is there", func() bool {
		return state().Reason == "not_a_folder" || w.ix.Rescan(context.Background(), state().ID) != nil
	})
	check(t, os.Remove(w.root))
	check(t, os.Rename(w.root+".away", w.root))
	w.write("d/b.txt", "beta, made after the return")
	w.settled()
	w.until("watching", func() bool { return state().State == document.FolderWatching })
	if got := w.ix.Stats().EmbeddedChunks; got != embedded+1 {
		t.Errorf("%d chunks embedded, want one", got-embedded)
	}
}

// A directory whose rules cannot be read is left as it is.
func TestUnreadableRulesChangeNothing(t *testing.T) {
	w := newWorld(t)
	w.write("d/a.txt", "alpha")
	w.write("b.txt", "beta")
	w.add()
	w.settled()
	w.stop()
	w.write("d/.gitignore", strings.Repeat("# long\n", 200_000))
	w.write("d/new.txt", "may be ignored or not")
	check(t, os.Remove(filepath.Join(w.root, "d/a.txt")))
	check(t, os.Remove(filepath.Join(w.root, "b.txt")))
	w.run()
	w.until("what lies outside is followed", func() bool { _, ok := w.documents()["b.txt"]; return !ok })
	got := w.documents()
	if _, ok := got["d/a.txt"]; !ok || len(got) != 2 {
		t.Errorf("documents %v, want d/a.txt as it was, and the directory that cannot be looked at", w.describe())
	}
	w.until("the directory is accounted for", func() bool {
		d := w.documents()["d/"]
		return d.State == document.Failed && d.Reason == document.ReasonUnreadable && strings.Contains(d.Detail, "shorten it")
	})
}

func TestAddAndRemove(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	w.write("sub/a.txt", "alpha")
	f := w.add()
	if f.Path != w.root {
		t.Errorf("path %s, want %s", f.Path, w.root)
	}
	w.settled()
	link := filepath.Join(t.TempDir(), "link")
	check(t, os.Symlink(w.root, link))
	if _, err := w.ix.Add(ctx, link); !errors.Is(err, document.ErrFolderExists) {
		t.Errorf("the folder by another name: %v", err)
	}
	var overlap *document.FolderOverlapError
	if _, err := w.ix.Add(ctx, filepath.Join(w.root, "sub")); !errors.As(err, &overlap) {
		t.Errorf("a folder inside: %v", err)
	}
	for _, bad := range []string{"relative", filepath.Join(w.root, "nothing"), filepath.Join(w.root, "sub/a.txt")} {
		if _, err := w.ix.Add(ctx, bad); err == nil {
			t.Errorf("%s was added", bad)
		}
	}
	check(t, w.ix.Remove(ctx, f.ID))
	if got := w.documents(); len(got) != 0 {
		t.Errorf("documents left: %v", got)
	}
	if err := w.ix.Remove(ctx, f.ID); !errors.Is(err, document.ErrNotFound) {
		t.Errorf("removed twice: %v", err)
	}
	if err := w.ix.Rescan(ctx, f.ID); !errors.Is(err, document.ErrNotFound) {
		t.Errorf("rescan after removal: %v", err)
	}
	if got := files(t, w.root); len(got) != 1 {
		t.Errorf("files %v: the folder itself was touched", got)
	}
	w.add()
	w.settled()
	if got := w.ix.Stats().EmbeddedChunks; got > 2 {
		t.Errorf("%d chunks embedded", got)
	}
}

func TestFolderIsRemovedInTheMiddle(t *testing.T) {
	w := newWorld(t)
	hold := make(chan struct{})
	w.engine.set(func() { w.engine.hold = hold })
	for i := range 100 {
		w.write(fmt.Sprintf("f%d.txt", i), fmt.Sprintf("text %d", i))
	}
	f := w.add()
	hold <- struct{}{}
	check(t, w.ix.Remove(context.Background(), f.ID))
	close(hold)
	other := mustPath(t, filepath.Join(t.TempDir(), "other"))
	w.root = other
	w.write("a.txt", "alpha")
	w.add()
	w.settled()
}

// A long document is embedded in several batches, each of its texts once.
func TestLongDocument(t *testing.T) {
	w := newWorld(t)
	var b strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&b, "Sentence number %d has exactly these nine words here.\n\n", i)
	}
	w.write("long.txt", b.String())
	w.write("short.txt", "short")
	w.add()
	w.settled()
	w.engine.set(func() {
		if w.engine.calls < 3 {
			t.Errorf("%d calls: the document was too short to be cut", w.engine.calls)
		}
		for _, n := range w.engine.embedded {
			if n != 1 {
				t.Errorf("a text was embedded %d times", n)
			}
		}
	})
}
