package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/ondol-app/ondol/internal/document"
)

// documentColumns are what scanDocument reads, of documents d.
const documentColumns = `d.id, d.folder_id, d.path, d.title, d.kind, d.language, d.size, d.mtime,
	d.state, d.reason, d.detail, d.tries, CASE d.state WHEN 'failed' THEN d.due END, d.chunks`

func scanDocument(r interface{ Scan(...any) error }, more ...any) (document.Document, error) {
	var d document.Document
	var mtime int64
	var retry sql.NullInt64
	dest := []any{&d.ID, &d.FolderID, &d.Path, &d.Title, &d.Kind, &d.Language, &d.Size, &mtime,
		&d.State, &d.Reason, &d.Detail, &d.Tries, &retry, &d.Chunks}
	err := r.Scan(append(dest, more...)...)
	d.Modified, d.RetryAt = time.Unix(0, mtime).UTC(), moment(retry)
	return d, err
}

// Documents lists documents in order of id.
func (db *DB) Documents(ctx context.Context, q document.DocumentQuery) ([]document.Document, error) {
	filter := document.Filter{Path: q.Path, Kinds: q.Kinds}
	if q.Folder != 0 {
		filter.Folders = []document.FolderID{q.Folder}
	}
	condition, args := where(filter)
	all := []string{"d.id > ?"}
	args = append([]any{q.After}, args...)
	if condition != "" {
		all = append(all, condition)
	}
	if q.State != "" {
		all, args = append(all, "d.state = ?"), append(args, string(q.State))
	}
	if q.File != "" {
		path := key(q.File)
		all, args = append(all, pathColumn(path)+" = ?"), append(args, path)
	}
	return db.documents(ctx, "list documents", strings.Join(all, " AND ")+" ORDER BY d.id LIMIT ?", append(args, q.Limit)...)
}

// Document returns one document, or ErrNotFound.
func (db *DB) Document(ctx context.Context, id document.ID) (document.Document, error) {
	all, err := db.documents(ctx, "read document", "d.id = ?", id)
	if err != nil {
		return document.Document{}, err
	}
	if len(all) == 0 {
		return document.Document{}, fmt.Errorf("read document %d: %w", id, ErrNotFound)
	}
	return all[0], nil
}

func (db *DB) documents(ctx context.Context, what, condition string, args ...any) ([]document.Document, error) {
	var all []document.Document
	err := db.view(ctx, func(tx *tx) error {
		return tx.each(func(r *sql.Rows) error {
			d, err := scanDocument(r)
			all = append(all, d)
			return err
		}, "SELECT "+documentColumns+" FROM documents d JOIN folders f ON f.id = d.folder_id WHERE "+condition, args...)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return all, nil
}

// SaveSkipped records that a document is left out, and removes the text of an earlier version.
func (db *DB) SaveSkipped(ctx context.Context, id document.ID, reason document.Reason, file document.File) error {
	err := db.update(ctx, func(tx *tx) error {
		if err := tx.dropText(id); err != nil {
			return err
		}
		if err := tx.changed(`UPDATE documents SET state = 'skipped', reason = ?, detail = '', tries = 0, due = NULL,
			raw_hash = NULL, file_id = ?, size = ?, mtime = ? WHERE id = ?`,
			string(reason), file.FileID, file.Size, stamp(file.Modified), id); err != nil {
			return err
		}
		return tx.tellDocument(KindDocumentSkipped, id, "reason", string(reason))
	})
	if err != nil {
		return fmt.Errorf("skip document %d: %w", id, err)
	}
	return nil
}

// SaveFailed records that reading or embedding went wrong. The text that the
// document has, if any, stays searchable. A zero retryAt means never again by itself.
func (db *DB) SaveFailed(ctx context.Context, id document.ID, reason document.Reason, detail string, retryAt time.Time) error {
	err := db.update(ctx, func(tx *tx) error {
		state, before, err := tx.outcome(id)
		if err != nil {
			return err
		}
		if err := tx.exec("UPDATE documents SET state = 'failed', reason = ?, detail = ?, tries = tries + 1, due = ? WHERE id = ?",
			string(reason), detail, stampOrNull(retryAt), id); err != nil {
			return err
		}
		if state == document.Failed && before == reason {
			return nil // it was tried again, and nothing is new
		}
		return tx.tellDocument(KindDocumentFailed, id, "reason", string(reason))
	})
	if err != nil {
		return fmt.Errorf("record failure of document %d: %w", id, err)
	}
	return nil
}

// Retry puts documents back into the queue, at its end, with no failure on
// their record. It returns ErrNotFound, and changes nothing, when one is unknown.
func (db *DB) Retry(ctx context.Context, ids ...document.ID) error {
	err := db.update(ctx, func(tx *tx) error {
		for _, id := range ids {
			if err := tx.changed("UPDATE documents SET state = 'found', reason = '', detail = '', tries = 0, due = ? WHERE id = ?", tx.now, id); err != nil {
				return fmt.Errorf("document %d: %w", id, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("retry: %w", err)
	}
	return nil
}
