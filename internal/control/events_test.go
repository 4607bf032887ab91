package control_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/journal"
	"github.com/ondol-app/ondol/internal/sqlite"
)

const kindTest event.Kind = "test.happened"

// openJournal opens an index that keeps so many events; 0 = as many as is usual.
func openJournal(t testing.TB, path string, events int) *sqlite.DB {
	t.Helper()
	db, err := sqlite.OpenConfig(context.Background(), sqlite.Config{Path: path, Events: events})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func recordN(t testing.TB, db *sqlite.DB, n int) {
	t.Helper()
	events := make([]event.Event, n)
	for i := range events {
		events[i] = event.New(kindTest, "n", fmt.Sprint(i))
	}
	if err := db.Record(context.Background(), events...); err != nil {
		t.Fatal(err)
	}
}

// startJournal serves a journal's events on a socket.
func startJournal(t *testing.T, db *sqlite.DB) (socket string, stop func() error) {
	t.Helper()
	return start(t, newParts(), func(c *control.Config) { c.Journal = db })
}

var errEnough = errors.New("enough")

// collect reads messages in short form, such as "event 3", until there are n.
func collect(t *testing.T, c *control.Client, q control.EventsQuery, n int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := []string{}
	err := c.Events(ctx, q, func(m control.Message) error {
		got = append(got, short(m))
		if len(got) == n {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Errorf("Events ended with %v after %v", err, got)
	}
	return got
}

func short(m control.Message) string {
	switch {
	case m.Event != nil:
		return fmt.Sprint("event ", m.Event.Seq)
	case m.Status != nil:
		return fmt.Sprint(m.Name, " ", m.Status.Seq)
	}
	return m.Name
}

func since(seq uint64) control.EventsQuery { return control.EventsQuery{Since: &seq} }

func TestEventsBeginWhereTheReaderStands(t *testing.T) {
	db := openJournal(t, filepath.Join(t.TempDir(), "index.db"), 1000)
	for range 15 {
		recordN(t, db, 100)
	}
	kept, err := db.EventSpan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if kept.Oldest < 3 || kept.Newest != 1500 {
		t.Fatalf("%+v is kept", kept)
	}
	socket, _ := startJournal(t, db)
	c := control.NewClient(socket)
	defer c.Close()
	newest := kept.Newest
	for _, tt := range []struct {
		name  string
		q     control.EventsQuery
		first string // of the status that comes first
		from  uint64 // of the first event
	}{
		{"nothing known", control.EventsQuery{}, "snapshot", 0},
		{"never began", since(0), "reset", 0},
		{"one that is missed is gone", since(kept.Oldest - 2), "reset", 0},
		{"ahead of the journal", since(99999), "reset", 0},
		{"the largest number", since(1<<64 - 1), "reset", 0},
		{"the oldest missed one is there", since(kept.Oldest - 1), "", kept.Oldest},
		{"all but two known", since(1498), "", 1499},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got, want []string
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			before := newest
			if tt.first != "" {
				want = append(want, fmt.Sprint(tt.first, " ", before))
				tt.from = before + 1
			}
			for seq := tt.from; seq <= before+3; seq++ {
				want = append(want, fmt.Sprint("event ", seq))
			}
			newest += 3
			err := c.Events(ctx, tt.q, func(m control.Message) error {
				if got = append(got, short(m)); len(got) == 1 {
					recordN(t, db, 3) // while the stream is open
				}
				if len(got) == len(want) {
					return errEnough
				}
				return nil
			})
			if !errors.Is(err, errEnough) {
				t.Errorf("Events ended with %v", err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

// A reader takes up where it was when the app ends and another one begins.
func TestEventsGoOnAfterARestart(t *testing.T) {
	db := openJournal(t, filepath.Join(t.TempDir(), "index.db"), 0)
	recordN(t, db, 2)
	socket, stop := startJournal(t, db)
	c := control.NewClient(socket)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []string
	err := c.Events(ctx, since(0), func(m control.Message) error {
		got = append(got, short(m))
		switch len(got) {
		case 2:
			if err := stop(); err != nil {
				t.Errorf("stop: %v", err)
			}
			recordN(t, db, 2) // nobody listens
			start(t, newParts(), func(c *control.Config) { c.Journal, c.Socket = db, socket })
		case 4:
			recordN(t, db, 1)
		case 5:
			return errEnough
		}
		return nil
	})
	if want := []string{"event 1", "event 2", "event 3", "event 4", "event 5"}; !errors.Is(err, errEnough) || !cmp.Equal(want, got) {
		t.Errorf("Events ended with %v after %v, want %v", err, got, want)
	}
}

// The app does not wait for its streams when it ends, nor for one that takes no
// bytes.
func TestStreamsEndAtOnce(t *testing.T) {
	db := openJournal(t, filepath.Join(t.TempDir(), "index.db"), 0)
	recordN(t, db, 10_000) // more than a socket holds
	socket, stop := start(t, newParts(), func(c *control.Config) { c.Journal, c.Grace = db, time.Hour })
	c := control.NewClient(socket)
	defer c.Close()
	began, ended := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		ended <- c.Events(ctx, control.EventsQuery{}, func(control.Message) error {
			close(began)
			return nil
		})
	}()
	<-began
	_, stalled := raw(t, socket, "since=0")
	if _, err := stalled.ReadByte(); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Events ended with %v", err)
	}
}

func TestEventsNeedAnApp(t *testing.T) {
	c := control.NewClient(filepath.Join(shortDir(t), "none.sock"))
	defer c.Close()
	if err := c.Events(t.Context(), since(0), func(control.Message) error { return nil }); !errors.Is(err, control.ErrNotRunning) {
		t.Errorf("Events without an app: %v", err)
	}
}

func TestEventsRefuseNonsense(t *testing.T) {
	s := setup(t, newParts(), nil)
	for _, tt := range []struct{ query, code string }{
		{"since=x", control.CodeInvalidValue},
		{"since=-1", control.CodeInvalidValue},
		{"since=1&since=2", control.CodeInvalidValue},
		{"samples=yes", control.CodeInvalidValue},
		{"after=1", control.CodeUnknownParameter},
	} {
		if w := call(s, "GET", "events?"+tt.query, ""); w.Code != 400 || !strings.Contains(w.Body.String(), tt.code) {
			t.Errorf("%s: %d %s", tt.query, w.Code, w.Body)
		}
	}
}

// Samples come while somebody asked for them, without a number, and at most
// four a second.
func TestSamples(t *testing.T) {
	socket, _ := startJournal(t, openJournal(t, filepath.Join(t.TempDir(), "index.db"), 0))
	c := control.NewClient(socket)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var at []time.Time
	err := c.Events(ctx, control.EventsQuery{Samples: true}, func(m control.Message) error {
		if m.Sample == nil {
			return nil
		}
		if m.Sample.Executing != 1 || m.Sample.Waiting != 2 || m.Sample.Engine != "ready" {
			t.Errorf("sample %+v", *m.Sample)
		}
		if at = append(at, m.Sample.At); len(at) == 4 {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Fatalf("Events ended with %v", err)
	}
	for i := 1; i < len(at); i++ {
		// Figures that stay the same are told once a second.
		if gap := at[i].Sub(at[i-1]); gap < 250*time.Millisecond {
			t.Errorf("%v between two samples", gap)
		}
	}
}

// raw opens a stream without a client and returns its lines.
func raw(t *testing.T, socket string, query string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprintf(conn, "GET /ondol/v1/events?%s HTTP/1.1\r\nHost: localhost\r\n\r\n", query); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// Readers that take no bytes hold nobody up: neither who records nor a reader
// beside them; and when they take bytes again, they have missed nothing.
func TestStalledReadersHoldNobodyUp(t *testing.T) {
	db := openJournal(t, filepath.Join(t.TempDir(), "index.db"), 0)
	r := journal.NewRecorder(db, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	recorded := make(chan error, 1)
	go func() { recorded <- r.Run(ctx) }()
	socket, _ := startJournal(t, db)
	const total = 10_000 // more than a socket holds
	var stalled []*bufio.Reader
	for range 20 {
		_, lines := raw(t, socket, "since=0")
		stalled = append(stalled, lines)
	}
	done := make(chan []string, 1)
	go func() {
		c := control.NewClient(socket)
		defer c.Close()
		done <- collect(t, c, since(0), total)
	}()
	for i := range total / 500 {
		for j := range 500 {
			r.Notify(event.New(kindTest, "n", fmt.Sprint(i*500+j)))
		}
		waitFor(t, db, uint64(i+1)*500) // so that all fit
	}
	got := <-done
	cancel()
	if err := <-recorded; err != nil {
		t.Errorf("recorder: %v", err)
	}
	for i, m := range got {
		if want := fmt.Sprint("event ", i+1); m != want {
			t.Fatalf("the reader got %s instead of %s", m, want)
		}
	}
	var wait sync.WaitGroup
	for _, lines := range stalled {
		wait.Go(func() {
			for seq := 1; seq <= total; {
				line, err := lines.ReadString('\n')
				if err != nil {
					t.Errorf("stalled reader at %d: %v", seq, err)
					return
				}
				id, ok := strings.CutPrefix(line, "id: ")
				if !ok {
					continue
				}
				if strings.TrimSpace(id) != fmt.Sprint(seq) {
					t.Errorf("a stalled reader got event %s instead of %d", strings.TrimSpace(id), seq)
					return
				}
				seq++
			}
		})
	}
	wait.Wait()
}

// waitFor waits until the journal has come to a number.
func waitFor(t *testing.T, db *sqlite.DB, seq uint64) {
	t.Helper()
	for {
		kept, err := db.EventSpan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if kept.Newest >= seq {
			return
		}
		select {
		case <-db.Recorded():
		case <-time.After(time.Millisecond): // the stream may have taken the kick
		}
	}
}

// What the snapshot's number covers is in the snapshot.
func TestTheSnapshotHoldsWhatItsNumberCovers(t *testing.T) {
	db := openJournal(t, filepath.Join(t.TempDir(), "index.db"), 0)
	socket, _ := start(t, newParts(), func(c *control.Config) { c.Journal, c.Index = db, db })
	c := control.NewClient(socket)
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	added := make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			if _, err := db.AddFolder(context.Background(), fmt.Sprint("/docs/", i)); err != nil || ctx.Err() != nil {
				added <- err
				return
			}
		}
	}()
	for range 50 {
		s, err := c.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if uint64(s.Index.Folders) < s.Seq {
			t.Errorf("%d folders in a snapshot that covers the adding of %d", s.Index.Folders, s.Seq)
		}
	}
	cancel()
	if err := <-added; err != nil {
		t.Error(err)
	}
}
