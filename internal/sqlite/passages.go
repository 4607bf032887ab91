package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/ondol-app/ondol/internal/document"
)

// Passages returns the chunks with all that a result shows of them, in the
// order of ids; those that are gone by now are left out. Marks say where the
// terms stand in each, found by the same cutting that found the passage.
func (db *DB) Passages(ctx context.Context, ids []document.ChunkID, terms []document.Term) ([]document.Passage, error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, fmt.Errorf("read passages: %w", err)
	}
	var all []document.Passage
	err = db.view(ctx, func(tx *tx) error {
		phrases, err := tx.phrases(terms)
		if err != nil {
			return err
		}
		return tx.each(func(r *sql.Rows) error {
			p, err := scanPassage(r, phrases)
			all = append(all, p)
			return err
		}, "SELECT "+documentColumns+", f.path, d.file_id, "+chunkColumns+`, CASE WHEN ?1 THEN ondol_tokens(c.body, 0) END
			FROM json_each(?2) i CROSS JOIN chunks c ON c.id = i.value
			JOIN documents d ON d.id = c.document_id JOIN folders f ON f.id = d.folder_id
			ORDER BY i.key`, len(phrases) > 0, string(list))
	})
	if err != nil {
		return nil, fmt.Errorf("read passages: %w", err)
	}
	return all, nil
}

func scanPassage(r *sql.Rows, phrases []phrase) (document.Passage, error) {
	var p document.Passage
	var blob []byte
	c := &p.Chunk
	d, err := scanDocument(r, &p.Folder, &p.FileID,
		&c.ID, &c.Ordinal, &c.Start, &c.End, &c.Line, &c.LastLine, &c.Tokens, &c.Heading, &c.Text, &blob)
	if err != nil {
		return p, err
	}
	p.Document = d
	tokens, err := decodeTokens(blob)
	if err != nil {
		return p, err
	}
	p.Marks = findMarks(tokens, phrases)
	return p, nil
}

// findMarks finds each phrase in the tokens of a text.
func findMarks(tokens []token, phrases []phrase) []document.Mark {
	if len(tokens) == 0 {
		return nil
	}
	at := make([][]token, tokens[len(tokens)-1].position+1) // by position
	for _, t := range tokens {
		at[t.position] = append(at[t.position], t)
	}
	var all []document.Mark
	for _, p := range phrases {
		open := -1 // index of the term's last mark
		for i := range at {
			start, end, ok := p.match(at[i:])
			switch {
			case !ok:
			case open >= 0 && all[open].End > start: // "하하" in "하하하"
				all[open].End = max(all[open].End, end)
			default:
				open = len(all)
				all = append(all, document.Mark{Start: start, End: end, Term: p.term})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b document.Mark) int { return cmp.Compare(a.Start, b.Start) })
	return all
}

// match reports whether the phrase begins at the first position of at, and the bytes it covers.
func (p phrase) match(at [][]token) (start, end int, ok bool) {
	if len(at) < len(p.slots) {
		return 0, 0, false
	}
	for i, slot := range p.slots {
		last := i == len(p.slots)-1
		hit := slices.IndexFunc(at[i], func(t token) bool { return fits(t.text, slot, last && p.prefix) })
		if hit < 0 {
			return 0, 0, false
		}
		t := at[i][hit]
		if i == 0 {
			start = t.start
		}
		if end = t.end; last && p.single {
			end = t.start + len(slot[0])
		}
	}
	return start, end, true
}

func fits(text string, slot []string, prefix bool) bool {
	return slices.ContainsFunc(slot, func(s string) bool {
		return text == s || prefix && strings.HasPrefix(text, s)
	})
}
