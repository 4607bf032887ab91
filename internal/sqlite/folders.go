package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ondol-app/ondol/internal/document"
)

// AddFolder makes path a watched folder in state scanning. The path must be
// absolute and clean, with symlinks resolved by the caller. It returns
// ErrFolderExists or *document.FolderOverlapError when files would belong to
// two folders.
func (db *DB) AddFolder(ctx context.Context, path string) (document.Folder, error) {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return document.Folder{}, fmt.Errorf("add folder %q: give its absolute path in its shortest form", path)
	}
	f := document.Folder{Path: path, State: document.FolderScanning}
	err := db.update(ctx, func(tx *tx) error {
		f.Added = time.Unix(0, tx.now).UTC()
		if err := tx.disjoint(path); err != nil {
			return err
		}
		if err := tx.one("INSERT INTO folders (path, path_key, state, added) VALUES (?, ?, ?, ?) RETURNING id",
			[]any{[]byte(path), key(path), string(f.State), tx.now}, &f.ID); err != nil {
			return err
		}
		return tx.tell(KindFolderAdded, "path", path)
	})
	if err != nil {
		return document.Folder{}, fmt.Errorf("add folder: %w", err)
	}
	return f, nil
}

// disjoint checks that path neither is, holds nor lies in a watched folder.
func (t *tx) disjoint(path string) error {
	return t.each(func(r *sql.Rows) error {
		var have string
		if err := r.Scan(&have); err != nil {
			return err
		}
		switch {
		case key(have) == key(path):
			return document.ErrFolderExists
		case within(key(path), key(have)):
			return &document.FolderOverlapError{Path: path, Existing: have, Inside: true}
		case within(key(have), key(path)):
			return &document.FolderOverlapError{Path: path, Existing: have}
		}
		return nil
	}, "SELECT path FROM folders")
}

