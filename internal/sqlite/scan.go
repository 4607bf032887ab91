package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/ondol-app/ondol/internal/document"
)

// Files is what the index knows of a folder's files, by relative path.
func (db *DB) Files(ctx context.Context, id document.FolderID) (map[string]document.Known, error) {
	all := make(map[string]document.Known)
	err := db.view(ctx, func(tx *tx) error {
		return tx.each(func(r *sql.Rows) error {
			k, err := scanKnown(r)
			all[k.File.Path] = k
			return err
		}, "SELECT "+knownColumns+" FROM documents WHERE folder_id = ?", id)
	})
	if err != nil {
		return nil, fmt.Errorf("list files of folder %d: %w", id, err)
	}
	return all, nil
}

// ApplyScan records the outcome of a scan in one transaction. Documents are
// removed first and moved second, so that paths may be swapped or taken over.
// Texts that have been without a document for longer than the grace period
// lose their vectors here.
func (db *DB) ApplyScan(ctx context.Context, id document.FolderID, c document.Changes) error {
	err := db.update(ctx, func(tx *tx) error {
		for _, gone := range c.Gone {
			if err := tx.forget("id = ?", gone); err != nil {
				return fmt.Errorf("remove document %d: %w", gone, err)
			}
		}
		if err := tx.move(id, c.Moved); err != nil {
			return err
		}
		for _, t := range c.Touched {
			if err := tx.exec("UPDATE documents SET file_id = ?, size = ?, mtime = ? WHERE id = ?",
				t.File.FileID, t.File.Size, stamp(t.File.Modified), t.ID); err != nil {
				return fmt.Errorf("touch document %d: %w", t.ID, err)
			}
		}
		for _, ch := range c.Changed {
			if err := tx.exec(`UPDATE documents SET file_id = ?, size = ?, mtime = ?, state = 'found', reason = '', detail = '', tries = 0, due = ?
				WHERE id = ?`, ch.File.FileID, ch.File.Size, stamp(ch.File.Modified), tx.now, ch.ID); err != nil {
				return fmt.Errorf("queue document %d: %w", ch.ID, err)
			}
		}
		for _, f := range c.Found {
			// A path that is known after all was replaced: it is read again.
			if err := tx.exec(`INSERT INTO documents (folder_id, path, path_key, file_id, size, mtime, state, due)
				VALUES (?, ?, ?, ?, ?, ?, 'found', ?)
				ON CONFLICT (folder_id, path) DO UPDATE SET file_id = excluded.file_id, size = excluded.size, mtime = excluded.mtime,
					state = 'found', reason = '', detail = '', tries = 0, due = excluded.due`,
				id, []byte(f.Path), key(f.Path), f.FileID, f.Size, stamp(f.Modified), tx.now); err != nil {
				return fmt.Errorf("add document %q: %w", f.Path, err)
			}
		}
		if err := tx.collectOrphaned("orphaned < ?", tx.now-int64(db.grace)); err != nil {
			return err
		}
		return tx.tellScan(id, c)
	})
	if err != nil {
		return fmt.Errorf("apply scan of folder %d: %w", id, err)
	}
	return nil
}

// move gives documents other paths. What a path was taken from is forgotten.
func (t *tx) move(id document.FolderID, moves []document.Change) error {
	// Out of the way first: a and b may have changed places.
	for _, m := range moves {
		if err := t.exec("UPDATE documents SET path = ? WHERE id = ?", fmt.Appendf(nil, "\x00%d", m.ID), m.ID); err != nil {
			return fmt.Errorf("move document %d: %w", m.ID, err)
		}
	}
	for _, m := range moves {
		if err := t.forget("folder_id = ? AND path = ?", id, []byte(m.File.Path)); err != nil {
			return fmt.Errorf("move document %d: %w", m.ID, err)
		}
		if err := t.exec("UPDATE documents SET path = ?, path_key = ?, file_id = ?, size = ?, mtime = ? WHERE id = ?",
			[]byte(m.File.Path), key(m.File.Path), m.File.FileID, m.File.Size, stamp(m.File.Modified), m.ID); err != nil {
			return fmt.Errorf("move document %d: %w", m.ID, err)
		}
		if err := t.renameWords(m.ID); err != nil {
			return fmt.Errorf("move document %d: %w", m.ID, err)
		}
	}
	return nil
}

// forget removes the documents that condition selects, with all that hangs on them.
func (t *tx) forget(condition string, args ...any) error {
	ids, err := t.ints("SELECT id FROM documents WHERE "+condition, args...)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := t.dropText(document.ID(id)); err != nil {
			return err
		}
		if err := t.exec("DELETE FROM documents WHERE id = ?", id); err != nil {
			return err
		}
	}
	return nil
}
