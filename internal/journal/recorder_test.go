package journal_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/journal"
)

const kindTest event.Kind = "test.happened"

// writer remembers what it was given, and fails or hangs on demand.
type writer struct {
	mu   sync.Mutex
	err  error
	got  []event.Event
	hold chan struct{} // Record waits until it is closed; nil = it does not
}

func (w *writer) Record(ctx context.Context, events ...event.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hold != nil {
		<-w.hold
	}
	if w.err != nil || ctx.Err() != nil {
		return errors.Join(w.err, ctx.Err())
	}
	w.got = append(w.got, events...)
	return nil
}

func (w *writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

func (w *writer) numbers() (list []string, rest []event.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.got {
		if e.Kind == kindTest {
			list = append(list, e.Args["n"])
		} else {
			rest = append(rest, e)
		}
	}
	return list, rest
}

func numbered(from, to int) (list []string) {
	for i := from; i < to; i++ {
		list = append(list, strconv.Itoa(i))
	}
	return list
}

func start(t *testing.T, w *writer) (r *journal.Recorder, stop func()) {
	t.Helper()
	r = journal.NewRecorder(w, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return r, func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func TestNotifiedEventsAreRecordedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writer{}
		r := journal.NewRecorder(w, slog.New(slog.DiscardHandler))
		r.Notify(event.New(kindTest, "n", "0")) // before Run
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		for i := 1; i < 600; i++ {
			r.Notify(event.New(kindTest, "n", strconv.Itoa(i)))
		}
		cancel() // what is there is flushed
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		got, _ := w.numbers()
		if diff := cmp.Diff(numbered(0, 600), got); diff != "" {
			t.Errorf("recorded (-want +got):\n%s", diff)
		}
	})
}

// What does not fit is counted, and the count stands where the events miss.
func TestOverflowIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writer{hold: make(chan struct{})}
		r, stop := start(t, w)
		r.Notify(event.New(kindTest, "n", "0"))
		synctest.Wait() // the writer hangs with it
		for i := 1; i < 1500; i++ {
			r.Notify(event.New(kindTest, "n", strconv.Itoa(i)))
		}
		close(w.hold)
		synctest.Wait()
		r.Notify(event.New(kindTest, "n", "1500"))
		stop()
		got, rest := w.numbers()
		if diff := cmp.Diff(append(numbered(0, 1025), "1500"), got); diff != "" {
			t.Errorf("recorded (-want +got):\n%s", diff)
		}
		if len(rest) != 1 || rest[0].Kind != journal.KindOverflow || rest[0].Args["count"] != "475" || rest[0].Args["kinds"] != "475 × test.happened" {
			t.Errorf("of the others is told: %v", rest)
		}
		if last := w.got[len(w.got)-2]; last.Kind != journal.KindOverflow {
			t.Errorf("before the last event stands %v", last)
		}
	})
}

// A store that fails for a while loses nothing and doubles nothing.
func TestAFailingStoreIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writer{}
		w.fail(errors.New("the disk is full"))
		r, stop := start(t, w)
		for i := range 10 {
			r.Notify(event.New(kindTest, "n", strconv.Itoa(i)))
			time.Sleep(7 * time.Second) // of the bubble's clock
		}
		w.fail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got, _ := w.numbers(); len(got) != 10 {
			t.Errorf("%d of 10 are recorded a minute after the disk has room again", len(got))
		}
		stop()
		got, rest := w.numbers()
		if diff := cmp.Diff(numbered(0, 10), got); diff != "" || len(rest) > 0 {
			t.Errorf("recorded (-want +got), and %v:\n%s", rest, diff)
		}
	})
}
