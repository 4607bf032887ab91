package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"os"
	"slices"

	"github.com/ondol-app/ondol/internal/vector"
)

const findCached = `SELECT v.tokens, v.counted, v.embedding, v.checksum
	FROM vectors v JOIN fingerprints f ON f.id = v.fingerprint WHERE v.text = ? AND f.name = ?`

// Texts calls each for every text that something is stored for. An error
// means what it does for Load.
func (c *VectorCache) Texts(ctx context.Context, each func(text [sha256.Size]byte)) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.file == nil {
		return errCacheClosed
	}
	err := c.file.view(ctx, func(tx *tx) error {
		return tx.each(func(rows *sql.Rows) error {
			var raw sql.RawBytes
			if err := rows.Scan(&raw); err != nil {
				return err
			}
			var text [sha256.Size]byte
			if copy(text[:], raw) < len(text) {
				return errors.New("a text is no hash")
			}
			each(text)
			return nil
		}, "SELECT text FROM vectors INDEXED BY vectors_of_text")
	})
	if err != nil {
		return fmt.Errorf("read vector cache: %w", err)
	}
	return nil
}

// Load calls found with the place in keys and what is stored under it, for
// each key that is there. An error means that nothing of the file should be
// believed any more, unless ctx has ended.
func (c *VectorCache) Load(ctx context.Context, keys []vector.Key, found func(i int, e vector.Embedding)) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.file == nil {
		return errCacheClosed
	}
	// A look-up takes microseconds; a context that can end would cost each of
	// them a goroutine to watch it.
	quick := context.WithoutCancel(ctx)
	for i, key := range keys {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e, ok, err := c.file.load(quick, key)
		if err != nil {
			return fmt.Errorf("read vector cache: %w", err)
		}
		if ok {
			found(i, e)
		}
	}
	return nil
}

