package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/vector"
)

// Semantic finds the passages whose vectors are nearest to query, among those
// that pass the filter and have a vector of the fingerprint. Every vector is
// compared: the order is exact but for the half precision of what is stored.
// No other vector is, so an unknown fingerprint has no hits.
func (db *DB) Semantic(ctx context.Context, fingerprint string, query []float32, filter document.Filter, limit int) (document.SemanticReply, error) {
	var reply document.SemanticReply
	if limit <= 0 {
		return reply, fmt.Errorf("search vectors: limit %d is not positive", limit)
	}
	unit := slices.Clone(query)
	if err := vector.Normalize(unit); err != nil {
		return reply, fmt.Errorf("search vectors: %w", err)
	}
	blob := make([]byte, 0, 4*len(unit))
	for _, x := range unit {
		blob = binary.LittleEndian.AppendUint32(blob, math.Float32bits(x))
	}
	err := db.view(ctx, func(tx *tx) error {
		g, err := tx.generation(fingerprint)
		reply.Generation = g.Generation
		if err != nil || g.id == 0 {
			return err
		}
		if g.Dim != len(query) {
			return fmt.Errorf("query has dimension %d, vectors of %s have %d", len(query), fingerprint, g.Dim)
		}
		// CROSS JOIN fixes the order of the loops: along the texts, and so along
		// the vectors, or from the documents that pass the filter.
		from, args := "chunks c INDEXED BY chunks_of_text", []any{blob, g.base()}
		condition, more := where(filter)
		if condition != "" {
			from = `folders f CROSS JOIN documents d ON d.folder_id = f.id
				CROSS JOIN chunks c INDEXED BY chunks_of_document ON c.document_id = d.id`
			condition = "WHERE " + condition
		}
		return tx.each(func(r *sql.Rows) error {
			var h document.Hit
			err := r.Scan(&h.Chunk, &h.Document, &h.Score)
			reply.Hits = append(reply.Hits, h)
			return err
		}, `SELECT c.id, c.document_id, ondol_dot(v.embedding, ?) AS score FROM `+from+`
			CROSS JOIN vectors v ON v.id = ? + c.text_id `+condition+` ORDER BY score DESC, c.id LIMIT ?`,
			append(append(args, more...), limit)...)
	})
	if err != nil {
		return document.SemanticReply{}, fmt.Errorf("search vectors: %w", err)
	}
	return reply, nil
}
