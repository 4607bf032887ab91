package journal_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/journal"
	"github.com/ondol-app/ondol/internal/sqlite"
)

// counted is a database that counts how often it is read.
type counted struct {
	*sqlite.DB
	reads atomic.Int64
}

func (c *counted) Events(ctx context.Context, after uint64, limit int) ([]event.Event, event.Span, error) {
	c.reads.Add(1)
	return c.DB.Events(ctx, after, limit)
}

func openDB(t testing.TB, events int) *counted {
	t.Helper()
	db, err := sqlite.OpenConfig(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "index.db"), Events: events})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return &counted{DB: db}
}

func record(t testing.TB, db *counted, n int) {
	t.Helper()
	events := make([]event.Event, n)
	for i := range events {
		events[i] = event.New(kindTest)
	}
	if err := db.Record(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
}

// startStream runs a stream whose encoding is the number and a blank.
func startStream(t testing.TB, db *counted) *journal.Stream {
	t.Helper()
	s := journal.NewStream(db, func(dst []byte, e event.Event) []byte { return fmt.Appendf(dst, "%d ", e.Seq) })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return s
}

// read reads from after to a number, waiting for what is not there yet.
func read(s *journal.Stream, ctx context.Context, after, to uint64) (string, error) {
	var b strings.Builder
	for after < to {
		changed := s.Changed()
		encoded, last, err := s.Read(ctx, after)
		if err != nil {
			return b.String(), err
		}
		if last == after {
			select {
			case <-changed:
			case <-ctx.Done():
				return b.String(), ctx.Err()
			}
		}
		b.Write(encoded)
		after = last
	}
	return b.String(), nil
}

func sequence(after, to uint64) string {
	var b strings.Builder
	for seq := after + 1; seq <= to; seq++ {
		fmt.Fprintf(&b, "%d ", seq)
	}
	return b.String()
}

func TestReadersGetEverythingOnce(t *testing.T) {
	db := openDB(t, 0)
	record(t, db, 300) // a page and a part
	s := startStream(t, db)
	const readers, total = 50, 2000
	var wait sync.WaitGroup
	for i := range readers {
		wait.Go(func() {
			defer s.Join()()
			after := uint64(i * 7 % 300)
			got, err := read(s, t.Context(), after, total)
			if err != nil || got != sequence(after, total) {
				t.Errorf("reader %d after %d got something else (error %v)", i, after, err)
			}
		})
	}
	for n := 300; n < total; n += 17 {
		record(t, db, min(17, total-n))
	}
	wait.Wait()
}

// Readers at the same place read the database once between them.
func TestReadersShareTheReading(t *testing.T) {
	db := openDB(t, 0)
	record(t, db, 1000)
	s := startStream(t, db)
	defer s.Join()()
	var wait sync.WaitGroup
	for range 100 {
		wait.Go(func() {
			if got, err := read(s, t.Context(), 0, 1000); err != nil || got != sequence(0, 1000) {
				t.Errorf("a reader got something else (error %v)", err)
			}
		})
	}
	wait.Wait()
	// Four pages; the newest may be looked at again when the commit is told of.
	if n := db.reads.Load(); n < 4 || n > 8 {
		t.Errorf("100 readers of 4 pages took %d reads", n)
	}
}

// A slow reader goes through pages that the others have left long ago.
func TestMorePagesThanAreKept(t *testing.T) {
	db := openDB(t, 0)
	record(t, db, 20000)
	s := startStream(t, db)
	defer s.Join()()
	for range 2 {
		if got, err := read(s, t.Context(), 0, 20000); err != nil || got != sequence(0, 20000) {
			t.Errorf("a reader got something else (error %v)", err)
		}
	}
}

func TestWhatIsGone(t *testing.T) {
	db := openDB(t, 1000)
	for range 30 {
		record(t, db, 100)
	}
	s := startStream(t, db)
	defer s.Join()()
	kept, err := s.Span(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if kept.Newest != 3000 || kept.Oldest < 2 || kept.Oldest > 2001 {
		t.Fatalf("%+v is kept", kept)
	}
	for _, after := range []uint64{0, 1, kept.Oldest - 2, 3001, 3500, 1 << 40, 1<<64 - 1} {
		if _, _, err := s.Read(t.Context(), after); !errors.Is(err, journal.ErrGone) {
			t.Errorf("after %d: %v, want ErrGone", after, err)
		}
	}
	if got, err := read(s, t.Context(), kept.Oldest-1, 3000); err != nil || got != sequence(kept.Oldest-1, 3000) {
		t.Errorf("from the oldest one on a reader got something else (error %v)", err)
	}
	if encoded, last, err := s.Read(t.Context(), 3000); len(encoded) != 0 || last != 3000 || err != nil {
		t.Errorf("after the newest: %q, %d, %v", encoded, last, err)
	}
}

// A reader that was away while its next events were pruned is told so, even
// when the page they were on is still there in part.
func TestPrunedBehindAReader(t *testing.T) {
	db := openDB(t, 1000)
	record(t, db, 100)
	s := startStream(t, db)
	leave := s.Join()
	if _, last, err := s.Read(t.Context(), 0); last != 100 || err != nil {
		t.Fatalf("the first 100: up to %d, %v", last, err)
	}
	leave() // with it the pages
	for range 30 {
		record(t, db, 100)
	}
	defer s.Join()()
	if _, _, err := s.Read(t.Context(), 100); !errors.Is(err, journal.ErrGone) {
		t.Errorf("after 100: %v, want ErrGone", err)
	}
}
