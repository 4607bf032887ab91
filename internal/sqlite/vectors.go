package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/vector"
)

// textBits is the width of texts.id within vectors.id.
const textBits = 40

// MissingVectors lists the passages of a document that have no vector of the
// fingerprint, in reading order; of passages with the same text only the first.
func (db *DB) MissingVectors(ctx context.Context, id document.ID, fingerprint string) ([]document.Chunk, error) {
	var all []document.Chunk
	err := db.view(ctx, func(tx *tx) error {
		base, _, err := tx.space(fingerprint)
		if err != nil {
			return err
		}
		seen := make(map[int64]bool)
		return tx.each(func(r *sql.Rows) error {
			var text int64
			c, err := scanChunk(r, &text)
			if err == nil && !seen[text] {
				seen[text] = true
				all = append(all, c)
			}
			return err
		}, "SELECT "+chunkColumns+`, c.text_id FROM chunks c WHERE c.document_id = ?
			AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.id = ? + c.text_id) ORDER BY c.ordinal`, id, base)
	})
	if err != nil {
		return nil, fmt.Errorf("list missing vectors of document %d: %w", id, err)
	}
	return all, nil
}

// chunkColumns are what scanChunk reads, of chunks c.
const chunkColumns = "c.id, c.ordinal, c.start, c.stop, c.line, c.last_line, c.tokens, c.heading, c.body"

func scanChunk(r interface{ Scan(...any) error }, more ...any) (document.Chunk, error) {
	var c document.Chunk
	dest := []any{&c.ID, &c.Ordinal, &c.Start, &c.End, &c.Line, &c.LastLine, &c.Tokens, &c.Heading, &c.Text}
	err := r.Scan(append(dest, more...)...)
	return c, err
}

// Chunks lists the passages of a document in reading order.
func (db *DB) Chunks(ctx context.Context, id document.ID) ([]document.Chunk, error) {
	var all []document.Chunk
	err := db.view(ctx, func(tx *tx) error {
		return tx.each(func(r *sql.Rows) error {
			c, err := scanChunk(r)
			all = append(all, c)
			return err
		}, "SELECT "+chunkColumns+" FROM chunks c WHERE c.document_id = ? ORDER BY c.ordinal", id)
	})
	if err != nil {
		return nil, fmt.Errorf("list chunks of document %d: %w", id, err)
	}
	return all, nil
}

// SaveVectors stores vectors of norm 1 by the hash of their text, and settles
// the document: indexed when none is missing any more. Vectors of texts that
// the index does not hold are left out. They are stored in half precision.
func (db *DB) SaveVectors(ctx context.Context, id document.ID, fingerprint string, dim int, vectors map[document.Hash][]float32) (document.State, error) {
	var state document.State
	err := db.update(ctx, func(tx *tx) error {
		base, err := tx.openSpace(fingerprint, dim)
		if err != nil {
			return err
		}
		// In order, so that the same call does the same work.
		for _, hash := range slices.Sorted(maps.Keys(vectors)) {
			if err := tx.saveVector(base, dim, hash, vectors[hash]); err != nil {
				return err
			}
		}
		state, err = tx.settle(id, fingerprint)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("save vectors of document %d: %w", id, err)
	}
	return state, nil
}

func (t *tx) saveVector(base int64, dim int, hash document.Hash, v []float32) error {
	if len(v) != dim {
		return fmt.Errorf("vector of %s has dimension %d, not %d", hash, len(v), dim)
	}
	raw, err := hex.DecodeString(string(hash))
	if err != nil {
		return fmt.Errorf("decode hash: %w", err)
	}
	return t.exec("INSERT INTO vectors (id, embedding) SELECT ? + id, ? FROM texts WHERE hash = ? ON CONFLICT (id) DO UPDATE SET embedding = excluded.embedding",
		base, vector.EncodeF16(v), raw)
}

// space returns what is added to a text's id to name its vector, and the
// dimension. A fingerprint that has no vectors gives a base that meets none.
func (t *tx) space(fingerprint string) (base int64, dim int, err error) {
	var id int64
	err = t.one("SELECT id, dim FROM fingerprints WHERE name = ?", []any{fingerprint}, &id, &dim)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, 0, nil // ids of fingerprints begin at 1, so no vector lies below 2^40
	}
	return id << textBits, dim, err
}

