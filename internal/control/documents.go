package control

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ondol-app/ondol/internal/document"
)

func (s *Server) documents(r *http.Request) (any, error) {
	q, err := documentQuery(r)
	if err != nil {
		return nil, err
	}
	if q.Path, err = s.locate(r.Context(), q.Path); err != nil {
		return nil, err
	}
	if q.File, err = s.locateFile(r.Context(), q.File); err != nil {
		return nil, err
	}
	limit := q.Limit
	q.Limit++ // one more tells whether there is a next page
	found, err := s.cfg.Index.Documents(r.Context(), q)
	if err != nil {
		return nil, fmt.Errorf("list documents: %w", err)
	}
	page := Documents{Documents: make([]Document, 0, min(len(found), limit))}
	if len(found) > limit {
		found = found[:limit]
		page.Next = strconv.FormatInt(int64(found[limit-1].ID), 10)
	}
	roots, err := s.roots(r.Context())
	if err != nil {
		return nil, err
	}
	for _, d := range found {
		page.Documents = append(page.Documents, Document{Document: d, Folder: roots[d.FolderID]})
	}
	return page, nil
}

func documentQuery(r *http.Request) (document.DocumentQuery, error) {
	var q document.DocumentQuery
	values, err := params(r, "state", "folder", "path", "file", "kinds", "cursor", "limit")
	if err != nil {
		return q, err
	}
	switch state := document.State(values["state"]); state {
	case "", document.Found, document.Embedding, document.Indexed, document.Skipped, document.Failed:
		q.State = state
	default:
		return q, invalid("state", "is unknown", "send found, embedding, indexed, skipped or failed")
	}
	if text := values["folder"]; text != "" {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil || id < 1 {
			return q, invalid("folder", "is no id", "take it from the list of folders")
		}
		q.Folder = document.FolderID(id)
	}
	q.Path, q.File = values["path"], values["file"]
	if q.Kinds, err = kinds(values["kinds"]); err != nil {
		return q, err
	}
	if text := values["cursor"]; text != "" {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil || id < 0 {
			return q, invalid("cursor", "is none that was given out", `send "next" of the page before, or none`)
		}
		q.After = document.ID(id)
	}
	q.Limit, err = number(values, "limit", 1, MaxLimit, DefaultLimit)
	return q, err
}

// kinds reads a list of kinds with commas between.
func kinds(text string) ([]document.Kind, error) {
	var list []document.Kind
	for name := range strings.SplitSeq(text, ",") {
		switch kind := document.Kind(name); {
		case text == "":
		case slices.Contains(document.Kinds(), kind):
			list = append(list, kind)
		default:
			return nil, invalid("kinds", "has one that is unknown", "send some of these with commas between: "+strings.Trim(fmt.Sprint(document.Kinds()), "[]"))
		}
	}
	return list, nil
}

// roots maps folders to their paths.
func (s *Server) roots(ctx context.Context) (map[document.FolderID]string, error) {
	folders, err := s.cfg.Index.Folders(ctx)
	if err != nil {
		return nil, fmt.Errorf("list folders: %w", err)
	}
	roots := make(map[document.FolderID]string, len(folders))
	for _, f := range folders {
		roots[f.ID] = f.Path
	}
	return roots, nil
}

func (s *Server) document(r *http.Request) (any, error) {
	id, err := pathID(r)
	if err != nil {
		return nil, err
	}
	wanted, asked, err := textRange(r)
	if err != nil {
		return nil, err
	}
	d, err := s.cfg.Index.Document(r.Context(), document.ID(id))
	if errors.Is(err, document.ErrNotFound) {
		return nil, notFound("document", id)
	}
	if err != nil {
		return nil, fmt.Errorf("document %d: %w", id, err)
	}
	roots, err := s.roots(r.Context())
	if err != nil {
		return nil, err
	}
	found := Document{Document: d, Folder: roots[d.FolderID]}
	if !asked {
		return found, nil
	}
	text, err := s.cfg.Index.Text(r.Context(), d.ID, wanted)
	if err != nil {
		return nil, fmt.Errorf("text of document %d: %w", id, err)
	}
	if text.Lines > 0 && text.Line == 0 {
		return nil, invalid("from", "is behind the end", fmt.Sprintf("the text has %d lines and %d bytes", text.Lines, text.Bytes))
	}
	return Reading{Document: found, Text: text, Stale: changed(found)}, nil
}

// textRange reads which stretch of text is asked for, if any is.
func textRange(r *http.Request) (wanted document.Range, asked bool, err error) {
	values, err := params(r, "from", "to", "offset", "bytes")
	if err != nil || len(values) == 0 {
		return wanted, false, err
	}
	if values["offset"] != "" && values["from"] != "" {
		return wanted, true, invalid("offset", "stands beside from", "send one of them")
	}
	for _, p := range []struct {
		name                string
		low, high, fallback int
		into                *int
	}{
		{"offset", 0, math.MaxInt32, 0, &wanted.Offset},
		{"from", 1, math.MaxInt32, 0, &wanted.Line},
		{"to", 1, math.MaxInt32, 0, &wanted.LastLine},
		{"bytes", utf8.UTFMax, MaxText, DefaultText, &wanted.Bytes}, // a character always fits
	} {
		if *p.into, err = number(values, p.name, p.low, p.high, p.fallback); err != nil {
			return wanted, true, err
		}
	}
	if wanted.LastLine > 0 && wanted.LastLine < wanted.Line {
		return wanted, true, invalid("to", "lies before from", "send a line from "+strconv.Itoa(wanted.Line)+" on")
	}
	return wanted, true, nil
}

// changed reports whether the file of a document is not the one whose text is stored.
func changed(d Document) bool {
	info, err := os.Lstat(filepath.Join(d.Folder, filepath.FromSlash(d.Path)))
	return err != nil || info.Size() != d.Size || !info.ModTime().Equal(d.Modified)
}