// within reports whether path lies below dir.
func within(path, dir string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// RemoveFolder forgets a folder with all that was made from its files; the
// files are not touched. Vectors that no other folder needs go at once.
func (db *DB) RemoveFolder(ctx context.Context, id document.FolderID) error {
	err := db.update(ctx, func(tx *tx) error {
		var path string
		var documents int64
		if err := tx.one("SELECT path, (SELECT count(*) FROM documents WHERE folder_id = f.id) FROM folders f WHERE id = ?",
			[]any{id}, &path, &documents); err != nil {
			return notFound(err)
		}
		if err := tx.forget("folder_id = ?", id); err != nil {
			return err
		}
		if err := tx.collectOrphaned("orphaned = ?", tx.now); err != nil {
			return err
		}
		if err := tx.exec("DELETE FROM folders WHERE id = ?", id); err != nil {
			return err
		}
		return tx.tell(KindFolderRemoved, "path", path, "documents", strconv.FormatInt(documents, 10))
	})
	if err != nil {
		return fmt.Errorf("remove folder %d: %w", id, err)
	}
	return db.shrink(ctx)
}

// shrink gives the pages that became free back to the file system, a few at a
// time, so that other writers get their turn in between.
func (db *DB) shrink(ctx context.Context) error {
	const step = 1024 // pages: 16 MiB
	for {
		var free int64
		if err := db.write.QueryRowContext(ctx, "PRAGMA freelist_count").Scan(&free); err != nil {
			return fmt.Errorf("shrink index: %w", err)
		}
		if free == 0 {
			return nil
		}
		if err := db.vacuum(ctx, step); err != nil {
			return fmt.Errorf("shrink index: %w", err)
		}
	}
}

func (db *DB) vacuum(ctx context.Context, pages int) error {
	rows, err := db.write.QueryContext(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", pages))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() { // one step a page
	}
	return rows.Err()
}

// SetFolderState records whether a folder can be read. A zero lastScan keeps the old one.
func (db *DB) SetFolderState(ctx context.Context, id document.FolderID, state document.FolderState, reason string, lastScan time.Time) error {
	err := db.update(ctx, func(tx *tx) error {
		if err := tx.changed("UPDATE folders SET state = ?, reason = ?, last_scan = coalesce(?, last_scan) WHERE id = ?",
			string(state), reason, stampOrNull(lastScan), id); err != nil {
			return err
		}
		return tx.tellFolder(id, state, reason)
	})
	if err != nil {
		return fmt.Errorf("set state of folder %d: %w", id, err)
	}
	return nil
}

// ledger counts every document once, by folder, state and reason.
const ledger = `
	SELECT f.id, f.path, f.state, f.reason, f.last_scan, f.added,
	       coalesce(d.state, ''), coalesce(d.reason, ''), count(d.id), coalesce(sum(d.chunks), 0)
	FROM folders f LEFT JOIN documents d ON d.folder_id = f.id
	GROUP BY f.id, d.state, d.reason
	ORDER BY f.id`

// Folders lists the watched folders in the order they were added, each with
// its ledger. All figures are of the same moment.
func (db *DB) Folders(ctx context.Context) ([]document.Folder, error) {
	var all []document.Folder
	err := db.view(ctx, func(tx *tx) error {
		return tx.each(func(r *sql.Rows) error {
			f, counts, err := scanLedger(r)
			if err != nil {
				return err
			}
			if n := len(all); n == 0 || all[n-1].ID != f.ID {
				all = append(all, f)
			}
			last := &all[len(all)-1]
			last.Counts = last.Counts.Add(counts)
			return nil
		}, ledger)
	})
	if err != nil {
		return nil, fmt.Errorf("list folders: %w", err)
	}
	return all, nil
}

// Standing is the state of each folder and how much is pending, all of the same
// moment. It counts what is pending only, so it is cheap where all is indexed.
func (db *DB) Standing(ctx context.Context) (document.Standing, error) {
	now := document.Standing{Folders: make(map[document.FolderID]document.FolderState)}
	err := db.view(ctx, func(tx *tx) error {
		return tx.each(func(r *sql.Rows) error {
			var id document.FolderID
			var state document.FolderState
			var scan sql.NullInt64
			var pending int64
			if err := r.Scan(&id, &state, &scan, &pending); err != nil {
				return err
			}
			if at := moment(scan); len(now.Folders) == 0 || at.Before(now.LastScan) {
				now.LastScan = at
			}
			now.Folders[id] = state
			now.Pending += pending
			return nil
		}, `SELECT f.id, f.state, f.last_scan, (SELECT count(*) FROM documents d
				WHERE d.folder_id = f.id AND d.state IN ('found', 'embedding')) FROM folders f`)
	})
	if err != nil {
		return document.Standing{}, fmt.Errorf("read standing of folders: %w", err)
	}
	return now, nil
}

// Counts is the ledger of all folders together.
func (db *DB) Counts(ctx context.Context) (document.Counts, error) {
	folders, err := db.Folders(ctx)
	var sum document.Counts
	for _, f := range folders {
		sum = sum.Add(f.Counts)
	}
	return sum, err
}

// scanLedger reads one row of ledger: a folder and the documents in one state.
func scanLedger(r *sql.Rows) (document.Folder, document.Counts, error) {
	var (
		f             document.Folder
		lastScan      sql.NullInt64
		added         int64
		state, reason string
		n, chunks     int64
	)
	if err := r.Scan(&f.ID, &f.Path, &f.State, &f.Reason, &lastScan, &added, &state, &reason, &n, &chunks); err != nil {
		return f, document.Counts{}, err
	}
	f.LastScan, f.Added = moment(lastScan), time.Unix(0, added).UTC()
	c := document.Counts{Found: n, Chunks: chunks}
	switch document.State(state) {
	case document.Indexed:
		c.Indexed = n
	case document.Skipped:
		c.Skipped = n
	case document.Failed:
		c.Failed = n
	default:
		c.Pending = n
	}
	if reason != "" {
		c.Reasons = map[document.Reason]int64{document.Reason(reason): n}
	}
	return f, c, nil
}
