package mcpserver

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/llamaserver"
)

// Standing is the answer of the tool status.
type Standing struct {
	Version  string            `json:"version"`
	Engine   Engine            `json:"engine"`
	Index    document.Counts   `json:"index" jsonschema:"documents of all folders; indexed ones are searchable by word and by meaning"`
	LastScan *time.Time        `json:"last_scan,omitempty"`
	Problems []control.Problem `json:"problems"`
	Folders  []Folder          `json:"folders"`
	Omitted  int               `json:"omitted,omitempty" jsonschema:"problems and folders that the answer has no room for"`
}

// Engine is what makes vectors. Without it search goes by words alone.
type Engine struct {
	State llamaserver.State `json:"state"`
	Model string            `json:"model"`
}

// Folder is one watched folder.
type Folder struct {
	ID     document.FolderID    `json:"id"`
	Path   string               `json:"path"`
	State  document.FolderState `json:"state"`
	Counts document.Counts      `json:"counts"`
}

func (s *Server) status(ctx context.Context, _ struct{}) (*mcp.CallToolResult, error) {
	now, err := s.app.Status(ctx)
	if err != nil {
		return nil, err
	}
	watched, err := s.app.Folders(ctx)
	if err != nil {
		return nil, err
	}
	folders := make([]Folder, len(watched))
	for i, f := range watched {
		folders[i] = Folder{ID: f.ID, Path: f.Path, State: f.State, Counts: f.Counts}
	}
	return fit(len(now.Problems)+len(folders), func(n int) *mcp.CallToolResult {
		standing := Standing{Version: now.Version, Engine: Engine{State: now.Engine.State, Model: now.Engine.Model.Name},
			Index: now.Index.Counts, LastScan: now.Index.LastScan, Omitted: len(now.Problems) + len(folders) - n}
		standing.Problems = append([]control.Problem{}, now.Problems[:min(n, len(now.Problems))]...)
		standing.Folders = folders[:n-len(standing.Problems)]
		return answer(standing, plain(standing))
	}), nil
}
