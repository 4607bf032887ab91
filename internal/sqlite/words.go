package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"

	"github.com/ondol-app/ondol/internal/document"
)

// nameOf is what the name column holds for documents d. The path is cut into
// words like any text, so that its directories and extension are found too.
const nameOf = "trim(d.title || ' ' || d.path_key)"

// name returns the words of a document's title and path.
func (t *tx) name(id document.ID) (name string, err error) {
	err = t.one("SELECT "+nameOf+" FROM documents d WHERE d.id = ?", []any{id}, &name)
	if errors.Is(err, sql.ErrNoRows) {
		err = document.ErrNotFound
	}
	return name, err
}

// renameWords writes the words of a document again after its path changed.
func (t *tx) renameWords(id document.ID) error {
	if err := t.exec("DELETE FROM passages WHERE rowid IN (SELECT id FROM chunks WHERE document_id = ?)", id); err != nil {
		return fmt.Errorf("delete words: %w", err)
	}
	return t.fill("WHERE d.id = ?", id)
}

// fill inserts the words of the chunks that condition selects.
func (t *tx) fill(condition string, args ...any) error {
	err := t.exec("INSERT INTO passages (rowid, name, heading, body) SELECT c.id, "+nameOf+`, c.heading, c.body
		FROM chunks c JOIN documents d ON d.id = c.document_id `+condition, args...)
	if err != nil {
		return fmt.Errorf("insert words: %w", err)
	}
	return nil
}

// checkWords looks whether the full-text index is whole and fits the passages,
// and builds it again when it is not. The look costs a few milliseconds; Check
// is the thorough one.
func (db *DB) checkWords(ctx context.Context) error {
	var why string
	err := db.view(ctx, func(tx *tx) (err error) {
		why, err = tx.wordsProblem()
		return err
	})
	if err != nil || why == "" {
		return err
	}
	if why != missing {
		slog.WarnContext(ctx, "Rebuilding the full-text index", "path", db.path, "reason", why)
	}
	return db.rebuildWords(ctx)
}

const missing = "it is missing"

// wordsProblem tells what is wrong with the full-text index; "" when nothing.
// An error is returned only when the passages themselves cannot be read.
func (t *tx) wordsProblem() (string, error) {
	want, err := passagesDDL()
	if err != nil {
		return "", err
	}
	var have string
	err = t.one("SELECT sql FROM sqlite_schema WHERE name = 'passages'", nil, &have)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return missing, nil
	case err != nil:
		return "", fmt.Errorf("read schema: %w", err)
	case have != want:
		return "it has another definition", nil
	}
	var chunks, first, last, rows, firstRow, lastRow int64
	if err := t.one("SELECT count(*), coalesce(min(id), 0), coalesce(max(id), 0) FROM chunks", nil, &chunks, &first, &last); err != nil {
		return "", fmt.Errorf("count chunks: %w", err)
	}
	if err := t.one("SELECT count(*), coalesce(min(id), 0), coalesce(max(id), 0) FROM passages_docsize", nil, &rows, &firstRow, &lastRow); err != nil {
		return err.Error(), nil
	}
	if chunks != rows || first != firstRow || last != lastRow {
		return fmt.Sprintf("it has %d rows (%d to %d) for %d passages (%d to %d)", rows, firstRow, lastRow, chunks, first, last), nil
	}
	return t.probeWords()
}

// probeWords asks the index for words of its newest, oldest and middle passage.
func (t *tx) probeWords() (string, error) {
	ids, err := t.ints(`SELECT min(id) FROM chunks HAVING count(*) > 0
		UNION SELECT max(id) FROM chunks HAVING count(*) > 0
		UNION SELECT min(id) FROM chunks WHERE id >= (SELECT (min(id) + max(id)) / 2 FROM chunks) HAVING count(*) > 0`)
	if err != nil {
		return "", fmt.Errorf("choose passages: %w", err)
	}
	for _, id := range ids {
		var body string
		if err := t.one("SELECT substr(body, 1, 400) FROM chunks WHERE id = ?", []any{id}, &body); err != nil {
			return "", fmt.Errorf("read passage: %w", err)
		}
		tokens, err := t.cut(body, true)
		if err != nil {
			return "", err
		}
		if len(tokens) < 2 {
			continue
		}
		// The cut may have gone through the last word.
		word := body[tokens[0].start:tokens[0].end]
		var found int64
		if err := t.one("SELECT count(*) FROM passages WHERE passages MATCH ? AND rowid = ?", []any{"body : " + quote(word), id}, &found); err != nil {
			return err.Error(), nil
		}
		if found == 0 {
			return fmt.Sprintf("passage %d is not found by its own word", id), nil
		}
	}
	return "", nil
}

// rebuildWords makes the full-text index anew from the passages. Readers see
// the old one until it is done.
func (db *DB) rebuildWords(ctx context.Context) error {
	ddl, err := passagesDDL()
	if err != nil {
		return err
	}
	err = db.update(ctx, func(tx *tx) error {
		if err := tx.dropWords(); err != nil {
			return err
		}
		if err := tx.exec(ddl); err != nil {
			return fmt.Errorf("create: %w", err)
		}
		return tx.fill("ORDER BY c.id")
	})
	if err != nil {
		return fmt.Errorf("rebuild full-text index: %w", err)
	}
	return nil
}

// dropWords removes the full-text table even when it is too broken to be
// dropped as a whole: then its shadow tables and its entry in the schema go one by one.
func (t *tx) dropWords() error {
	if t.exec("DROP TABLE IF EXISTS passages") == nil {
		return nil
	}
	for _, query := range []string{
		"PRAGMA writable_schema = ON",
		"DELETE FROM sqlite_schema WHERE name = 'passages'",
		"PRAGMA writable_schema = RESET",
	} {
		if err := t.exec(query); err != nil {
			return fmt.Errorf("drop: %w", err)
		}
	}
	for _, part := range []string{"data", "idx", "content", "docsize", "config"} {
		if err := t.exec("DROP TABLE IF EXISTS passages_" + part); err != nil {
			return fmt.Errorf("drop: %w", err)
		}
	}
	return nil
}

// Check examines the whole file: pages, indexes, references and the full-text
// index. It takes seconds on a large index. It returns what is wrong, nothing when all is well.
func (db *DB) Check(ctx context.Context) ([]string, error) {
	var problems []string
	err := db.view(ctx, func(tx *tx) error {
		// The words first: a search makes FTS5 read its structure anew. The check
		// of integrity alone would go by that of the connection's last search, and
		// take for damage what was written since (seen with SQLite 3.54).
		why, err := tx.wordsProblem()
		if err != nil {
			return err
		}
		if why != "" {
			problems = append(problems, "full-text index: "+why)
		}
		if err := tx.each(func(r *sql.Rows) error {
			var line string
			err := r.Scan(&line)
			if line != "ok" {
				problems = append(problems, line)
			}
			return err
		}, "PRAGMA integrity_check"); err != nil {
			return err
		}
		return tx.each(func(r *sql.Rows) error {
			problems = append(problems, "a row refers to one that does not exist")
			return nil
		}, "PRAGMA foreign_key_check")
	})
	if err != nil {
		return nil, fmt.Errorf("check index: %w", err)
	}
	return problems, nil
}
