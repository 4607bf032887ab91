package indexer

import (
	"errors"
	"time"

	"github.com/ondol-app/ondol/internal/document"
)

// errStale is what a stale ticket gets instead of a write.
var errStale = errors.New("the file changed meanwhile")

// ticket is the right of one worker to work on one document.
type ticket struct {
	document.Work
	urgent bool
	stale  bool // a scan saw another file since, or the folder is gone; guarded by queue.mu
}

// done gives a ticket back whose work is done, or outdated.
func (q *queue) done(t *ticket) { q.giveBack(t, func() { delete(q.tries, t.ID) }) }

// release gives a ticket back undone, for whoever takes it next.
func (q *queue) release(t *ticket) { q.giveBack(t, func() { q.again(t, t.State) }) }

// pass gives a ticket back whose document misses vectors now.
func (q *queue) pass(t *ticket) {
	q.giveBack(t, func() {
		delete(q.tries, t.ID)
		q.again(t, document.Embedding)
	})
}

// rest gives a ticket back for another try after a while.
func (q *queue) rest(t *ticket, d time.Duration) {
	q.giveBack(t, func() {
		q.again(t, t.State)
		if !t.stale {
			q.later[t.ID] = q.now().Add(d)
		}
	})
}

// putOff is rest for a document that may be to blame: it is counted.
func (q *queue) putOff(t *ticket, d time.Duration) {
	q.giveBack(t, func() {
		q.again(t, t.State)
		if !t.stale {
			q.later[t.ID] = q.now().Add(d)
			q.tries[t.ID]++
		}
	})
}

// again keeps an urgent document urgent, with q.mu held.
func (q *queue) again(t *ticket, state document.State) {
	if t.urgent && !t.stale {
		w := t.Work
		w.State = state
		q.hurry(w)
	}
}

// giveBack ends a ticket, with f under q.mu. The workers look at the store
// again: it may hold the document still.
func (q *queue) giveBack(t *ticket, f func()) {
	q.mu.Lock()
	delete(q.taken, t.ID)
	f()
	for i := range q.lanes {
		q.lanes[i].dry = false
	}
	q.mu.Unlock()
	q.signalAll()
}

// triesOf is how often in a row a document was put off.
func (q *queue) triesOf(t *ticket) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.tries[t.ID]
}

// isStale reports whether a scan outdated the ticket.
func (q *queue) isStale(t *ticket) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return t.stale
}

// write runs one transaction of the store about the document of a ticket,
// unless the ticket is stale; then it returns errStale.
func (q *queue) write(t *ticket, f func() error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.stale {
		return errStale
	}
	return f()
}
