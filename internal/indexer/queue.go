package indexer

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ondol-app/ondol/internal/document"
)

// stage is a part of the way of a document into the index.
type stage int

const (
	stageText    stage = iota // found, or failed and due: to be read
	stageVectors              // embedding: vectors are missing
	stages
)

// fetch is how many documents are taken from the store at a time, beyond those
// that are in work already.
const fetch = 128

// queue hands out documents to the workers, each to one at a time. The store
// holds the queue; this is a window on it, plus the few that go first.
//
// Its lock also orders writes: a scan that finds a document changed while a
// worker holds an earlier version of it marks the worker's ticket stale, and a
// stale ticket writes nothing. Both happen under mu, around the transaction,
// so a document that a scan called changed cannot end as indexed with the text
// of before. The store has one writer, so this makes nobody wait longer.
type queue struct {
	store Store
	now   func() time.Time

	mu    sync.Mutex // guards everything below
	taken map[document.ID]*ticket
	later map[document.ID]time.Time // not to be taken before
	tries map[document.ID]int       // times put off in a row
	lanes [stages]lane
	// folders are those whose documents are handed out, in the order of their ids
	folders []document.FolderID

	wake [stages]chan struct{} // 1-buffered
}

// lane is the window of one stage.
type lane struct {
	urgent []document.Work // the newest hints, before everything else
	window []document.Work
	dry    bool // the store had nothing more to give when asked last
}

// drop takes a document out of the lane.
func (l *lane) drop(id document.ID) {
	same := func(w document.Work) bool { return w.ID == id }
	l.urgent = slices.DeleteFunc(l.urgent, same)
	l.window = slices.DeleteFunc(l.window, same)
}

func newQueue(store Store, now func() time.Time) *queue {
	q := &queue{store: store, now: now, taken: make(map[document.ID]*ticket), later: make(map[document.ID]time.Time), tries: make(map[document.ID]int)}
	for s := range q.wake {
		q.wake[s] = make(chan struct{}, 1)
	}
	return q
}

// kick makes the workers of a stage look again at the store.
func (q *queue) kick(s stage) {
	q.mu.Lock()
	q.lanes[s].dry = false
	q.mu.Unlock()
	q.signal(s)
}

func (q *queue) signal(s stage) {
	select {
	case q.wake[s] <- struct{}{}:
	default:
	}
}

func (q *queue) signalAll() {
	for s := range stages {
		q.signal(s)
	}
}

// urge puts work before everything else of its stage: what is found is read,
// what is read is embedded first.
func (q *queue) urge(work []document.Work) {
	q.mu.Lock()
	for _, w := range work {
		delete(q.later, w.ID)
		delete(q.tries, w.ID)
		if t := q.taken[w.ID]; t != nil && !t.stale {
			t.urgent = true // a worker was faster
		} else {
			q.hurry(w)
		}
	}
	q.mu.Unlock()
	q.signalAll()
}

// hurry is urge for one document that nobody works on, with q.mu held.
func (q *queue) hurry(w document.Work) {
	s := stageText
	switch w.State {
	case document.Found, document.Failed:
	case document.Embedding:
		s = stageVectors
	default:
		return
	}
	l := &q.lanes[s]
	l.drop(w.ID)
	l.urgent = append(l.urgent, w)
}

// next waits for a document. The ticket must be given back with done.
func (q *queue) next(ctx context.Context, s stage) (*ticket, error) {
	for {
		t, wait, err := q.take(ctx, s)
		if err != nil {
			return nil, err
		}
		if t != nil {
			q.signal(s) // there may be more for another worker
			return t, nil
		}
		if err := q.sleep(ctx, s, wait); err != nil {
			return nil, err
		}
	}
}

// sleep waits for a signal, or for wait where it is positive.
func (q *queue) sleep(ctx context.Context, s stage, wait time.Duration) error {
	var due <-chan time.Time
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		due = t.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-q.wake[s]:
	case <-due:
	}
	return nil
}

