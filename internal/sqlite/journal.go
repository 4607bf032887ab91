package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ondol-app/ondol/internal/event"
)

// How long events are kept, unless Config says otherwise.
const (
	DefaultEvents   = 100_000
	DefaultEventAge = 30 * 24 * time.Hour
)

const (
	// pruneEvery is after how many rows, and pruneAfter after how long, the
	// next row takes old ones with it.
	pruneEvery = 256
	pruneAfter = time.Hour
	// pruneStep bounds the rows that one transaction takes with it: after the
	// limits were lowered the journal shrinks over several.
	pruneStep = 4096
)

// journal is the writer's side of the events.
type journal struct {
	keep int64         // rows
	age  time.Duration // of a row
	kick chan struct{} // 1-buffered; see Recorded

	// Of the last pruning. Only a transaction of the writer touches them, and
	// there is one at a time; one that is rolled back has pruned nothing, and
	// the next pruning makes up for it.
	prunedSeq int64
	prunedAt  int64
}

func newJournal(keep int, age time.Duration) *journal {
	if keep == 0 {
		keep = DefaultEvents
	}
	if age == 0 {
		age = DefaultEventAge
	}
	return &journal{keep: int64(keep), age: age, kick: make(chan struct{}, 1)}
}

// Record writes events that belong to no transaction of the index, in order.
// Their Seq is ignored.
func (db *DB) Record(ctx context.Context, events ...event.Event) error {
	err := db.update(ctx, func(tx *tx) error {
		for _, e := range events {
			if err := tx.note(stamp(e.At), e.Kind, e.Args); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("record events: %w", err)
	}
	return nil
}

// Recorded gets a value after every commit that wrote events, commits in quick
// succession counting as one.
func (db *DB) Recorded() <-chan struct{} { return db.journal.kick }

// Events lists at most limit events after seq, in order, with the span that is
// kept, of the same moment.
func (db *DB) Events(ctx context.Context, after uint64, limit int) (events []event.Event, kept event.Span, err error) {
	err = db.view(ctx, func(tx *tx) error {
		if kept, err = tx.keptEvents(); err != nil {
			return err
		}
		return tx.each(func(r *sql.Rows) error {
			var e event.Event
			var at int64
			var args sql.RawBytes
			if err := r.Scan(&e.Seq, &at, &e.Kind, &args); err != nil {
				return err
			}
			e.At = time.Unix(0, at).UTC()
			events = append(events, e)
			if len(args) == len("{}") {
				return nil
			}
			return json.Unmarshal(args, &events[len(events)-1].Args)
		}, "SELECT seq, at, kind, args FROM events WHERE seq > ? ORDER BY seq LIMIT ?", int64(min(after, maxSeq)), limit)
	})
	if err != nil {
		return nil, event.Span{}, fmt.Errorf("read events: %w", err)
	}
	return events, kept, nil
}

// maxSeq is the largest number SQLite gives to a row.
const maxSeq = 1<<63 - 1

// EventSpan is what the journal keeps now.
func (db *DB) EventSpan(ctx context.Context) (kept event.Span, err error) {
	err = db.view(ctx, func(tx *tx) error {
		kept, err = tx.keptEvents()
		return err
	})
	if err != nil {
		return event.Span{}, fmt.Errorf("read span of events: %w", err)
	}
	return kept, nil
}

func (t *tx) keptEvents() (kept event.Span, err error) {
	// The number given last is known even when its row is gone.
	err = t.one("SELECT seq FROM sqlite_sequence WHERE name = 'events'", nil, &kept.Newest)
	if errors.Is(err, sql.ErrNoRows) {
		return event.Span{Oldest: 1}, nil
	}
	if err != nil {
		return kept, err
	}
	return kept, t.one("SELECT coalesce(min(seq), ? + 1) FROM events", []any{kept.Newest}, &kept.Oldest)
}

// tell records what the transaction does, as of its beginning. Args are pairs
// of name and value.
func (t *tx) tell(kind event.Kind, args ...string) error {
	return t.note(t.now, kind, event.New(kind, args...).Args)
}

// note writes one event.
func (t *tx) note(at int64, kind event.Kind, args map[string]string) error {
	text := []byte("{}")
	if len(args) > 0 {
		var err error
		if text, err = json.Marshal(args); err != nil {
			return fmt.Errorf("write arguments of %s: %w", kind, err)
		}
	}
	r, err := t.ExecContext(t.ctx, "INSERT INTO events (at, kind, args) VALUES (?, ?, ?)", at, string(kind), string(text))
	if err != nil {
		return fmt.Errorf("insert event %s: %w", kind, err)
	}
	t.told = true
	seq, err := r.LastInsertId()
	if err != nil {
		return err
	}
	return t.prune(seq)
}

// prune removes rows that are beyond the limits, once in a while, behind the
// row that was written. Rows are in order of time but for moments, so the first
// one young enough ends it.
func (t *tx) prune(seq int64) error {
	j := t.journal
	if seq < j.prunedSeq+pruneEvery && t.now < j.prunedAt+int64(pruneAfter) {
		return nil
	}
	j.prunedSeq, j.prunedAt = seq, t.now
	var oldest, young int64
	if err := t.one(`SELECT min(seq), coalesce((SELECT seq FROM events WHERE at >= ? ORDER BY seq LIMIT 1), ?) FROM events`,
		[]any{t.now - int64(j.age), seq}, &oldest, &young); err != nil {
		return fmt.Errorf("find old events: %w", err)
	}
	cut := min(max(seq-j.keep, young-1), oldest+pruneStep)
	if cut < oldest {
		return nil
	}
	if err := t.exec("DELETE FROM events WHERE seq <= ?", cut); err != nil {
		return fmt.Errorf("delete old events: %w", err)
	}
	return nil
}
