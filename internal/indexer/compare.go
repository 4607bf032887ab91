package indexer

import (
	"context"
	"slices"

	"github.com/ondol-app/ondol/internal/document"
)

// applySlice bounds the files found by one transaction, so that the first scan
// of a large folder does not hold the writer for long.
const applySlice = 2000

// compare has f compare a scan with the index and records what it decides.
// Nothing is written in between: a worker that stored another file's text under
// a path would make a move of what was known before a move of that text. Only
// files found beyond the first slice come later; they touch nothing known.
func (q *queue) compare(ctx context.Context, id document.FolderID, f func() (outcome, error)) (outcome, error) {
	out, err := q.decide(ctx, id, f)
	if err != nil {
		return outcome{}, err
	}
	for rest := range slices.Chunk(out.Found[min(len(out.Found), applySlice):], applySlice) {
		q.mu.Lock()
		err := q.apply(ctx, id, document.Changes{Found: rest})
		q.mu.Unlock()
		if err != nil {
			return outcome{}, err
		}
	}
	return out, nil
}

// decide is compare up to the first slice.
func (q *queue) decide(ctx context.Context, id document.FolderID, f func() (outcome, error)) (outcome, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	out, err := f()
	if err != nil {
		return outcome{}, err
	}
	if len(out.Reread) > 0 {
		// Queued before they are moved: after a crash in between, the next scan
		// finds them moved again.
		if err := q.apply(ctx, id, document.Changes{Changed: out.Reread}); err != nil {
			return outcome{}, err
		}
	}
	first := out.Changes
	first.Found = first.Found[:min(len(first.Found), applySlice)]
	if first.Empty() {
		return out, nil
	}
	return out, q.apply(ctx, id, first)
}

// apply records a part of what a scan decided and marks the tickets that it
// outdates, with q.mu held.
func (q *queue) apply(ctx context.Context, id document.FolderID, c document.Changes) error {
	if err := q.store.ApplyScan(ctx, id, c); err != nil {
		return err
	}
	for _, ch := range c.Changed {
		q.outdate(ch.ID)
	}
	for _, m := range c.Moved {
		q.outdate(m.ID) // it would be read under the old path
	}
	for _, id := range c.Gone {
		q.outdate(id)
	}
	if len(c.Found)+len(c.Changed)+len(c.Moved) > 0 {
		q.lanes[stageText].dry = false
		q.signal(stageText)
	}
	return nil
}

// outdate marks the ticket of a document stale and drops it from the windows,
// whose copy shows the file of before.
func (q *queue) outdate(id document.ID) {
	if t := q.taken[id]; t != nil {
		t.stale = true
	}
	delete(q.later, id)
	delete(q.tries, id)
	for i := range q.lanes {
		l := &q.lanes[i]
		l.drop(id)
		l.dry = false
	}
}
