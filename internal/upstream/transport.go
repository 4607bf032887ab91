package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Config of a Transport. Zero Limits mean DefaultLimits.
type Config struct {
	Limits Limits

	// Dial opens a connection; nil means TCP to the host of the request. Its
	// context carries Limits.Connect.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// KeepAlive is how long an idle connection is kept, which should be less
	// than the engine keeps it: that avoids writing into a closing one.
	// 0 means 4 s; llama-server closes after 5 s.
	KeepAlive time.Duration

	TLS *tls.Config // for https; nil means the system's roots
}

// Transport makes exchanges within the limits; it is an http.RoundTripper.
type Transport struct {
	limits Limits
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	http   *http.Transport
	places places
}

const defaultKeepAlive = 4 * time.Second

// NewTransport makes a transport; it opens no connection.
func NewTransport(config Config) (*Transport, error) {
	if config.Limits == (Limits{}) {
		config.Limits = DefaultLimits()
	}
	if err := config.Limits.Validate(); err != nil {
		return nil, err
	}
	if config.Dial == nil {
		config.Dial = new(net.Dialer).DialContext
	}
	if config.KeepAlive == 0 {
		config.KeepAlive = defaultKeepAlive
	}
	t := &Transport{
		limits: config.Limits,
		dial:   config.Dial,
		places: newPlaces(config.Limits),
	}
	t.http = &http.Transport{
		DialContext:         t.connect,
		DisableCompression:  true,
		MaxConnsPerHost:     config.Limits.MaxConns,
		MaxIdleConns:        config.Limits.MaxIdle,
		MaxIdleConnsPerHost: config.Limits.MaxIdle,
		IdleConnTimeout:     config.KeepAlive,
		TLSHandshakeTimeout: config.Limits.Connect,
		TLSClientConfig:     config.TLS,
	}
	return t, nil
}

// Close ends the idle connections. Exchanges under way are not touched.
func (t *Transport) Close() { t.http.CloseIdleConnections() }

// connect is the first of the five mechanisms.
func (t *Transport) connect(ctx context.Context, network, address string) (net.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, t.limits.Connect)
	defer cancel()
	conn, err := t.dial(limited, network, address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConnect, err)
	}
	return &limitedConn{Conn: conn, read: t.limits.Read, write: t.limits.Write, watched: true}, nil
}

// RoundTrip makes one exchange. It holds its connection until the reply's body
// is closed. Errors, those of reading the body included, are the cause of the
// context's end or wrap exactly one of the transport errors.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	if err := t.places.enter(ctx); err != nil {
		if request.Body != nil {
			_ = request.Body.Close() // RoundTrip's contract; nothing was read of it
		}
		return nil, err
	}
	response, err := t.http.RoundTrip(request)
	if err != nil {
		t.places.leave()
		return nil, named(ctx, err)
	}
	response.Body = &body{ReadCloser: response.Body, ctx: ctx, transport: t}
	return response, nil
}

// body gives the connection back when it is closed.
type body struct {
	io.ReadCloser
	ctx       context.Context
	transport *Transport
	closed    sync.Once
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = named(b.ctx, err)
	}
	return n, err
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.closed.Do(b.transport.places.leave)
	return err
}

// named gives what net/http returns one of this package's names. The caller's
// own end comes first: it is the reason for whatever broke after it.
func named(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, known := range []error{ErrConnect, ErrWrite, ErrRead} {
		if errors.Is(err, known) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrBroken, err)
}

// ErrTooLarge says that a reply is longer than any right one could be.
var ErrTooLarge = errors.New("reply too large")

// ReadAll reads a reply's body, at most limit bytes of it, into one allocation
// when the engine says how long it is. More is ErrTooLarge.
func ReadAll(response *http.Response, limit int64) ([]byte, error) {
	if response.ContentLength > limit {
		return nil, ErrTooLarge
	}
	var buffer bytes.Buffer
	if response.ContentLength > 0 {
		buffer.Grow(int(response.ContentLength) + bytes.MinRead)
	}
	n, err := buffer.ReadFrom(io.LimitReader(response.Body, limit+1))
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, ErrTooLarge
	}
	return buffer.Bytes(), nil
}