// take is next without waiting: nil when there is nothing now; wait is the
// time until something that was put off is due, 0 for nothing.
func (q *queue) take(ctx context.Context, s stage) (t *ticket, wait time.Duration, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := &q.lanes[s]
	q.forgetDue()
	if t := q.first(l, l.urgent); t != nil {
		t.urgent = true
		return t, 0, nil
	}
	for {
		if t := q.first(l, l.window); t != nil {
			return t, 0, nil
		}
		if l.window = nil; l.dry {
			return nil, q.nearest(), nil
		}
		if err := q.refill(ctx, s); err != nil {
			return nil, 0, err
		}
	}
}

// takeUrgent is take for what goes before everything else.
func (q *queue) takeUrgent(s stage) *ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.first(&q.lanes[s], q.lanes[s].urgent)
	if t != nil {
		t.urgent = true
	}
	return t
}

// first takes the first of list, which is of l, that nobody works on and that
// is not put off.
func (q *queue) first(l *lane, list []document.Work) *ticket {
	now := q.now()
	for _, w := range list {
		if _, busy := q.taken[w.ID]; busy || q.later[w.ID].After(now) {
			continue
		}
		t := &ticket{Work: w}
		q.taken[w.ID] = t
		l.drop(w.ID)
		return t
	}
	return nil
}

// refill asks the store for more, of every folder in turn, so that a small
// folder does not wait for a large one. Documents in work or put off are among
// the first of each, so room is left for them.
func (q *queue) refill(ctx context.Context, s stage) error {
	l := &q.lanes[s]
	now := q.now()
	var lists [][]document.Work
	for _, folder := range q.folders {
		limit := max(fetch/len(q.folders), 8) + len(q.taken) + len(q.later)
		var work []document.Work
		var err error
		if s == stageText {
			work, err = q.store.PendingText(ctx, folder, now, limit)
		} else {
			work, err = q.store.PendingVectors(ctx, folder, limit)
		}
		if err != nil {
			return err
		}
		lists = append(lists, slices.DeleteFunc(work, func(w document.Work) bool {
			_, busy := q.taken[w.ID]
			return busy || q.later[w.ID].After(now)
		}))
	}
	l.window = inTurn(lists)
	l.dry = len(l.window) == 0
	return nil
}

// inTurn merges lists, one from each at a time.
func inTurn(lists [][]document.Work) []document.Work {
	var all []document.Work
	for i := 0; ; i++ {
		some := false
		for _, list := range lists {
			if i < len(list) {
				all, some = append(all, list[i]), true
			}
		}
		if !some {
			return all
		}
	}
}

// forgetDue makes dry lanes ask the store again once something put off is due.
func (q *queue) forgetDue() {
	now := q.now()
	for id, at := range q.later {
		if !at.After(now) {
			delete(q.later, id)
			for i := range q.lanes {
				q.lanes[i].dry = false
			}
		}
	}
}

// nearest is the time until the first document put off is due, 0 for none.
func (q *queue) nearest() time.Duration {
	var first time.Time
	for _, at := range q.later {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	if first.IsZero() {
		return 0
	}
	return max(first.Sub(q.now()), time.Millisecond)
}

// retry makes the store read documents again, whatever became of them.
func (q *queue) retry(ctx context.Context, ids []document.ID) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.store.Retry(ctx, ids...); err != nil {
		return err
	}
	for _, id := range ids {
		q.outdate(id)
	}
	q.signal(stageText)
	return nil
}

// inWork is how many documents have a ticket.
func (q *queue) inWork() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.taken)
}

// addFolder makes the documents of a folder available.
func (q *queue) addFolder(id document.FolderID) {
	q.mu.Lock()
	q.folders = append(q.folders, id)
	q.mu.Unlock()
	for s := range stages {
		q.kick(s)
	}
}

// dropFolder outdates everything of a folder that is to be removed.
func (q *queue) dropFolder(id document.FolderID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.folders = slices.DeleteFunc(q.folders, func(f document.FolderID) bool { return f == id })
	for _, t := range q.taken {
		if t.FolderID == id {
			t.stale = true
		}
	}
	same := func(w document.Work) bool { return w.FolderID == id }
	for i := range q.lanes {
		q.lanes[i].urgent = slices.DeleteFunc(q.lanes[i].urgent, same)
		q.lanes[i].window = slices.DeleteFunc(q.lanes[i].window, same)
	}
}
