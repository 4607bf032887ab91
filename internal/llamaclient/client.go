package llamaclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Config describes one engine. Socket is required unless Dial is set; a zero
// Limits means DefaultLimits.
type Config struct {
	Socket string // path of the unix socket
	APIKey string // sent as a bearer token; empty = none
	Limits Limits

	// Dial replaces connecting to Socket, for an engine reached another way.
	// Its context carries Limits.Connect.
	Dial func(ctx context.Context) (net.Conn, error)
}

// Client is one engine's HTTP client.
type Client struct {
	key    string
	limits Limits
	dial   func(ctx context.Context) (net.Conn, error)
	http   *http.Transport
	slots  chan struct{} // one token for each exchange under way; cap is Limits.MaxConns
}

// New makes a client; it opens no connection.
func New(config Config) (*Client, error) {
	if config.Limits == (Limits{}) {
		config.Limits = DefaultLimits()
	}
	if err := config.Limits.validate(); err != nil {
		return nil, fmt.Errorf("llama-server client: %w", err)
	}
	if config.Dial == nil {
		if config.Socket == "" {
			return nil, errors.New("llama-server client: no socket given")
		}
		config.Dial = func(ctx context.Context) (net.Conn, error) { return dialUnix(ctx, config.Socket) }
	}
	c := &Client{
		key:    config.APIKey,
		limits: config.Limits,
		dial:   config.Dial,
		slots:  make(chan struct{}, config.Limits.MaxConns),
	}
	c.http = &http.Transport{
		DialContext:         c.connect,
		DisableCompression:  true,
		MaxConnsPerHost:     config.Limits.MaxConns,
		MaxIdleConns:        config.Limits.MaxIdle,
		MaxIdleConnsPerHost: config.Limits.MaxIdle,
		IdleConnTimeout:     keepAlive,
	}
	return c, nil
}

// Close ends the idle connections. Exchanges under way are not touched.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// connect is the first of the five mechanisms.
func (c *Client) connect(ctx context.Context, _, _ string) (net.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, c.limits.Connect)
	defer cancel()
	conn, err := c.dial(limited)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConnect, err)
	}
	return &limitedConn{Conn: conn, read: c.limits.Read, write: c.limits.Write}, nil
}

// enter takes one of the connections, the second mechanism; leave gives it back.
func (c *Client) enter(ctx context.Context) error {
	select {
	case c.slots <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(c.limits.PoolWait)
	defer timer.Stop()
	select {
	case c.slots <- struct{}{}:
		return nil
	case <-timer.C:
		return fmt.Errorf("%w (%v)", ErrPoolWait, c.limits.PoolWait)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Client) leave() { <-c.slots }

// errTooLarge says that a reply is longer than any right one could be.
var errTooLarge = errors.New("reply too large")

// maxErrorBody bounds what is read of an error reply.
const maxErrorBody = 64 << 10

// call makes one exchange and returns the body of a 200 of at most limit
// bytes. A nil in is a GET.
func (c *Client) call(ctx context.Context, path string, in any, limit int64) ([]byte, error) {
	if err := c.enter(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer c.leave()
	request, err := c.request(ctx, path, in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	response, err := c.http.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, transportError(ctx, err))
	}
	defer response.Body.Close()
	ok := response.StatusCode == http.StatusOK
	if !ok {
		limit = maxErrorBody
	}
	body, err := readAll(response, limit)
	switch {
	case errors.Is(err, errTooLarge) && ok:
		return nil, fmt.Errorf("%s: %w", path, err)
	case err != nil && !errors.Is(err, errTooLarge):
		return nil, fmt.Errorf("%s: %w", path, transportError(ctx, err))
	case !ok:
		return nil, fmt.Errorf("%s: %w", path, statusError(response.StatusCode, body))
	}
	return body, nil
}

func (c *Client) request(ctx context.Context, path string, in any) (*http.Request, error) {
	method, body := http.MethodGet, io.Reader(nil)
	if in != nil {
		var buffer bytes.Buffer
		encoder := json.NewEncoder(&buffer)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(in); err != nil {
			return nil, err
		}
		method, body = http.MethodPost, &buffer
	}
	// The host only names the connection pool: there is one peer.
	request, err := http.NewRequestWithContext(ctx, method, "http://llama-server"+path, body)
	if err != nil {
		return nil, err
	}
	if in != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	return request, nil
}

// readAll reads the body, at most limit bytes of it, into one allocation when
// the engine says how long it is.
func readAll(response *http.Response, limit int64) ([]byte, error) {
	if response.ContentLength > limit {
		return nil, errTooLarge
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
		return nil, errTooLarge
	}
	return buffer.Bytes(), nil
}

// transportError gives what net/http returns one of this package's names. The
// caller's own end comes first: it is the reason for whatever broke after it.
func transportError(ctx context.Context, err error) error {
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
