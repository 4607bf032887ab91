package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/ondol-app/ondol/internal/document"
)

// tx is one transaction. No query is run while the rows of another are open:
// there is one connection.
type tx struct {
	ctx context.Context
	*sql.Tx
	now     int64    // the moment the transaction began, as it is stored
	journal *journal // of the index; nil for a cache
	told    bool     // an event was written
}

// update runs f in a transaction of the writer and commits when f returns nil.
func (db *DB) update(ctx context.Context, f func(*tx) error) error {
	return db.run(ctx, db.write, f)
}

// view runs f in a transaction of a reader: one state of the index throughout.
func (db *DB) view(ctx context.Context, f func(*tx) error) error {
	return db.run(ctx, db.read, f)
}

func (db *DB) run(ctx context.Context, pool *sql.DB, f func(*tx) error) error {
	t, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	defer t.Rollback() // after a commit it does nothing
	work := &tx{ctx: ctx, Tx: t, now: stamp(db.now()), journal: db.journal}
	if err := f(work); err != nil {
		return err
	}
	if err := t.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if work.told {
		select {
		case db.journal.kick <- struct{}{}:
		default: // whoever is kicked reads all there is
		}
	}
	return nil
}

func (t *tx) exec(query string, args ...any) error {
	_, err := t.ExecContext(t.ctx, query, args...)
	return err
}

// changed is exec for a statement that must meet at least one row.
func (t *tx) changed(query string, args ...any) error {
	r, err := t.ExecContext(t.ctx, query, args...)
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, document.ErrNotFound)
	}
	return nil
}

// each runs a query and calls f for each row.
func (t *tx) each(f func(*sql.Rows) error, query string, args ...any) error {
	rows, err := t.QueryContext(t.ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// one runs a query of one row.
func (t *tx) one(query string, args []any, dest ...any) error {
	return t.QueryRowContext(t.ctx, query, args...).Scan(dest...)
}

// ints runs a query of one column of integers.
func (t *tx) ints(query string, args ...any) ([]int64, error) {
	var all []int64
	err := t.each(func(r *sql.Rows) error {
		var n int64
		err := r.Scan(&n)
		all = append(all, n)
		return err
	}, query, args...)
	return all, err
}

// stamp and moment convert times; the zero time is NULL.
func stamp(t time.Time) int64 { return t.UnixNano() }

func stampOrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return stamp(t)
}

func moment(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return time.Unix(0, n.Int64).UTC()
}

// key is the spelling in which paths and words are compared.
func key(s string) string { return norm.NFC.String(s) }
