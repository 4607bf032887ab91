package mcpserver

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// sessionless is the first protocol version that has no sessions.
	sessionless = "2026-07-28"
	// maxSessions bounds what clients cost that begin sessions and end none.
	maxSessions = 64
	// grace is how long calls under way may go on when the app stops.
	grace = 3 * time.Second
)

// ServeHTTP answers streamable HTTP. It trusts its caller: whoever serves it
// checks Host, Origin and token first.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		http.Error(w, "Ondol is stopping; try again once it runs", http.StatusServiceUnavailable)
		return
	}
	s.under.Add(1)
	s.mu.Unlock()
	defer s.under.Done()
	if s.sessionOf(r) {
		s.sessions.ServeHTTP(w, r)
		return
	}
	s.single.ServeHTTP(w, r)
}

// sessionOf reports whether a request is for a session, or may begin one.
func (s *Server) sessionOf(r *http.Request) bool {
	if r.Header.Get("Mcp-Protocol-Version") >= sessionless {
		return false
	}
	id, open := r.Header.Get("Mcp-Session-Id"), 0
	for session := range s.mcp.Sessions() {
		if id != "" && session.ID() == id {
			return true
		}
		open++
	}
	return id == "" && open < maxSessions
}

// Run waits for the end of ctx, then takes no new requests, lets the calls
// under way finish or ends them after a while, and returns when all sessions
// and HTTP requests have ended.
func (s *Server) Run(ctx context.Context) error {
	<-ctx.Done()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	limit := time.AfterFunc(grace, s.end)
	defer limit.Stop()
	s.closeSessions()
	s.under.Wait()
	s.closeSessions() // of the last requests
	s.end()
	return nil
}

// closeSessions ends all sessions once their calls have ended.
func (s *Server) closeSessions() {
	var all sync.WaitGroup
	for session := range s.mcp.Sessions() {
		all.Go(func() { _ = session.Close() }) // its client may be gone
	}
	all.Wait()
}

// Stdio serves one client that writes to in and reads from out, a JSON value a
// line, and returns when in ends or ctx does.
func (s *Server) Stdio(ctx context.Context, in io.Reader, out io.Writer) error {
	defer context.AfterFunc(ctx, s.end)()
	return s.mcp.Run(ctx, lastAnswers{&mcp.IOTransport{Reader: io.NopCloser(in), Writer: unclosed{out}}})
}

type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// lastWait is how long the end of the input waits for answers. A search takes
// about two seconds at most.
const lastWait = 10 * time.Second

// lastAnswers makes the end of the input wait for the answers to what was
// asked before it; otherwise it would cancel the calls, and a client that is a
// pipe would get none.
type lastAnswers struct{ mcp.Transport }

func (t lastAnswers) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &counted{Connection: conn, change: make(chan struct{}, 1)}, nil
}

// counted counts the calls that have no answer yet.
type counted struct {
	mcp.Connection
	mu     sync.Mutex // guards open
	open   int
	change chan struct{} // kicked when open falls
}

func (c *counted) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if err != nil {
		c.settle(ctx)
		return nil, err
	}
	if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() {
		c.count(1)
	}
	return m, nil
}

func (c *counted) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if _, ok := m.(*jsonrpc.Response); ok {
		c.count(-1)
	}
	return err
}

func (c *counted) count(n int) {
	c.mu.Lock()
	c.open += n
	c.mu.Unlock()
	if n < 0 {
		select {
		case c.change <- struct{}{}:
		default:
		}
	}
}

// settle returns when no call is open, or after lastWait.
func (c *counted) settle(ctx context.Context) {
	limit := time.NewTimer(lastWait)
	defer limit.Stop()
	for {
		c.mu.Lock()
		open := c.open
		c.mu.Unlock()
		if open <= 0 {
			return
		}
		select {
		case <-c.change:
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
