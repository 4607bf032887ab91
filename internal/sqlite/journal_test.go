package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/sqlite"
)

const kindTest event.Kind = "test.happened"

// told is what the journal says, in short: "kind name=value …" in the order given.
func told(t *testing.T, db *sqlite.DB, args ...string) []string {
	t.Helper()
	events, _, err := db.Events(t.Context(), 0, 1000)
	check(t, err)
	all := []string{}
	for i, e := range events {
		if want := uint64(i + 1); e.Seq != want {
			t.Errorf("event %d has seq %d", want, e.Seq)
		}
		line := e.Kind.String()
		for _, name := range args {
			if value, ok := e.Args[name]; ok {
				line += " " + name + "=" + value
			}
		}
		all = append(all, line)
	}
	return all
}

func TestRecordKeepsOrderAndContent(t *testing.T) {
	db := open(t)
	at := time.Date(2026, 4, 10, 9, 30, 0, 123456789, time.UTC)
	want := []event.Event{
		{Seq: 1, At: at, Kind: kindTest, Args: map[string]string{"path": "/a/예산안 \"x\".md", "n": "1"}},
		{Seq: 2, At: at.Add(-time.Hour), Kind: kindTest},
	}
	check(t, db.Record(t.Context(), want...))
	got, kept, err := db.Events(t.Context(), 0, 10)
	check(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(event.Span{Oldest: 1, Newest: 2}, kept); diff != "" {
		t.Errorf("span (-want +got):\n%s", diff)
	}
	select {
	case <-db.Recorded():
	default:
		t.Error("nobody was told of the commit")
	}
	if got, _, err = db.Events(t.Context(), 1, 10); err != nil || len(got) != 1 || got[0].Seq != 2 {
		t.Errorf("events after 1: %v, %v", got, err)
	}
	if got, _, err = db.Events(t.Context(), 1<<64-1, 10); err != nil || len(got) != 0 {
		t.Errorf("events after the largest number: %v, %v", got, err)
	}
}

func TestAnEmptyJournal(t *testing.T) {
	db := open(t)
	kept := must(db.EventSpan(t.Context()))(t)
	if kept != (event.Span{Oldest: 1}) {
		t.Errorf("span of an empty journal: %+v", kept)
	}
	if !kept.Covers(0) || kept.Covers(1) {
		t.Error("an empty journal covers what it says of 0 alone")
	}
	select {
	case <-db.Recorded():
		t.Error("told of a commit that there was not")
	default:
	}
}

// What is told of a change stands or falls with the change.
func TestEventsOfAFailedTransactionAreNotThere(t *testing.T) {
	db := open(t)
	folder(t, db, "/docs")
	if _, err := db.AddFolder(t.Context(), "/docs"); !errors.Is(err, sqlite.ErrFolderExists) {
		t.Fatalf("second AddFolder: %v", err)
	}
	if err := db.SaveSkipped(t.Context(), 99, "binary", file("x")); !errors.Is(err, sqlite.ErrNotFound) {
		t.Fatalf("SaveSkipped of nothing: %v", err)
	}
	folder(t, db, "/more")
	want := []string{"folder.added path=/docs", "folder.added path=/more"}
	if diff := cmp.Diff(want, told(t, db, "path")); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
}

func TestWhatTheIndexTells(t *testing.T) {
	db := open(t)
	ctx := t.Context()
	f := folder(t, db, "/docs")
	check(t, db.ApplyScan(ctx, f, document.Changes{Found: []document.File{file("a.md"), file("b.bin"), file("c.md")}}))
	known := must(db.Files(ctx, f))(t)
	text := chunked("one passage", "another")
	text.File = file("a.md")
	must(db.SaveText(ctx, known["a.md"].ID, text))(t)
	embed(t, db, known["a.md"].ID)
	check(t, db.SaveSkipped(ctx, known["b.bin"].ID, "binary", file("b.bin")))
	for range 3 { // tried again in vain: no news
		check(t, db.SaveFailed(ctx, known["c.md"].ID, "unreadable", "secret", epoch))
	}
	check(t, db.SaveFailed(ctx, known["c.md"].ID, "permission_denied", "secret", epoch))
	check(t, db.ApplyScan(ctx, f, document.Changes{Touched: []document.Change{{ID: known["a.md"].ID, File: file("a.md")}}}))
	check(t, db.ApplyScan(ctx, f, document.Changes{Gone: []document.ID{known["b.bin"].ID}}))
	for _, state := range []document.FolderState{document.FolderScanning, document.FolderWatching, document.FolderOffline,
		document.FolderScanning, document.FolderOffline, document.FolderScanning, document.FolderWatching, document.FolderDenied} {
		check(t, db.SetFolderState(ctx, f, state, "gone", time.Time{}))
	}
	check(t, db.RemoveFolder(ctx, f))
	want := []string{
		"folder.added path=/docs",
		"folder.changed path=/docs found=3 gone=0",
		"document.indexed path=/docs/a.md",
		"document.skipped path=/docs/b.bin reason=binary",
		"document.failed path=/docs/c.md reason=unreadable",
		"document.failed path=/docs/c.md reason=permission_denied",
		"folder.changed path=/docs found=0 gone=1",
		"folder.offline path=/docs reason=gone",
		"folder.back path=/docs",
		"folder.denied path=/docs reason=gone",
		"folder.removed path=/docs documents=2",
	}
	if diff := cmp.Diff(want, told(t, db, "path", "found", "gone", "reason", "documents")); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
}

// Old rows go behind the new ones, and their numbers are never given again.
func TestJournalIsBounded(t *testing.T) {
	now := epoch
	path := filepath.Join(t.TempDir(), "index.db")
	config := sqlite.Config{Path: path, Events: 1000, EventAge: 24 * time.Hour, Now: func() time.Time { return now }}
	db := must(sqlite.OpenConfig(t.Context(), config))(t)
	for range 5000 {
		check(t, db.Record(t.Context(), event.Event{At: now, Kind: kindTest}))
	}
	kept := must(db.EventSpan(t.Context()))(t)
	if n := kept.Newest - kept.Oldest + 1; kept.Newest != 5000 || n < 1000 || n > 1256 {
		t.Errorf("after 5000 events %d to %d are kept, want 1000 and at most 256 more", kept.Oldest, kept.Newest)
	}
	now = now.Add(25 * time.Hour) // all are too old
	check(t, db.Record(t.Context(), event.Event{At: now, Kind: kindTest}))
	if kept = must(db.EventSpan(t.Context()))(t); kept != (event.Span{Oldest: 5001, Newest: 5001}) {
		t.Errorf("a day later %+v is kept", kept)
	}
	_, err := db.Raw().ExecContext(t.Context(), "DELETE FROM events")
	check(t, err)
	check(t, db.Close())
	db = must(sqlite.OpenConfig(t.Context(), config))(t)
	if kept = must(db.EventSpan(t.Context()))(t); kept != (event.Span{Oldest: 5002, Newest: 5001}) {
		t.Errorf("with no row left the span is %+v", kept)
	}
	check(t, db.Record(t.Context(), event.Event{At: now, Kind: kindTest}))
	if kept = must(db.EventSpan(t.Context()))(t); kept != (event.Span{Oldest: 5002, Newest: 5002}) {
		t.Errorf("the next event makes the span %+v", kept)
	}
	check(t, db.Close())
}

// Numbers follow the commits: whoever has read up to a number has missed
// nothing below it, however many write at once.
func TestNoEventAppearsBehindAReader(t *testing.T) {
	db := open(t)
	const writers, each = 8, 100
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wait sync.WaitGroup
	for w := range writers {
		wait.Go(func() {
			for i := range each {
				var err error
				if i%2 == 0 {
					err = db.Record(ctx, event.New(kindTest, "n", "1"), event.New(kindTest, "n", "2"))
				} else {
					_, err = db.AddFolder(ctx, fmt.Sprintf("/docs/%d/%d", w, i))
				}
				if err != nil {
					t.Error(err)
					cancel()
					return
				}
			}
		})
	}
	const total = writers * (each/2*2 + each/2)
	var last uint64
	for last < total && ctx.Err() == nil {
		events, _, err := db.Events(ctx, last, 50)
		if err != nil {
			t.Error(err)
			break
		}
		for _, e := range events {
			if e.Seq != last+1 {
				t.Fatalf("event %d follows %d", e.Seq, last)
			}
			last = e.Seq
		}
	}
	wait.Wait()
}
