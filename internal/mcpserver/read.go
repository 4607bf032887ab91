package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/document"
)

// readArguments are those of the tool read.
type readArguments struct {
	Document document.ID `json:"document"`
	Path     string      `json:"path"`
	From     int         `json:"from"`
	To       int         `json:"to"`
}

// Positions in a text are lines from 1 on. A line that is longer than an
// answer is read in pieces: a position above farLine is so many bytes behind
// the beginning of the text. No document has as many lines.
const (
	farLine     = 1_000_000_000
	maxPosition = 2*farLine - 1
)

// Reading is the answer of the tool read.
type Reading struct {
	Document document.ID    `json:"document"`
	Path     string         `json:"path"`
	Title    string         `json:"title"`
	Kind     document.Kind  `json:"kind"`
	Modified time.Time      `json:"modified"`
	State    document.State `json:"state"`
	Stale    bool           `json:"stale,omitempty" jsonschema:"the file is gone or has changed since its text was read"`
	From     int            `json:"from" jsonschema:"first line of text"`
	To       int            `json:"to" jsonschema:"last line of text"`
	Lines    int            `json:"lines" jsonschema:"lines of the whole document"`
	Next     int            `json:"next,omitempty" jsonschema:"from of the call that goes on here; absent at the end of the document"`
	Text     string         `json:"text,omitempty"`
}

func (s *Server) read(ctx context.Context, in readArguments) (*mcp.CallToolResult, error) {
	if (in.Document == 0) == (in.Path == "") {
		return nil, errors.New("read takes either document or path; search and list tell both")
	}
	if in.Path != "" {
		var err error
		if in.Document, err = s.documentAt(ctx, in.Path); err != nil {
			return nil, err
		}
	}
	wanted := document.Range{Line: max(1, in.From), LastLine: in.To, Bytes: maxReply / 2} // the answer holds it twice
	if in.From > farLine {
		wanted.Line, wanted.Offset = 0, in.From-farLine
	} else if in.To > 0 && in.To < in.From {
		return nil, errors.New("to lies before from; send a line after it, or leave it out")
	}
	found, err := s.app.Text(ctx, in.Document, wanted)
	if err != nil {
		return nil, err
	}
	if found.Text.Lines == 0 {
		return nil, fmt.Errorf("document %d has no text in the index: it is %s %s; the tool status tells how far the index is", found.ID, found.State, found.Reason)
	}
	return fit(len(found.Text.Text), func(n int) *mcp.CallToolResult {
		page := reading(found, found.Text.Cut(n))
		whole := page
		page.Text = ""
		return answer(whole, plain(page), whole.Text)
	}), nil
}

// reading is the answer with a stretch of the text.
func reading(d control.Reading, s document.Stretch) Reading {
	offset, line := s.End()
	r := Reading{Document: d.ID, Path: absolute(d.Document), Title: cut(d.Title, maxTitle), Kind: d.Kind, Modified: d.Modified,
		State: d.State, Stale: d.Stale, From: s.Line, To: line, Lines: s.Lines, Text: s.Text}
	whole := strings.HasSuffix(s.Text, "\n")
	if whole {
		r.To--
	}
	switch {
	case !s.More():
	case whole:
		r.Next = line
	default:
		r.Next = farLine + offset
	}
	return r
}

// documentAt is the document that lies at a path.
func (s *Server) documentAt(ctx context.Context, path string) (document.ID, error) {
	page, err := s.app.Documents(ctx, control.DocumentsQuery{File: path, Limit: 5})
	if err != nil {
		return 0, err
	}
	switch len(page.Documents) {
	case 1:
		return page.Documents[0].ID, nil
	case 0:
		return 0, fmt.Errorf("no document lies at %s in the watched folders; the tool list shows them", short(path))
	}
	var all []string
	for _, d := range page.Documents {
		all = append(all, cut(absolute(d), maxMessage/8))
	}
	return 0, fmt.Errorf("several documents lie at %s; give one of their paths: %s", short(path), strings.Join(all, ", "))
}

func absolute(d control.Document) string {
	return filepath.Join(d.Folder, filepath.FromSlash(d.Path))
}
