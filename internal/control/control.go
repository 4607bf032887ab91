package control

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/engines"
	"github.com/ondol-app/ondol/internal/gpu"
	"github.com/ondol-app/ondol/internal/indexer"
	"github.com/ondol-app/ondol/internal/journal"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/search"
	"github.com/ondol-app/ondol/internal/trust"
	"github.com/ondol-app/ondol/internal/yielding"
)

// Engine is the supervisor. Start returns at once; Stop and Restart return
// when the old process has ended.
type Engine interface {
	Snapshot() llamaserver.Status
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	Restart(ctx context.Context) error
	// LogTail returns the last lines of the engine's log, oldest first.
	LogTail(lines int) ([]string, error)
}

// Candidates are the engines beside the one in service.
type Candidates interface {
	State() engines.State
	Try(ctx context.Context, order engines.Order) (engines.State, error)
	Promote(ctx context.Context, p engines.Promotion) (engines.State, error)
	Drop(ctx context.Context) (engines.State, error)
	Rollback(ctx context.Context, inPlace bool) (engines.State, error)
}

// Indexer works on the watched folders.
type Indexer interface {
	Add(ctx context.Context, path string) (document.Folder, error)
	Remove(ctx context.Context, id document.FolderID) error
	Rescan(ctx context.Context, id document.FolderID) error
	Retry(ctx context.Context, id document.ID) error
	Counters() Counters
	// Generations lists the generations of vectors, oldest first.
	Generations(ctx context.Context) ([]indexer.Generation, error)
}

// Index is what is stored. An id that does not exist is document.ErrNotFound.
type Index interface {
	Folders(ctx context.Context) ([]document.Folder, error)
	Documents(ctx context.Context, q document.DocumentQuery) ([]document.Document, error)
	Document(ctx context.Context, id document.ID) (document.Document, error)
	// Text is a stretch of the text stored of a document.
	Text(ctx context.Context, id document.ID, r document.Range) (document.Stretch, error)
	// VectorCost is what vectors of dim components would take on disk for all
	// texts there are now, and how many those are.
	VectorCost(ctx context.Context, dim int) (bytes, texts int64, err error)
}

// Trust is what is known of the engine's good name.
type Trust interface {
	Quarantined(ctx context.Context) ([]trust.Quarantined, error)
	LiftQuarantine(ctx context.Context, hash string) (int, error) // of every text when hash is empty
	Evidence(ctx context.Context) ([]trust.Evidence, error)
	// Recheck checks the engine now and returns when that is done.
	Recheck(ctx context.Context) error
}

// Searcher answers searches.
type Searcher interface {
	Search(ctx context.Context, req search.Request) (search.Reply, error)
}

// Gate tells how the engine's queue stands.
type Gate interface{ Stats() admission.Stats }

// DefaultGrace is how long requests under way may go on after Run was told to stop.
const DefaultGrace = 3 * time.Second

// Config is what a Server is built from. Everything but Cache, GPU, Yielding, Pulls, Roles, Candidates, Trials and Grace is required.
type Config struct {
	Version  string
	Socket   string // absolute path of the unix socket
	Endpoint func() string
	Engine   Engine
	Gate     Gate
	Trust    Trust
	Validity func() Validity
	Cache    func() embedding.CacheStats          // nil = none is told
	GPU      func(ctx context.Context) gpu.Status // whoever asks looks; nil = nothing is told
	Yielding func() *yielding.State               // why making vectors waits; nil = it never does
	Indexer  Indexer
	Index    Index
	Journal  journal.Source
	Recent   Recent
	Search   Searcher
	Models   Models
	Settings Settings
	Pulls    Puller              // nil = its routes do not exist
	Roles    func() []RoleStatus // every role that is served; nil = none is told
	Trials   Trials              // nil = none can be made

	Candidates Candidates    // nil where others run the engine: then there are none
	Grace      time.Duration // 0 = DefaultGrace
	Logger     *slog.Logger
}

// Server answers the control API. Its fields do not change after New, but for
// the listener, which Listen sets before Run reads it.
type Server struct {
	cfg     Config
	mux     *http.ServeMux
	stream  *journal.Stream
	sampler *sampler

	streams atomic.Int64       // readers of events
	ending  context.Context    // of the streams: ended by Run before it waits for requests
	end     context.CancelFunc // of ending

	mu       sync.Mutex // guards listener
	listener net.Listener
}

// New checks cfg and builds the routes; it opens nothing.
func New(cfg Config) (*Server, error) {
	switch {
	case cfg.Socket == "":
		return nil, errors.New("control needs the path of its socket")
	case cfg.Endpoint == nil, cfg.Engine == nil, cfg.Gate == nil, cfg.Trust == nil, cfg.Validity == nil, cfg.Indexer == nil,
		cfg.Index == nil, cfg.Models == nil, cfg.Journal == nil, cfg.Recent == nil, cfg.Search == nil, cfg.Settings == nil, cfg.Logger == nil:
		return nil, errors.New("control needs every part of its Config")
	}
	if cfg.Grace == 0 {
		cfg.Grace = DefaultGrace
	}
	s := &Server{cfg: cfg, stream: journal.NewStream(cfg.Journal, appendEvent)}
	s.sampler = newSampler(s.sample)
	s.ending, s.end = context.WithCancel(context.Background())
	s.mux = s.routes()
	return s, nil
}

// Handler is the whole API. It trusts its caller: whoever serves it elsewhere
// than on the socket checks Host, Origin and token first.
func (s *Server) Handler() http.Handler { return s.mux }