func (f *cacheFile) load(ctx context.Context, key vector.Key) (e vector.Embedding, ok bool, err error) {
	rows, err := f.find.QueryContext(ctx, key.Text[:], key.Fingerprint)
	if err != nil {
		return e, false, err
	}
	defer rows.Close()
	if !rows.Next() {
		return e, false, rows.Err()
	}
	var raw sql.RawBytes
	var sum int64
	if err := rows.Scan(&e.Tokens, &e.Counted, &raw, &sum); err != nil {
		return e, false, err
	}
	if sum != checksum(key, e, raw) || len(raw)%4 != 0 {
		return e, false, errors.New("a row does not have its checksum")
	}
	e.Vector = make([]float32, len(raw)/4)
	for i := range e.Vector {
		e.Vector[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return e, true, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum covers everything that a hit consists of.
func checksum(key vector.Key, e vector.Embedding, raw []byte) int64 {
	head := make([]byte, 0, 128)
	head = append(head, key.Text[:]...)
	head = binary.LittleEndian.AppendUint64(head, uint64(e.Tokens))
	if e.Counted {
		head = append(head, 1)
	}
	head = append(head, key.Fingerprint...)
	return int64(crc32.Update(crc32.Update(0, castagnoli, head), castagnoli, raw))
}

// saveChunk is the share of the limit that is written at one go: room is made
// before each.
const saveChunk = 16

// Save stores entries and notes that used were asked for in the given hour, in
// one transaction; for that it deletes what was used least recently. Entries
// too large for the limit are left out. An error means what it does for Load.
func (c *VectorCache) Save(ctx context.Context, entries map[vector.Key]vector.Embedding, used []vector.Key, hour int64) error {
	if c.file == nil {
		return errCacheClosed
	}
	if now, err := os.Stat(c.path); err != nil || !os.SameFile(now, c.file.info) {
		if err := c.Reset(ctx); err != nil { // it was deleted under us
			return err
		}
	}
	var pages int64
	err := c.file.update(ctx, func(tx *tx) error {
		for _, key := range used {
			if err := tx.exec(`UPDATE vectors SET used = max(used, ?) WHERE text = ?
				AND fingerprint = (SELECT id FROM fingerprints WHERE name = ?)`, hour, key.Text[:], key.Fingerprint); err != nil {
				return fmt.Errorf("note use: %w", err)
			}
		}
		// In order, so that the same call does the same work.
		keys := slices.SortedFunc(maps.Keys(entries), vector.Key.Compare)
		for len(keys) > 0 {
			n, size := chunkOf(keys, entries, c.max/saveChunk)
			if size < c.max/2 {
				if err := tx.makeRoom(c.max, size); err != nil {
					return err
				}
				if err := tx.saveChunk(keys[:n], entries, hour); err != nil {
					return err
				}
			}
			keys = keys[n:]
		}
		var err error
		pages, _, err = tx.pages()
		return err
	})
	if err != nil {
		return fmt.Errorf("write vector cache: %w", err)
	}
	c.bytes.Store(pages * cachePage)
	return nil
}

// cachedSize is about what an entry takes in the file, indices and the part of
// its pages that stays empty included.
func cachedSize(e vector.Embedding) int64 { return 256 + 5*int64(len(e.Vector)) }

// chunkOf is how many of the first keys come to at most limit bytes; one in any
// case.
func chunkOf(keys []vector.Key, entries map[vector.Key]vector.Embedding, limit int64) (n int, size int64) {
	for n < len(keys) {
		next := cachedSize(entries[keys[n]])
		if n > 0 && size+next > limit {
			break
		}
		n++
		size += next
	}
	return n, size
}

// saveChunk stores entries of keys, which are in order.
func (t *tx) saveChunk(keys []vector.Key, entries map[vector.Key]vector.Embedding, hour int64) error {
	for i, key := range keys {
		if i == 0 || key.Fingerprint != keys[i-1].Fingerprint {
			if err := t.exec("INSERT OR IGNORE INTO fingerprints (name) VALUES (?)", key.Fingerprint); err != nil {
				return fmt.Errorf("insert fingerprint: %w", err)
			}
		}
		if err := t.saveCached(key, entries[key], hour); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) saveCached(key vector.Key, e vector.Embedding, hour int64) error {
	raw := make([]byte, 0, 4*len(e.Vector))
	for _, x := range e.Vector {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	err := t.exec(`INSERT INTO vectors (fingerprint, text, used, tokens, counted, embedding, checksum)
		SELECT id, ?, ?, ?, ?, ?, ? FROM fingerprints WHERE name = ?
		ON CONFLICT (text, fingerprint) DO UPDATE SET used = max(used, excluded.used), tokens = excluded.tokens,
			counted = excluded.counted, embedding = excluded.embedding, checksum = excluded.checksum`,
		key.Text[:], hour, e.Tokens, e.Counted, raw, checksum(key, e, raw), key.Fingerprint)
	if err != nil {
		return fmt.Errorf("insert vector: %w", err)
	}
	return nil
}

// pages are those of the file, and those of them that hold nothing.
func (t *tx) pages() (all, free int64, err error) {
	err = t.one("SELECT page_count, freelist_count FROM pragma_page_count, pragma_freelist_count", nil, &all, &free)
	if err != nil {
		return 0, 0, fmt.Errorf("read page count: %w", err)
	}
	return all, free, nil
}

// evictRows is how many rows go at one go.
const evictRows = 64

// makeRoom deletes the least recently used rows when need more bytes would not
// fit, down to an eighth less than the limit, so that it is not needed often.
// The log's share of the limit is left to it.
func (t *tx) makeRoom(limit, need int64) error {
	for first := true; ; first = false {
		all, free, err := t.pages()
		if err != nil {
			return err
		}
		goal := limit - limit/8
		if first {
			goal = limit - limit/logShare
		}
		if (all-free)*cachePage+need <= goal {
			return t.shrink(limit, all)
		}
		r, err := t.ExecContext(t.ctx, "DELETE FROM vectors WHERE id IN (SELECT id FROM vectors ORDER BY used, id LIMIT ?)", evictRows)
		if err != nil {
			return fmt.Errorf("delete old vectors: %w", err)
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			return err // nothing left to delete: the rest is the schema
		}
	}
}

// shrink gives free pages back to the system when the file is larger than the
// limit, as after the limit was lowered.
func (t *tx) shrink(limit, all int64) error {
	over := all - (limit-limit/logShare)/cachePage
	if over <= 0 {
		return nil
	}
	// One step of the statement gives one page back, so it is read to its end.
	if err := t.each(func(*sql.Rows) error { return nil }, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", over)); err != nil {
		return fmt.Errorf("give pages back: %w", err)
	}
	return nil
}
