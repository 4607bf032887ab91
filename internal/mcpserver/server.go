package mcpserver

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/search"
)

// App is the control API as the tools need it; *control.Client is one.
type App interface {
	Search(ctx context.Context, req search.Request) (search.Reply, error)
	Documents(ctx context.Context, q control.DocumentsQuery) (control.Documents, error)
	Text(ctx context.Context, id document.ID, r document.Range) (control.Reading, error)
	Folders(ctx context.Context) ([]document.Folder, error)
	Status(ctx context.Context) (control.Status, error)
}

// Config is what a Server is built from. App is required.
type Config struct {
	Version string // of Ondol, as clients are told it
	App     App
}

// Server serves the tools. It is safe for concurrent use.
type Server struct {
	app      App
	mcp      *mcp.Server
	sessions http.Handler // for who has one, or begins one
	single   http.Handler // each request by itself

	ending context.Context // of every call; ended by Run when its grace is over
	end    context.CancelFunc

	mu     sync.Mutex // guards closed, and under from growing behind it
	closed bool
	under  sync.WaitGroup // HTTP requests under way
}

// idleSession is how long a session is kept that nobody uses. A client that
// comes later is served without one.
const idleSession = time.Hour

// New returns a Server.
func New(cfg Config) (*Server, error) {
	if cfg.App == nil {
		return nil, errors.New("mcpserver: App is required")
	}
	s := &Server{app: cfg.App, mcp: mcp.NewServer(&mcp.Implementation{Name: "ondol", Title: "Ondol", Version: cfg.Version},
		&mcp.ServerOptions{Instructions: instructions, Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}})}
	s.ending, s.end = context.WithCancel(context.Background())
	if err := s.addTools(); err != nil {
		return nil, err
	}
	get := func(*http.Request) *mcp.Server { return s.mcp }
	s.sessions = mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{SessionTimeout: idleSession})
	s.single = mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})
	return s, nil
}

// instructions tell a model what all this is good for.
const instructions = `Ondol searches the folders that its owner chose on this machine, by words and by meaning, in Korean and English.
Call search first; then read with the document id of a result, from its first line or a little before. list shows what is there, status whether the index is complete.
When evidence.found is false, nothing in the folders answers the question: say so instead of guessing. near_misses are then no evidence.`