// openSpace is space, and makes a new one.
func (t *tx) openSpace(fingerprint string, dim int) (base int64, err error) {
	if fingerprint == "" || dim <= 0 {
		return 0, fmt.Errorf("fingerprint %q with dimension %d names no vectors", fingerprint, dim)
	}
	base, have, err := t.space(fingerprint)
	if err != nil {
		return 0, err
	}
	if base != 0 {
		if have != dim {
			return 0, fmt.Errorf("fingerprint %s has dimension %d, not %d", fingerprint, have, dim)
		}
		return base, nil
	}
	var id int64
	err = t.one("INSERT INTO fingerprints (name, dim, created) VALUES (?, ?, ?) RETURNING id", []any{fingerprint, dim, t.now}, &id)
	return id << textBits, err
}

// settle makes an embedding or failed document indexed when all its vectors
// of the fingerprint are there, and returns the state it has then.
func (t *tx) settle(id document.ID, fingerprint string) (document.State, error) {
	var state document.State
	if err := t.one("SELECT state FROM documents WHERE id = ?", []any{id}, &state); err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			return "", document.ErrNotFound
		}
		return "", err
	}
	if state != document.Embedding && state != document.Failed {
		return state, nil
	}
	base, _, err := t.space(fingerprint)
	if err != nil {
		return "", err
	}
	var missing int64
	if err := t.one(`SELECT count(*) FROM chunks c WHERE c.document_id = ?
		AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.id = ? + c.text_id)`, []any{id, base}, &missing); err != nil {
		return "", err
	}
	var chunks int64
	if err := t.one("SELECT chunks FROM documents WHERE id = ?", []any{id}, &chunks); err != nil {
		return "", err
	}
	if missing > 0 || chunks == 0 {
		return state, nil
	}
	if err := t.exec(`UPDATE documents SET state = 'indexed', reason = '', detail = '', tries = 0, due = NULL, indexed = ?
		WHERE id = ?`, t.now, id); err != nil {
		return "", err
	}
	return document.Indexed, t.tellDocument(KindDocumentIndexed, id)
}

// Requeue makes every indexed document that lacks a vector of the fingerprint
// embedding again, and returns how many those are.
func (db *DB) Requeue(ctx context.Context, fingerprint string) (n int64, err error) {
	err = db.update(ctx, func(tx *tx) error {
		base, _, err := tx.space(fingerprint)
		if err != nil {
			return err
		}
		r, err := tx.ExecContext(ctx, `UPDATE documents SET state = 'embedding', due = ? WHERE state = 'indexed' AND EXISTS (
			SELECT 1 FROM chunks c WHERE c.document_id = documents.id
			AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.id = ? + c.text_id))`, tx.now, base)
		if err != nil {
			return err
		}
		n, err = r.RowsAffected()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("requeue documents: %w", err)
	}
	return n, nil
}

// collectOrphaned removes the texts that condition selects among the orphaned, with their vectors.
func (t *tx) collectOrphaned(condition string, args ...any) error {
	texts, err := t.ints("SELECT id FROM texts WHERE orphaned IS NOT NULL AND "+condition, args...)
	if err != nil || len(texts) == 0 {
		return err
	}
	for _, text := range texts {
		if err := t.exec("DELETE FROM vectors WHERE id IN (SELECT (id << ?) + ? FROM fingerprints)", textBits, text); err != nil {
			return fmt.Errorf("delete vectors: %w", err)
		}
		if err := t.exec("DELETE FROM texts WHERE id = ?", text); err != nil {
			return fmt.Errorf("delete text: %w", err)
		}
	}
	return nil
}

// Spaces lists the fingerprints that have vectors, oldest first.
func (db *DB) Spaces(ctx context.Context) ([]document.Space, error) {
	var all []document.Space
	err := db.view(ctx, func(tx *tx) error {
		return tx.each(func(r *sql.Rows) error {
			var s document.Space
			var created int64
			err := r.Scan(&s.Fingerprint, &s.Dim, &created, &s.Vectors)
			s.Created = time.Unix(0, created).UTC()
			all = append(all, s)
			return err
		}, `SELECT name, dim, created, (SELECT count(*) FROM vectors v WHERE v.id >= f.id << ?1 AND v.id < (f.id + 1) << ?1)
			FROM fingerprints f ORDER BY id`, textBits)
	})
	if err != nil {
		return nil, fmt.Errorf("list fingerprints: %w", err)
	}
	return all, nil
}
