package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/ondol-app/ondol/internal/document"
)

// knownColumns are what scanKnown reads, of documents.
const knownColumns = "id, path, file_id, size, mtime, state, raw_hash"

func scanKnown(r *sql.Rows) (document.Known, error) {
	var k document.Known
	var mtime int64
	var hash []byte
	err := r.Scan(&k.ID, &k.File.Path, &k.File.FileID, &k.File.Size, &mtime, &k.State, &hash)
	k.File.Modified, k.Hash = time.Unix(0, mtime).UTC(), document.Hash(hex.EncodeToString(hash))
	return k, err
}

// Lookup is Files for the documents at or below any of paths, and those whose
// file id is one of fileIDs. The path "." stands for the whole folder.
func (db *DB) Lookup(ctx context.Context, id document.FolderID, paths, fileIDs []string) (map[string]document.Known, error) {
	if slices.Contains(paths, ".") {
		return db.Files(ctx, id)
	}
	all := make(map[string]document.Known)
	err := db.view(ctx, func(tx *tx) error {
		add := func(r *sql.Rows) error {
			k, err := scanKnown(r)
			all[k.File.Path] = k
			return err
		}
		for _, p := range paths {
			// "0" follows "/": the range is everything below the directory.
			if err := tx.each(add, "SELECT "+knownColumns+" FROM documents WHERE folder_id = ?1 AND (path = ?2 OR path >= ?3 AND path < ?4)",
				id, []byte(p), []byte(p+"/"), []byte(p+"0")); err != nil {
				return err
			}
		}
		for _, f := range fileIDs {
			if err := tx.each(add, "SELECT "+knownColumns+" FROM documents WHERE folder_id = ? AND file_id = ?", id, f); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look up files of folder %d: %w", id, err)
	}
	return all, nil
}

// PendingText lists documents of a folder that are to be read: found ones, new
// before changed, then failed ones whose time for another try has come. Both
// orders are those of the ledger's index, so nothing is sorted.
func (db *DB) PendingText(ctx context.Context, id document.FolderID, now time.Time, limit int) ([]document.Work, error) {
	all, err := db.work(ctx, "list documents to read", "d.folder_id = ? AND d.state = 'found' ORDER BY d.reason, d.chunks, d.id LIMIT ?", id, limit)
	if err != nil || len(all) >= limit {
		return all, err
	}
	failed, err := db.work(ctx, "list documents to try again", "d.folder_id = ? AND d.state = 'failed' AND d.due <= ? LIMIT ?", id, stamp(now), limit-len(all))
	return append(all, failed...), err
}

// PendingVectors lists documents of a folder that miss vectors, short ones first.
func (db *DB) PendingVectors(ctx context.Context, id document.FolderID, limit int) ([]document.Work, error) {
	return db.work(ctx, "list documents to embed", "d.folder_id = ? AND d.state = 'embedding' ORDER BY d.reason, d.chunks, d.id LIMIT ?", id, limit)
}

// Work returns single documents in no order; those that are gone are left out.
func (db *DB) Work(ctx context.Context, ids ...document.ID) ([]document.Work, error) {
	var all []document.Work
	for _, id := range ids {
		one, err := db.work(ctx, "read document", "d.id = ?", id)
		if err != nil {
			return nil, err
		}
		all = append(all, one...)
	}
	return all, nil
}

func (db *DB) work(ctx context.Context, what, condition string, args ...any) ([]document.Work, error) {
	var all []document.Work
	err := db.view(ctx, func(tx *tx) error {
		return tx.each(func(r *sql.Rows) error {
			var w document.Work
			var hash []byte
			d, err := scanDocument(r, &w.FileID, &hash)
			w.Document, w.Hash = d, document.Hash(hex.EncodeToString(hash))
			all = append(all, w)
			return err
		}, "SELECT "+documentColumns+", d.file_id, d.raw_hash FROM documents d WHERE "+condition, args...)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return all, nil
}

// Settle makes an embedding document indexed when it misses no vector of the fingerprint.
func (db *DB) Settle(ctx context.Context, id document.ID, fingerprint string) (state document.State, err error) {
	err = db.update(ctx, func(tx *tx) error {
		state, err = tx.settle(id, fingerprint)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("settle document %d: %w", id, err)
	}
	return state, nil
}

// Touch records that the bytes of file are those whose text is stored, and
// settles. It returns ErrNotFound when the document is gone or has no text.
func (db *DB) Touch(ctx context.Context, id document.ID, fingerprint string, file document.File) (state document.State, err error) {
	err = db.update(ctx, func(tx *tx) error {
		if err := tx.changed(`UPDATE documents SET state = 'embedding', reason = '', detail = '', due = ?, file_id = ?, size = ?, mtime = ?
			WHERE id = ? AND chunks > 0`, tx.now, file.FileID, file.Size, stamp(file.Modified), id); err != nil {
			return err
		}
		state, err = tx.settle(id, fingerprint)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("touch document %d: %w", id, err)
	}
	return state, nil
}
