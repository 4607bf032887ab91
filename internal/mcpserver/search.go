package mcpserver

import (
	"context"
	"math"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/search"
)

// searchArguments are those of the tool search.
type searchArguments struct {
	Query   string              `json:"query"`
	Limit   int                 `json:"limit"`
	Folders []document.FolderID `json:"folders"`
	Path    string              `json:"path"`
	Kinds   []document.Kind     `json:"kinds"`
	After   string              `json:"after"`
	Before  string              `json:"before"`
}

// Found is the answer of the tool search.
type Found struct {
	Results    []Hit                `json:"results"`
	Omitted    int                  `json:"omitted,omitempty" jsonschema:"further results that the answer has no room for; ask with a narrower query, path or kinds"`
	Evidence   search.Evidence      `json:"evidence"`
	NearMisses []Hit                `json:"near_misses"`
	Index      search.Index         `json:"index"`
	Degraded   []search.Degradation `json:"degraded" jsonschema:"what the answer had to do without"`
}

// Hit is one document with its best passage.
type Hit struct {
	Document    document.ID        `json:"document"`
	Path        string             `json:"path"`
	Title       string             `json:"title"`
	Kind        document.Kind      `json:"kind"`
	Modified    time.Time          `json:"modified"`
	Location    search.Location    `json:"location"`
	Snippet     string             `json:"snippet"`
	Score       float64            `json:"score"`
	State       document.State     `json:"state"`
	Stale       bool               `json:"stale,omitempty" jsonschema:"the file may not say any more what is shown"`
	StaleReason search.StaleReason `json:"stale_reason,omitempty"`
	Reason      document.Reason    `json:"reason,omitempty"`
}

// maxTitle bounds a title, in bytes.
const maxTitle = 200

func (s *Server) search(ctx context.Context, in searchArguments) (*mcp.CallToolResult, error) {
	req := search.Request{Query: in.Query, Limit: in.Limit, Folders: in.Folders, Path: in.Path, Kinds: in.Kinds}
	var err error
	if req.After, err = day("after", in.After); err != nil {
		return nil, err
	}
	if req.Before, err = day("before", in.Before); err != nil {
		return nil, err
	}
	reply, err := s.app.Search(ctx, req)
	if err != nil {
		return nil, err
	}
	results, misses := hits(reply.Results), hits(reply.NearMisses)
	return fit(len(results)+len(misses), func(n int) *mcp.CallToolResult {
		found := Found{Evidence: reply.Evidence, Index: reply.Index, Degraded: append([]search.Degradation{}, reply.Degraded...)}
		found.Results = results[:min(n, len(results))]
		found.NearMisses = misses[:n-len(found.Results)]
		found.Omitted = len(results) - len(found.Results)
		return answer(found, plain(found))
	}), nil
}

func hits(results []search.Result) []Hit {
	list := make([]Hit, len(results))
	for i, r := range results {
		list[i] = Hit{Document: r.Document, Path: r.Path, Title: cut(r.Title, maxTitle), Kind: r.Kind, Modified: r.Modified, Location: r.Location,
			Snippet: r.Snippet.Text, Score: math.Round(r.Score*1e4) / 1e4, State: r.State, Stale: r.Stale, StaleReason: r.StaleReason, Reason: r.Reason}
	}
	return list
}
