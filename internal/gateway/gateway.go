package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
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
	Listen         string        // loopback host:port; port 0 takes a free one
	Aliases        []string      // further model names that are served as the engine's model
	AllowedOrigins []string      // "scheme://host" or "scheme://*", beside the gateway's own
	MaxBody        int64         // bytes; 0 = DefaultMaxBody
	Grace          time.Duration // 0 = DefaultGrace
	Logger         *slog.Logger
}

// Gateway answers HTTP. Its fields do not change after New, but for the
// listeners, which Listen sets before Run reads them.
type Gateway struct {
	embedder Embedder
	listen   string
	aliases  []string
	origins  originList
	maxBody  int64
	grace    time.Duration
	log      *slog.Logger
	created  time.Time // stands as "created" in the model list
	table    map[string]route
	buffers  sync.Pool // *[]byte: request bodies and replies

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
	origins, err := newOriginList(cfg.AllowedOrigins)
	if err != nil {
		return nil, fmt.Errorf("allowed origins: %w", err)
	}
	g := &Gateway{
		embedder: cfg.Embedder,
		listen:   cfg.Listen,
		aliases:  cfg.Aliases,
		origins:  origins,
		maxBody:  cfg.MaxBody,
		grace:    cfg.Grace,
		log:      cfg.Logger,
		created:  time.Now(),
		buffers:  sync.Pool{New: func() any { return new([]byte) }},
	}
	if g.maxBody == 0 {
		g.maxBody = DefaultMaxBody
	}
	if g.grace == 0 {
		g.grace = DefaultGrace
	}
	g.table = index(g.routes())
	return g, nil
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
