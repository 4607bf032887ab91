package mcpserver

import (
	"context"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/document"
)

// listArguments are those of the tool list.
type listArguments struct {
	Folder document.FolderID `json:"folder"`
	Path   string            `json:"path"`
	Kinds  []document.Kind   `json:"kinds"`
	Cursor string            `json:"cursor"`
}

// Listing is the answer of the tool list: one page, in order of id.
type Listing struct {
	Documents []Entry `json:"documents"`
	Next      string  `json:"next" jsonschema:"cursor of the following page; empty on the last one"`
}

// Entry is one document.
type Entry struct {
	Document document.ID     `json:"document"`
	Path     string          `json:"path"`
	Title    string          `json:"title,omitempty"`
	Kind     document.Kind   `json:"kind,omitempty"`
	Size     int64           `json:"size" jsonschema:"bytes"`
	Modified time.Time       `json:"modified"`
	State    document.State  `json:"state" jsonschema:"indexed: searchable now; found, embedding: on its way; skipped, failed: see reason"`
	Reason   document.Reason `json:"reason,omitempty"`
}

// page is how many documents are asked for at once: some more than fit.
const page = 60

func (s *Server) list(ctx context.Context, in listArguments) (*mcp.CallToolResult, error) {
	found, err := s.app.Documents(ctx, control.DocumentsQuery{Folder: in.Folder, Path: in.Path, Kinds: in.Kinds, Cursor: in.Cursor, Limit: page})
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(found.Documents))
	for i, d := range found.Documents {
		entries[i] = Entry{Document: d.ID, Path: absolute(d), Title: cut(d.Title, maxTitle), Kind: d.Kind, Size: d.Size, Modified: d.Modified, State: d.State, Reason: d.Reason}
	}
	return fit(len(entries), func(n int) *mcp.CallToolResult {
		listing := Listing{Documents: entries[:n], Next: found.Next}
		if n < len(entries) {
			// The cursor is the last id that was shown. One whose path alone is
			// too long for an answer is passed over, or nothing would follow.
			listing.Next = strconv.FormatInt(int64(entries[max(n-1, 0)].Document), 10)
		}
		return answer(listing, plain(listing))
	}), nil
}
