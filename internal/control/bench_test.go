package control_test

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/journal"
	"github.com/ondol-app/ondol/internal/sqlite"
)

// Readers that take no bytes must cost a producer nothing: the same writes go
// by turns to a journal that nobody reads and to one with 200 stalled readers,
// and the medians are compared. "ratio" is with readers to without.
func BenchmarkProducerBesideStalledReaders(b *testing.B) {
	const readers = 200
	quiet, crowded := benchJournal(b, 0), benchJournal(b, readers)
	for _, way := range []struct {
		name string
		do   func(j *producer) error
	}{
		{"Transaction", func(j *producer) error { return j.db.Record(b.Context(), event.New(kindTest, "path", "/docs/a.md")) }},
		{"Notify", func(j *producer) error {
			j.recorder.Notify(event.New(kindTest, "path", "/docs/a.md"))
			return nil
		}},
	} {
		b.Run(way.name, func(b *testing.B) {
			var took [2][]time.Duration
			for i := 0; b.Loop(); i++ {
				for side := range 2 {
					side = (side + i) % 2 // neither always comes first
					j := []*producer{quiet, crowded}[side]
					began := time.Now()
					if err := way.do(j); err != nil {
						b.Fatal(err)
					}
					took[side] = append(took[side], time.Since(began))
				}
			}
			without, with := median(took[0]), median(took[1])
			b.ReportMetric(float64(without.Nanoseconds()), "ns/without")
			b.ReportMetric(float64(with.Nanoseconds()), "ns/with")
			b.ReportMetric(float64(with)/float64(without), "ratio")
		})
	}
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// producer is a journal with a way in.
type producer struct {
	db       *sqlite.DB
	recorder *journal.Recorder // does not run: Notify is what a part waits for
}

// benchJournal serves a journal to readers that have come to a halt.
func benchJournal(b *testing.B, readers int) *producer {
	b.Helper()
	db := openJournal(b, filepath.Join(b.TempDir(), "index.db"), 0)
	for range 20 {
		recordN(b, db, 500) // more than a socket holds
	}
	socket, _ := start(b, newParts(), func(c *control.Config) { c.Journal = db })
	for range readers {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = conn.Close() })
		if _, err := fmt.Fprintf(conn, "GET /ondol/v1/events?since=0 HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			b.Fatal(err)
		}
		if _, err := bufio.NewReaderSize(conn, 16).ReadByte(); err != nil { // it has begun
			b.Fatal(err)
		}
	}
	return &producer{db: db, recorder: journal.NewRecorder(db, slog.New(slog.DiscardHandler))}
}
