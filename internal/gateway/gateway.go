package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ondol-app/ondol/internal/embedding"
)

// Embedder is the embedding door as the gateway needs it.
type Embedder interface {
	// Embed answers with one vector for each input, in input order.
	Embed(ctx context.Context, req embedding.Request) (embedding.Result, error)
	// Info is a snapshot of what is served now and returns at once; its error
	// is an *embedding.UnavailableError while the engine is not ready.
	Info() (embedding.Info, error)
}

// DefaultMaxBody is the largest request body, in bytes. It guards memory
// only; how long one input may be is for the engine's context to say.
const DefaultMaxBody = 64 << 20

// DefaultGrace is how long requests under way may go on after Run was told to stop.
const DefaultGrace = 5 * time.Second

// Config is what a Gateway is built from. Embedder, Listen and Logger are required.
type Config struct {
	Embedder       Embedder
	Reranker       Reranker          // nil = /v1/rerank answers 501
	Chat           Forwarder         // nil = the chat routes answer 501
	Metrics        http.Handler      // GET /metrics; nil = no such route
	Model          func() ModelFacts // for Ollama's lists; may be nil
	Listen         string            // loopback host:port; port 0 takes a free one
	Aliases        []string          // further model names that are served as the engine's model
	AllowedOrigins []string          // "scheme://host" or "scheme://*", beside the gateway's own
	Keys           []Key             // a client may show one even where none is required
	Control        http.Handler      // the control API under /ondol/v1/, for who shows Token; nil = no such route
	MCP            http.Handler      // /mcp, for who shows Token; nil = no such route
	Token          string            // required with Control and MCP
	RequireKey     bool              // every route but health, version and metrics
	MaxBody        int64             // bytes of one body; 0 = DefaultMaxBody
	MaxInFlight    int64             // bytes of all bodies under way; 0 = DefaultMaxInFlight
	Grace          time.Duration     // 0 = DefaultGrace
	Logger         *slog.Logger
}

// Gateway answers HTTP. Its fields do not change after New, but for the
// listeners, which Listen sets before Run reads them, and the welcome.
type Gateway struct {
	embedder Embedder
	reranker Reranker
	chat     Forwarder
	metrics  http.Handler
	facts    func() ModelFacts
	listen   string
	welcome  atomic.Pointer[welcome] // never nil after New
	keys     ring
	control  http.Handler // nil = none
	mcp      http.Handler // nil = none
	token    ring         // for control and mcp
	maxBody  int64
	grace    time.Duration
	log      *slog.Logger
	created  time.Time // stands as "created" in the model list
	table    map[string]route
	buffers  sync.Pool // *[]byte: request bodies and replies
	bodies   budget

	mu        sync.Mutex // guards listeners
	listeners []net.Listener
}

// New checks cfg and builds the route table; it opens nothing.
func New(cfg Config) (*Gateway, error) {
	if cfg.Embedder == nil || cfg.Logger == nil {
		return nil, errors.New("gateway needs an Embedder and a Logger")
	}
	if _, _, err := splitLoopback(cfg.Listen); err != nil {
		return nil, err
	}
	keys, err := newRing(cfg.RequireKey, cfg.Keys)
	if err != nil {
		return nil, err
	}
	token := ring{}
	if cfg.Control != nil || cfg.MCP != nil {
		if token, err = newRing(true, []Key{{Name: "token", Secret: cfg.Token}}); err != nil {
			return nil, err
		}
	}
	g := &Gateway{
		control:  cfg.Control,
		mcp:      cfg.MCP,
		token:    token,
		embedder: cfg.Embedder,
		reranker: cfg.Reranker,
		chat:     cfg.Chat,
		metrics:  cfg.Metrics,
		facts:    cfg.Model,
		listen:   cfg.Listen,
		keys:     keys,
		maxBody:  cfg.MaxBody,
		grace:    cfg.Grace,
		log:      cfg.Logger,
		created:  time.Now(),
		buffers:  sync.Pool{New: func() any { return new([]byte) }},
	}
	if g.maxBody == 0 {
		g.maxBody = DefaultMaxBody
	}
	g.bodies.limit = cmp.Or(cfg.MaxInFlight, DefaultMaxInFlight)
	if g.grace == 0 {
		g.grace = DefaultGrace
	}
	if err := g.Welcome(cfg.Aliases, cfg.AllowedOrigins); err != nil {
		return nil, err
	}
	g.table = index(g.routes())
	return g, nil
}

// welcome is who is let in beside our own pages, and by which names the model
// is called beside its own. It is never changed, only replaced.
type welcome struct {
	aliases []string
	origins originList
}

// Welcome replaces Config.Aliases and Config.AllowedOrigins for requests that
// come from now on; after an error they are as they were.
func (g *Gateway) Welcome(aliases, allowedOrigins []string) error {
	origins, err := newOriginList(allowedOrigins)
	if err != nil {
		return fmt.Errorf("allowed origins: %w", err)
	}
	g.welcome.Store(&welcome{aliases: aliases, origins: origins})
	return nil
}

// Handler is the gate with every route behind it.
func (g *Gateway) Handler() http.Handler { return g.front(http.HandlerFunc(g.route)) }

// maxPooled keeps one huge request from pinning its memory for good.
const maxPooled = 1 << 20

// buffer lends a byte slice of length 0; give it back with recycle.
func (g *Gateway) buffer() *[]byte {
	b := g.buffers.Get().(*[]byte)
	*b = (*b)[:0]
	return b
}

func (g *Gateway) recycle(b *[]byte) {
	if cap(*b) <= maxPooled {
		g.buffers.Put(b)
	}
}
