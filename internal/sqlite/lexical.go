package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"

	"github.com/ondol-app/ondol/internal/document"
)

// Lexical finds the passages that hold the terms, the best Limit of those that
// pass the filter. When the full-text index turns out to be damaged it is
// rebuilt and asked again.
func (db *DB) Lexical(ctx context.Context, q document.LexicalQuery) (document.LexicalReply, error) {
	reply, err := db.lexical(ctx, q)
	if wordsDamaged(err) {
		slog.WarnContext(ctx, "Rebuilding the full-text index", "path", db.path, "reason", err)
		if err := db.rebuildWords(ctx); err != nil {
			return document.LexicalReply{}, err
		}
		reply, err = db.lexical(ctx, q)
	}
	if err != nil {
		return document.LexicalReply{}, fmt.Errorf("search words: %w", err)
	}
	return reply, nil
}

func (db *DB) lexical(ctx context.Context, q document.LexicalQuery) (document.LexicalReply, error) {
	if q.Limit <= 0 {
		return document.LexicalReply{}, fmt.Errorf("limit %d is not positive", q.Limit)
	}
	if q.Weights == (document.Weights{}) {
		q.Weights = document.DefaultWeights
	}
	reply := document.LexicalReply{Frequency: make([]int64, len(q.Terms))}
	err := db.view(ctx, func(tx *tx) error {
		phrases, err := tx.phrases(q.Terms)
		if err != nil {
			return err
		}
		if err := tx.one("SELECT coalesce(sum(chunks), 0) FROM documents", nil, &reply.Total); err != nil {
			return err
		}
		if len(phrases) == 0 {
			return nil
		}
		stats, err := tx.wordStats(phrases)
		if err != nil || stats.rows == 0 {
			return err
		}
		weights := make([]float64, len(phrases))
		for i, p := range phrases {
			reply.Frequency[p.term] = stats.frequency[i]
			weights[i] = p.weight * idf(stats.rows, stats.frequency[i])
		}
		reply.Hits, err = tx.wordHits(q, phrases, stats.average, weights)
		return err
	})
	return reply, err
}

// wordStats is what BM25 has to know of the whole index.
type wordStats struct {
	rows      int64   // passages; 0 when no phrase is in any
	average   float64 // tokens of a passage
	frequency []int64 // passages that hold each phrase
}

// idf is the inverse document frequency as Lucene has it: log(1 + (N-n+½)/(n+½)).
// It is positive even for a word that is in every passage.
func idf(rows, frequency int64) float64 {
	n := float64(frequency)
	return math.Log1p((float64(rows) - n + 0.5) / (n + 0.5))
}

func (t *tx) wordStats(phrases []phrase) (wordStats, error) {
	var blob []byte
	err := t.one("SELECT ondol_stats(passages) FROM passages WHERE passages MATCH ? LIMIT 1", []any{expression(phrases, " OR ")}, &blob)
	if errors.Is(err, sql.ErrNoRows) {
		return wordStats{frequency: make([]int64, len(phrases))}, nil
	}
	if err != nil {
		return wordStats{}, err
	}
	if len(blob) != 8*(2+len(phrases)) {
		return wordStats{}, fmt.Errorf("word statistics have %d bytes for %d phrases", len(blob), len(phrases))
	}
	field := func(i int) int64 { return int64(binary.NativeEndian.Uint64(blob[8*i:])) }
	s := wordStats{rows: field(0), frequency: make([]int64, len(phrases))}
	s.average = float64(field(1)) / float64(max(s.rows, 1))
	for i := range phrases {
		s.frequency[i] = field(2 + i)
	}
	return s, nil
}

func (t *tx) wordHits(q document.LexicalQuery, phrases []phrase, average float64, weights []float64) ([]document.Hit, error) {
	operator := " OR "
	if q.All {
		operator = " AND "
	}
	blob := make([]byte, 0, 8*len(weights))
	for _, w := range weights {
		blob = binary.NativeEndian.AppendUint64(blob, math.Float64bits(w))
	}
	args := []any{average, q.Weights.Name, q.Weights.Heading, q.Weights.Body, blob, expression(phrases, operator)}
	filter, more := where(q.Filter)
	if filter != "" {
		// The plus keeps SQLite from looking every permitted row up in the
		// full-text index one by one.
		filter = ` AND +rowid IN (SELECT c.id FROM documents d JOIN folders f ON f.id = d.folder_id
			JOIN chunks c ON c.document_id = d.id WHERE ` + filter + ")"
		args = append(args, more...)
	}
	var hits []document.Hit
	err := t.each(func(r *sql.Rows) error {
		var h document.Hit
		var bits int64
		if err := r.Scan(&h.Chunk, &h.Document, &h.Score, &bits); err != nil {
			return err
		}
		for i, p := range phrases {
			if bits>>i&1 != 0 {
				h.Matched = append(h.Matched, p.term)
			}
		}
		hits = append(hits, h)
		return nil
	}, `SELECT h.id, c.document_id, h.score, h.matched FROM (
			SELECT rowid AS id, ondol_score(passages, ?, ?, ?, ?, ?) AS score, ondol_matched(passages) AS matched
			FROM passages WHERE passages MATCH ?`+filter+` ORDER BY score DESC, rowid LIMIT ?) h
		JOIN chunks c ON c.id = h.id ORDER BY h.score DESC, h.id`, append(args, q.Limit)...)
	return hits, err
}
