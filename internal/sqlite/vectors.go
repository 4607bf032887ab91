package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

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
		g, err := tx.generation(fingerprint)
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
			AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.id = ? + c.text_id) ORDER BY c.ordinal`, id, g.base())
	})
	if err != nil {
		return nil, fmt.Errorf("list missing vectors of document %d: %w", id, err)
	}
	return all, nil
}

// Backlog lists texts without a vector of the fingerprint, in order, from the
// number after on; of those that a chunk holds only.
func (db *DB) Backlog(ctx context.Context, fingerprint string, after int64, limit int) ([]document.Lacking, error) {
	var all []document.Lacking
	err := db.view(ctx, func(tx *tx) error {
		g, err := tx.generation(fingerprint)
		if err != nil {
			return err
		}
		return tx.each(func(r *sql.Rows) error {
			var text int64
			c, err := scanChunk(r, &text)
			all = append(all, document.Lacking{Text: text, Chunk: c})
			return err
		}, "SELECT "+chunkColumns+`, t.id FROM texts t CROSS JOIN chunks c ON c.id = (SELECT id FROM chunks WHERE text_id = t.id LIMIT 1)
			WHERE t.id > ? AND t.orphaned IS NULL AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.id = ? + t.id)
			ORDER BY t.id LIMIT ?`, after, g.base(), limit)
	})
	if err != nil {
		return nil, fmt.Errorf("list texts without a vector: %w", err)
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
		if err := tx.saveVectors(fingerprint, dim, vectors); err != nil {
			return err
		}
		var err error
		state, err = tx.settle(id, fingerprint)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("save vectors of document %d: %w", id, err)
	}
	return state, nil
}

// AddVectors is SaveVectors for a generation that is not in service: the state
// of no document hangs on it.
func (db *DB) AddVectors(ctx context.Context, fingerprint string, dim int, vectors map[document.Hash][]float32) error {
	err := db.update(ctx, func(tx *tx) error { return tx.saveVectors(fingerprint, dim, vectors) })
	if err != nil {
		return fmt.Errorf("add vectors: %w", err)
	}
	return nil
}

func (t *tx) saveVectors(fingerprint string, dim int, vectors map[document.Hash][]float32) error {
	g, err := t.generation(fingerprint)
	if err == nil && (g.id == 0 || g.Dim != dim) { // nobody said so far that there are such vectors, or they have another dimension
		g, err = t.open(document.Maker{Fingerprint: fingerprint, Dim: dim})
	}
	if err != nil {
		return err
	}
	// In the order of their texts, which fills pages: in that of their hashes
	// they take a sixth more.
	texts := make(map[int64]document.Hash, len(vectors))
	for hash, v := range vectors {
		if len(v) != dim {
			return fmt.Errorf("vector of %s has dimension %d, not %d", hash, len(v), dim)
		}
		raw, err := hex.DecodeString(string(hash))
		if err != nil {
			return fmt.Errorf("decode hash: %w", err)
		}
		var id int64
		switch err := t.one("SELECT id FROM texts WHERE hash = ?", []any{raw}, &id); {
		case err == nil:
			texts[id] = hash
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(texts)) {
		if err := t.exec("INSERT INTO vectors (id, embedding) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET embedding = excluded.embedding",
			g.base()+id, vector.EncodeF16(vectors[texts[id]])); err != nil {
			return fmt.Errorf("insert vector: %w", err)
		}
	}
	return nil
}

// settle makes an embedding or failed document indexed when all its vectors
// of the fingerprint are there, and returns the state it has then. While a
// generation is being built that is no news: documents by the thousand are
// what they were before, and the generation tells of its own end.
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
	g, err := t.generation(fingerprint)
	if err != nil {
		return "", err
	}
	var missing int64
	if err := t.one(`SELECT count(*) FROM chunks c WHERE c.document_id = ?
		AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.id = ? + c.text_id)`, []any{id, g.base()}, &missing); err != nil {
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
	if g.State == document.Building {
		return document.Indexed, nil
	}
	return document.Indexed, t.tellDocument(KindDocumentIndexed, id)
}

// collectOrphaned removes the texts that condition selects among the orphaned, with their vectors.
func (t *tx) collectOrphaned(condition string, args ...any) error {
	texts, err := t.ints("SELECT id FROM texts WHERE orphaned IS NOT NULL AND "+condition, args...)
	if err != nil || len(texts) == 0 {
		return err
	}
	for _, text := range texts {
		if err := t.exec("DELETE FROM vectors WHERE id IN (SELECT (id << ?) + ? FROM generations)", textBits, text); err != nil {
			return fmt.Errorf("delete vectors: %w", err)
		}
		if err := t.exec("DELETE FROM texts WHERE id = ?", text); err != nil {
			return fmt.Errorf("delete text: %w", err)
		}
	}
	return nil
}
