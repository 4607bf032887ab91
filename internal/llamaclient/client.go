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

	"github.com/ondol-app/ondol/internal/upstream"
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
	key  string
	http *upstream.Transport
}

// New makes a client; it opens no connection.
func New(config Config) (*Client, error) {
	if config.Dial == nil {
		if config.Socket == "" {
			return nil, errors.New("llama-server client: no socket given")
		}
		config.Dial = func(ctx context.Context) (net.Conn, error) { return upstream.DialUnix(ctx, config.Socket) }
	}
	transport, err := upstream.NewTransport(upstream.Config{
		Limits: config.Limits,
		Dial:   func(ctx context.Context, _, _ string) (net.Conn, error) { return config.Dial(ctx) },
	})
	if err != nil {
		return nil, fmt.Errorf("llama-server client: %w", err)
	}
	return &Client{key: config.APIKey, http: transport}, nil
}

// Close ends the idle connections. Exchanges under way are not touched.
func (c *Client) Close() { c.http.Close() }

// maxErrorBody bounds what is read of an error reply.
const maxErrorBody = 64 << 10

// call makes one exchange and returns the body of a 200 of at most limit
// bytes. A nil in is a GET.
func (c *Client) call(ctx context.Context, path string, in any, limit int64) ([]byte, error) {
	request, err := c.request(ctx, path, in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	response, err := c.http.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %w", path, ReadError(response))
	}
	body, err := upstream.ReadAll(response, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return body, nil
}

func (c *Client) request(ctx context.Context, path string, in any) (*http.Request, error) {
	if in == nil {
		return c.newRequest(ctx, http.MethodGet, path, nil)
	}
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(in); err != nil {
		return nil, err
	}
	return c.newRequest(ctx, http.MethodPost, path, &buffer)
}

func (c *Client) newRequest(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	// The host only names the connection pool: there is one peer.
	request, err := http.NewRequestWithContext(ctx, method, "http://llama-server"+path, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	return request, nil
}
