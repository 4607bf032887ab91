package sqlite

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/ondol-app/ondol/internal/document"
)

// SaveText replaces the text of a document: its passages, their words and the
// document's own row in one transaction. The document is indexed when every
// passage has a vector of the fingerprint already, otherwise embedding.
func (db *DB) SaveText(ctx context.Context, id document.ID, t document.Text) (document.State, error) {
	if len(t.Chunks) == 0 {
		return "", fmt.Errorf("save text of document %d: it has no chunks", id)
	}
	var state document.State
	err := db.update(ctx, func(tx *tx) error {
		raw, err := hex.DecodeString(string(t.Hash))
		if err != nil {
			return fmt.Errorf("decode hash: %w", err)
		}
		if err := tx.changed(`UPDATE documents SET raw_hash = ?, title = ?, kind = ?, language = ?, file_id = ?, size = ?, mtime = ?,
			reason = '', detail = '' WHERE id = ?`,
			raw, t.Title, string(t.Kind), t.Language, t.File.FileID, t.File.Size, stamp(t.File.Modified), id); err != nil {
			return err
		}
		if err := tx.dropText(id); err != nil {
			return err
		}
		if err := tx.addText(id, t.Chunks); err != nil {
			return err
		}
		if err := tx.exec("UPDATE documents SET state = 'embedding', due = ?, chunks = ? WHERE id = ?", tx.now, len(t.Chunks), id); err != nil {
			return err
		}
		state, err = tx.settle(id, t.Fingerprint)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("save text of document %d: %w", id, err)
	}
	return state, nil
}

// addText inserts the passages of a document that has none, and their words.
func (t *tx) addText(id document.ID, chunks []document.Chunk) error {
	name, err := t.name(id)
	if err != nil {
		return err
	}
	for i, c := range chunks {
		if c.Ordinal != i {
			return fmt.Errorf("chunk %d has ordinal %d", i, c.Ordinal)
		}
		text, err := t.text(c.Hash())
		if err != nil {
			return fmt.Errorf("intern text: %w", err)
		}
		var chunk int64
		if err := t.one(`INSERT INTO chunks (document_id, ordinal, text_id, start, stop, line, last_line, tokens, heading, body)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
			[]any{id, c.Ordinal, text, c.Start, c.End, c.Line, c.LastLine, c.Tokens, c.Heading, c.Text}, &chunk); err != nil {
			return fmt.Errorf("insert chunk: %w", err)
		}
		if err := t.exec("INSERT INTO passages (rowid, name, heading, body) VALUES (?, ?, ?, ?)", chunk, name, c.Heading, c.Text); err != nil {
			return fmt.Errorf("insert words: %w", err)
		}
	}
	return nil
}

// text returns the row of the text with this hash, which from now on has a chunk.
func (t *tx) text(hash document.Hash) (id int64, err error) {
	raw, err := hex.DecodeString(string(hash))
	if err != nil {
		return 0, fmt.Errorf("decode hash: %w", err)
	}
	err = t.one("INSERT INTO texts (hash) VALUES (?) ON CONFLICT (hash) DO UPDATE SET orphaned = NULL RETURNING id", []any{raw}, &id)
	return id, err
}

// dropText removes the passages of a document and their words. Texts that no
// chunk holds any more are orphaned from now on; their vectors stay for a while.
func (t *tx) dropText(id document.ID) error {
	texts, err := t.ints("SELECT text_id FROM chunks WHERE document_id = ?", id)
	if err != nil {
		return err
	}
	if len(texts) == 0 {
		return nil
	}
	if err := t.exec("DELETE FROM passages WHERE rowid IN (SELECT id FROM chunks WHERE document_id = ?)", id); err != nil {
		return fmt.Errorf("delete words: %w", err)
	}
	if err := t.exec("DELETE FROM chunks WHERE document_id = ?", id); err != nil {
		return fmt.Errorf("delete chunks: %w", err)
	}
	for _, text := range texts {
		if err := t.exec(`UPDATE texts SET orphaned = ?1 WHERE id = ?2 AND NOT EXISTS (SELECT 1 FROM chunks WHERE text_id = ?2)`, t.now, text); err != nil {
			return fmt.Errorf("orphan text: %w", err)
		}
	}
	return t.exec("UPDATE documents SET chunks = 0 WHERE id = ?", id)
}
