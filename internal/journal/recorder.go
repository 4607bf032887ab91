package journal

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ondol-app/ondol/internal/event"
)

// KindOverflow tells of events that came faster than they could be written:
// count, kinds ("12 × engine.state, …"), from and to (RFC 3339).
const KindOverflow event.Kind = "journal.overflow"

// Writer is the Store as a Recorder needs it.
type Writer interface {
	// Record writes events in order, all or none.
	Record(ctx context.Context, events ...event.Event) error
}

const (
	// queueSize bounds the events that wait for the Store.
	queueSize = 1024
	// batchSize bounds the events of one transaction.
	batchSize = 256
	// flushTime is how long the last ones may take once Run was told to stop.
	flushTime = 5 * time.Second
	// Between tries while the Store fails, as on a full disk.
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

// Recorder writes the events of parts that may not wait for the Store. Notify
// may be called from any goroutine, before Run too.
type Recorder struct {
	store Writer
	log   *slog.Logger
	wake  chan struct{} // 1-buffered

	mu     sync.Mutex
	queue  []event.Event // guarded by mu; at most queueSize
	missed missed        // guarded by mu; what came after a full queue
}

// missed is what did not fit.
type missed struct {
	counts   map[event.Kind]int // nil = nothing
	from, to time.Time
}

// NewRecorder makes a recorder that writes to store.
func NewRecorder(store Writer, log *slog.Logger) *Recorder {
	return &Recorder{store: store, log: log, wake: make(chan struct{}, 1)}
}

// Notify takes an event and returns at once.
func (r *Recorder) Notify(e event.Event) {
	r.mu.Lock()
	// Once one did not fit, those after it do not either until the queue is
	// taken: so the count stands where the events are missing.
	if r.missed.counts == nil && len(r.queue) < queueSize {
		r.queue = append(r.queue, e)
	} else {
		r.missed.add(e)
	}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (m *missed) add(e event.Event) {
	if m.counts == nil {
		m.counts = make(map[event.Kind]int)
		m.from = e.At
	}
	m.counts[e.Kind]++
	m.to = e.At
}

// tell is what was missed as one event.
func (m missed) tell() event.Event {
	var total int
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(m.counts)) {
		total += m.counts[kind]
		kinds = append(kinds, strconv.Itoa(m.counts[kind])+" × "+kind.String())
	}
	e := event.New(KindOverflow, "count", strconv.Itoa(total), "kinds", strings.Join(kinds, ", "),
		"from", m.from.Format(time.RFC3339), "to", m.to.Format(time.RFC3339))
	e.At = m.to
	return e
}

// take empties the queue.
func (r *Recorder) take() []event.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.queue
	if r.missed.counts != nil {
		taken = append(taken, r.missed.tell())
	}
	r.queue, r.missed = nil, missed{}
	return taken
}

// Run writes what Notify takes until ctx ends, and then what is left. It can
// run once; who calls Notify ends before it does.
func (r *Recorder) Run(ctx context.Context) error {
	var left []event.Event // of a batch that could not be written
	for ctx.Err() == nil {
		select {
		case <-r.wake:
		case <-ctx.Done():
		}
		left = r.drain(ctx, left)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	if left = r.drain(last, left); len(left) > 0 {
		r.log.Error("Events were not recorded", "count", len(left))
	}
	return nil
}

// drain writes everything that is there, and tries again until ctx ends. It
// returns what could not be written.
func (r *Recorder) drain(ctx context.Context, left []event.Event) []event.Event {
	pause := time.Duration(0)
	for {
		if len(left) == 0 {
			if left = r.take(); len(left) == 0 {
				return nil
			}
		}
		batch := left[:min(len(left), batchSize)]
		err := r.store.Record(ctx, batch...)
		if err == nil {
			left, pause = left[len(batch):], 0
			continue
		}
		if ctx.Err() != nil {
			return left
		}
		if pause == 0 {
			r.log.Error("Record events", "err", err)
		}
		pause = min(max(2*pause, firstPause), lastPause)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return left
		}
	}
}
