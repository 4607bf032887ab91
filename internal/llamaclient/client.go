package llamaclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"unicode"

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
	head string // of every request, after its first line
	http *upstream.Direct

	activity activity
}

// New makes a client; it opens no connection.
func New(config Config) (*Client, error) {
	if config.Dial == nil {
		if config.Socket == "" {
			return nil, errors.New("llama-server client: no socket given")
		}
		config.Dial = func(ctx context.Context) (net.Conn, error) { return upstream.DialUnix(ctx, config.Socket) }
	}
	if strings.ContainsFunc(config.APIKey, unicode.IsControl) {
		return nil, errors.New("llama-server client: a control character in the key")
	}
	direct, err := upstream.NewDirect(upstream.DirectConfig{Limits: config.Limits, Dial: config.Dial})
	if err != nil {
		return nil, fmt.Errorf("llama-server client: %w", err)
	}
	c := &Client{head: "Host: llama-server\r\n", http: direct}
	if config.APIKey != "" {
		c.head += "Authorization: Bearer " + config.APIKey + "\r\n"
	}
	return c, nil
}

// Close ends the idle connections. Exchanges under way are not touched.
func (c *Client) Close() { c.http.Close() }

// maxErrorBody bounds what is read of an error reply.
const maxErrorBody = 64 << 10

// call makes one exchange and returns the body of a 200 of at most limit
// bytes. A nil in is a GET.
func (c *Client) call(ctx context.Context, path string, in any, limit int64) ([]byte, error) {
	request := c.get(path)
	if in != nil {
		body, err := encode(in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		request = c.post(path, "", body)
		defer c.activity.begin(path != tokenizePath)()
	}
	response, err := c.http.Exchange(ctx, request, in == nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %w", path, ReadError(response))
	}
	reply, err := upstream.ReadAll(response, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return reply, nil
}

// encode leaves <, > and & as they are: the engine is no web page.
func encode(in any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(in)
	return buffer.Bytes(), err
}

// get is a whole request as it goes over the wire.
func (c *Client) get(path string) []byte {
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\n%s\r\n", path, c.head)
}

// post is get with a body, which is JSON, and further header lines. It is one
// piece so that it is one write.
func (c *Client) post(path, lines string, body []byte) []byte {
	const around = 128 // bytes of what is constant below
	whole := make([]byte, 0, around+len(path)+len(c.head)+len(lines)+len(body))
	whole = fmt.Appendf(whole, "POST %s HTTP/1.1\r\n%s%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		path, c.head, lines, len(body))
	return append(whole, body...)
}
