package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// collectPages is how many pages one step gives back to the file system: as
// many as it frees where vectors are long.
const collectPages = 256

// Collect removes at most limit vectors of one generation that has not been in
// use for keep, and gives what became free back to the file system. The
// generations of the fingerprints in use now are noted as such and are safe,
// and so is the active one. It reports whether there may be more to do; other
// writers get their turn between two calls.
func (db *DB) Collect(ctx context.Context, keep time.Duration, inUse []string, limit int) (more bool, err error) {
	err = db.update(ctx, func(tx *tx) error {
		for _, fingerprint := range inUse {
			if err := tx.exec("UPDATE generations SET used = ? WHERE name = ?", tx.now, fingerprint); err != nil {
				return err
			}
		}
		// The names in use have just been used, but keep may be nothing.
		condition, args := "state <> 'active' AND used <= ?", []any{tx.now - int64(keep)}
		if len(inUse) > 0 {
			condition += " AND name NOT IN (" + marks(len(inUse)) + ")"
			for _, fingerprint := range inUse {
				args = append(args, fingerprint)
			}
		}
		g, err := scanGeneration(tx.QueryRowContext(ctx, "SELECT "+generationColumns+" FROM generations g WHERE "+condition+" ORDER BY used, id LIMIT 1", args...))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		more = true
		return tx.collect(g, limit)
	})
	if err == nil && more {
		err = db.vacuum(ctx, collectPages)
	}
	if err != nil {
		return false, fmt.Errorf("collect generations: %w", err)
	}
	return more, nil
}

// collect removes some vectors of g, and g itself when none is left. Should its
// engine come back meanwhile, g is one that was never complete.
func (t *tx) collect(g generation, limit int) error {
	if g.Vectors == 0 {
		if err := t.exec("DELETE FROM generations WHERE id = ?", g.id); err != nil {
			return err
		}
		return t.tell(KindGenerationRemoved, "model", g.Model)
	}
	if err := t.exec("UPDATE generations SET state = 'retired', completed = NULL WHERE id = ?", g.id); err != nil {
		return err
	}
	return t.exec("DELETE FROM vectors WHERE id IN (SELECT id FROM vectors WHERE id >= ? AND id < ? LIMIT ?)",
		g.base(), (g.id+1)<<textBits, limit)
}
