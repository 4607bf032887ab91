package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// DirectConfig of a Direct. Dial is required; its context carries
// Limits.Connect. Zero Limits mean DefaultLimits, KeepAlive is Config's.
type DirectConfig struct {
	Limits    Limits
	Dial      func(ctx context.Context) (net.Conn, error)
	KeepAlive time.Duration
}

// Direct makes exchanges with one engine over plain connections, on the
// goroutines of its callers. net/http's transport has two goroutines for each
// connection; waking them takes longer than a short input does on a quick
// engine. The limits and the errors are those of Transport. It is safe for
// concurrent use.
type Direct struct {
	limits Limits
	dial   func(ctx context.Context) (net.Conn, error)
	keep   time.Duration
	places places

	mu    sync.Mutex
	idle  []*wire     // guarded by mu; the longest unused first; at most Limits.MaxIdle
	sweep *time.Timer // guarded by mu; nil = there are none
}

// NewDirect opens no connection.
func NewDirect(config DirectConfig) (*Direct, error) {
	if config.Limits == (Limits{}) {
		config.Limits = DefaultLimits()
	}
	if err := config.Limits.Validate(); err != nil {
		return nil, err
	}
	if config.KeepAlive == 0 {
		config.KeepAlive = defaultKeepAlive
	}
	return &Direct{limits: config.Limits, dial: config.Dial, keep: config.KeepAlive, places: newPlaces(config.Limits)}, nil
}

// Exchange sends request, a whole HTTP/1.1 request of a method other than
// HEAD, and returns the reply as soon as its header is there. It holds its
// connection until the reply's body is closed; the connection is used again
// when the body was read to its end and neither side wants it closed. Errors,
// those of reading the body included, are the cause of ctx's end or wrap
// exactly one of the transport errors.
//
// A connection that broke while it was idle is replaced when none of the
// request was written to it; with again also when no byte of a reply has come,
// so again is for requests that may run twice.
func (d *Direct) Exchange(ctx context.Context, request []byte, again bool) (*http.Response, error) {
	if err := d.places.enter(ctx); err != nil {
		return nil, err
	}
	response, err := d.exchange(ctx, request, again)
	if err != nil {
		d.places.leave()
		return nil, named(ctx, err)
	}
	return response, nil
}

func (d *Direct) exchange(ctx context.Context, request []byte, again bool) (*http.Response, error) {
	w := d.take()
	used := w != nil
	for {
		if w == nil {
			var err error
			if w, err = d.connect(ctx); err != nil {
				return nil, err
			}
		}
		hangUp := context.AfterFunc(ctx, func() { _ = w.conn.Close() })
		response, written, err := w.exchange(request)
		if err == nil {
			response.Body = &directBody{ctx: ctx, direct: d, wire: w, reply: response, text: response.Body, stay: hangUp}
			return response, nil
		}
		hangUp()
		_ = w.conn.Close() // err says why
		safe := written == 0 || again && !w.answered && !errors.Is(err, ErrRead)
		if !used || !safe || ctx.Err() != nil {
			return nil, err
		}
		w, used = nil, false
	}
}

// connect is the first of the five mechanisms.
func (d *Direct) connect(ctx context.Context) (*wire, error) {
	limited, cancel := context.WithTimeout(ctx, d.limits.Connect)
	defer cancel()
	conn, err := d.dial(limited)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConnect, err)
	}
	w := &wire{conn: &limitedConn{Conn: conn, read: d.limits.Read, write: d.limits.Write}}
	w.reader = bufio.NewReader(w)
	return w, nil
}

// take returns the idle connection that was used last, or nil.
func (d *Direct) take() *wire {
	for {
		d.mu.Lock()
		if len(d.idle) == 0 {
			d.mu.Unlock()
			return nil
		}
		last := len(d.idle) - 1
		w := d.idle[last]
		d.idle[last] = nil
		d.idle = d.idle[:last]
		d.mu.Unlock()
		if time.Since(w.since) < d.keep && quiet(w.conn.Conn) {
			return w
		}
		_ = w.conn.Close() // the engine has hung up, or is about to
	}
}

// put keeps a connection for the next exchange.
func (d *Direct) put(w *wire) {
	w.since = time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.idle) >= d.limits.MaxIdle {
		_ = w.conn.Close()
		return
	}
	d.idle = append(d.idle, w)
	if d.sweep == nil {
		d.sweep = time.AfterFunc(d.keep, d.tidy)
	}
}

// tidy closes what has been idle for too long.
func (d *Direct) tidy() {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := 0
	for old < len(d.idle) && time.Since(d.idle[old].since) >= d.keep {
		_ = d.idle[old].conn.Close()
		old++
	}
	d.idle = append(d.idle[:0], d.idle[old:]...)
	d.sweep = nil
	if len(d.idle) > 0 {
		d.sweep = time.AfterFunc(d.keep-time.Since(d.idle[0].since), d.tidy)
	}
}

// Close ends the idle connections. Exchanges under way are not touched.
func (d *Direct) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.idle {
		_ = w.conn.Close()
	}
	d.idle = nil
	if d.sweep != nil {
		d.sweep.Stop()
		d.sweep = nil
	}
}

// directBody gives the connection back when it is closed.
type directBody struct {
	ctx    context.Context
	direct *Direct
	wire   *wire
	reply  *http.Response
	text   io.Reader
	stay   func() bool // keeps ctx's end from closing the connection; false = too late
	whole  bool        // text was read to its end
	closed bool
}

func (b *directBody) Read(p []byte) (int, error) {
	if b.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.text.Read(p)
	if err == io.EOF {
		b.whole = true
	} else if err != nil {
		err = named(b.ctx, err)
	}
	return n, err
}

func (b *directBody) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	if b.stay() && b.whole && !b.reply.Close && b.wire.reader.Buffered() == 0 {
		b.direct.put(b.wire)
	} else {
		_ = b.wire.conn.Close() // nobody is told of what it would say
	}
	b.direct.places.leave()
	return nil
}
