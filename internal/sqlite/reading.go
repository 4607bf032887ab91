package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ondol-app/ondol/internal/document"
)

// Text returns a stretch of the text that is stored of a document: joined from
// its passages, with the white space between them that none holds. A range
// that begins behind the text gives an empty stretch. ErrNotFound when there
// is no such document.
func (db *DB) Text(ctx context.Context, id document.ID, r document.Range) (document.Stretch, error) {
	var s document.Stretch
	err := db.view(ctx, func(tx *tx) error {
		if err := tx.one("SELECT id FROM documents WHERE id = ?", []any{id}, new(int64)); err != nil {
			return err
		}
		err := tx.one("SELECT stop, last_line FROM chunks WHERE document_id = ? ORDER BY ordinal DESC LIMIT 1", []any{id}, &s.Bytes, &s.Lines)
		if errors.Is(err, sql.ErrNoRows) {
			return nil // it has no text
		}
		if err != nil {
			return err
		}
		joined, err := tx.join(id, r)
		s.Text, s.Line, s.Offset = joined.Text, joined.Line, joined.Offset
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return document.Stretch{}, fmt.Errorf("read text of document %d: %w", id, err)
	}
	return s, nil
}

// join puts together the passages of a document in which r lies.
func (t *tx) join(id document.ID, r document.Range) (document.Stretch, error) {
	condition, from := "stop > ?", r.Offset
	if r.Line > 0 {
		condition, from = "last_line >= ?", r.Line
	}
	var first int
	err := t.one("SELECT ordinal FROM chunks WHERE document_id = ? AND "+condition+" ORDER BY ordinal LIMIT 1", []any{id, from}, &first)
	if errors.Is(err, sql.ErrNoRows) {
		return document.Stretch{}, nil // behind the last
	}
	if err != nil {
		return document.Stretch{}, err
	}
	j := joint{line: 1}
	if first > 0 {
		var last string
		if err := t.one("SELECT stop, last_line, substr(body, -1) FROM chunks WHERE document_id = ? AND ordinal = ?", []any{id, first - 1}, &j.offset, &j.line, &last); err != nil {
			return document.Stretch{}, err
		}
		if last == "\n" {
			j.line++
		}
	}
	s := document.Stretch{Line: j.line, Offset: j.offset}
	head := 0 // bytes up to the end of the first passage: r begins there
	err = t.each(func(row *sql.Rows) error {
		var c document.Chunk
		if err := row.Scan(&c.Start, &c.End, &c.Line, &c.LastLine, &c.Text); err != nil {
			return err
		}
		j.add(c)
		if head == 0 {
			head = j.text.Len()
		} else if j.text.Len() >= head+r.Bytes {
			return errEnough
		}
		return nil
	}, "SELECT start, stop, line, last_line, body FROM chunks WHERE document_id = ? AND ordinal >= ? ORDER BY ordinal", id, first)
	if err != nil && !errors.Is(err, errEnough) {
		return s, err
	}
	s.Text = j.text.String()
	return clip(s, r), nil
}

// errEnough ends the reading of rows.
var errEnough = errors.New("enough was read")

// joint is a text that grows by passages.
type joint struct {
	text   strings.Builder
	offset int // behind the text, in the document
	line   int // on which offset lies
}

// add fills the gap up to a passage and puts the passage behind it.
func (j *joint) add(c document.Chunk) {
	gap, breaks := c.Start-j.offset, c.Line-j.line
	j.text.WriteString(strings.Repeat("\n", max(0, breaks)))
	j.text.WriteString(strings.Repeat(" ", max(0, gap-breaks))) // behind the line ends: mostly it is the indentation of what follows
	j.text.WriteString(c.Text)
	j.offset, j.line = c.End, c.LastLine
	if strings.HasSuffix(c.Text, "\n") {
		j.line++
	}
}

// clip is the part of s that lies in r.
func clip(s document.Stretch, r document.Range) document.Stretch {
	drop := 0
	if r.Line > 0 {
		drop = len(s.Through(r.Line - 1).Text)
	} else {
		drop = min(max(0, r.Offset-s.Offset), len(s.Text))
		for drop < len(s.Text) && !utf8.RuneStart(s.Text[drop]) {
			drop++
		}
	}
	s.Line += strings.Count(s.Text[:drop], "\n")
	s.Offset, s.Text = s.Offset+drop, s.Text[drop:]
	if r.LastLine > 0 {
		s = s.Through(r.LastLine)
	}
	return s.Cut(r.Bytes)
}
