package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
)

// SamplePassages returns the texts of at most n passages as an engine sees
// them, each once, from all over the index and the same ones as long as that
// does not change.
func (db *DB) SamplePassages(ctx context.Context, n int) ([]string, error) {
	var texts []string
	err := db.view(ctx, func(tx *tx) error {
		var low, high int64
		if err := tx.QueryRowContext(tx.ctx, "SELECT coalesce(min(id), 0), coalesce(max(id), -1) FROM chunks").Scan(&low, &high); err != nil {
			return err
		}
		step := max((high-low)/int64(max(n, 1)), 1)
		for next := low; len(texts) < n && next <= high; {
			found := next
			err := tx.each(func(r *sql.Rows) error {
				c, err := scanChunk(r)
				if found = int64(c.ID); err == nil && !slices.Contains(texts, c.EmbedText()) {
					texts = append(texts, c.EmbedText())
				}
				return err
			}, "SELECT "+chunkColumns+" FROM chunks c WHERE c.id >= ? ORDER BY c.id LIMIT 1", next)
			if err != nil {
				return err
			}
			next = max(next+step, found+1)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read a sample of passages: %w", err)
	}
	return texts, nil
}
