package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/upstream"
	"github.com/ondol-app/ondol/internal/vector"
)

// ErrNoCount says that this remote counts no tokens.
var ErrNoCount = errors.New("this remote engine counts no tokens")

// Client is the connection to one instance. It is safe for concurrent use; its
// fields do not change once the probe is over.
type Client struct {
	kind  Kind
	base  *url.URL
	model string
	key   string
	http  *upstream.Transport

	floats bool            // it does not know encoding_format
	counts bool            // it has /tokenize
	rank   rerankShape     // what it takes for reranking
	report func(error)     // tells the owner of an engine that is gone; may be nil
	life   context.Context // ends with the instance
}

// What a reply may take; see llamaclient.
const (
	replyOverhead     = 1 << 20
	bytesPerComponent = 32
	maxDim            = 16384
	bytesPerScore     = 512
	maxSmallReply     = 8 << 20 // lists of models, bytes
)

// Embed turns inputs into vectors with one call. Errors: *vector.InvalidError,
// *upstream.ContextError, *upstream.StatusError, *upstream.UnavailableError when
// the engine is gone or overloaded, a transport error, or the context's cause.
func (c *Client) Embed(ctx context.Context, inputs []string, want vector.Expect) (llamaclient.Reply, error) {
	if len(inputs) == 0 {
		return llamaclient.Reply{}, errors.New("embed: no input")
	}
	want.Count = len(inputs)
	reply, err := c.embed(ctx, inputs, want)
	return reply, c.judge(err)
}

func (c *Client) embed(ctx context.Context, inputs []string, want vector.Expect) (llamaclient.Reply, error) {
	dim := want.Dim
	if dim == 0 {
		dim = maxDim
	}
	limit := replyOverhead + int64(len(inputs))*int64(dim)*bytesPerComponent
	if c.kind == KindOllama {
		return c.embedOllama(ctx, inputs, want, limit)
	}
	request := struct {
		Model    string   `json:"model"`
		Input    []string `json:"input"`
		Encoding string   `json:"encoding_format,omitempty"`
	}{c.model, inputs, "base64"}
	if c.floats {
		request.Encoding = ""
	}
	body, err := c.post(ctx, c.base.JoinPath("embeddings"), request, limit)
	if err != nil {
		return llamaclient.Reply{}, err
	}
	return llamaclient.ParseEmbeddings(body, want)
}

// CountTokens returns for each text how many tokens the engine would embed, or
// ErrNoCount.
func (c *Client) CountTokens(ctx context.Context, texts []string) ([]int, error) {
	if !c.counts {
		return nil, ErrNoCount
	}
	counts := make([]int, len(texts))
	for i, text := range texts {
		n, err := c.tokenize(ctx, text)
		if err != nil {
			return nil, c.judge(err)
		}
		counts[i] = n
	}
	return counts, nil
}

// tokenize asks in the words of llama-server (content, add_special) and of
// vLLM (model, prompt, add_special_tokens) at once; each ignores the other's.
func (c *Client) tokenize(ctx context.Context, text string) (int, error) {
	request := struct {
		Content    string `json:"content"`
		AddSpecial bool   `json:"add_special"`
		Model      string `json:"model"`
		Prompt     string `json:"prompt"`
		AddTokens  bool   `json:"add_special_tokens"`
	}{text, true, c.model, text, true}
	// At most one token a byte, at most 8 characters a token.
	body, err := c.post(ctx, c.root("/tokenize"), request, maxSmallReply+8*int64(len(text)))
	if err != nil {
		return 0, err
	}
	var reply struct {
		Tokens []json.RawMessage `json:"tokens"`
	}
	if err := json.Unmarshal(body, &reply); err != nil || reply.Tokens == nil {
		return 0, fmt.Errorf("/tokenize: %w", ErrNoCount)
	}
	return len(reply.Tokens), nil
}

// Stream posts body, a JSON object, under the name of the remote's own model
// and returns the reply once its header is there; see llamaclient.Client.
func (c *Client) Stream(ctx context.Context, path string, body []byte) (*http.Response, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return nil, &upstream.StatusError{Code: http.StatusBadRequest, Message: "a JSON object is needed"}
	}
	name, err := json.Marshal(c.model)
	if err != nil {
		return nil, err
	}
	fields["model"] = name
	named, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	// llama-server may hang up after a stream, just when the connection is used again.
	response, err := c.do(ctx, http.MethodPost, c.path(path), named, false)
	if err != nil {
		return nil, c.judge(err)
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		return nil, c.judge(fmt.Errorf("%s: %w", path, llamaclient.ReadError(response)))
	}
	return response, nil
}

// path is where a route of ours lives at the remote: those of OpenAI's dialect
// below the base address, others beside it.
func (c *Client) path(route string) *url.URL {
	if rest, ok := strings.CutPrefix(route, "/v1/"); ok && c.kind == KindOpenAI {
		return c.base.JoinPath(rest)
	}
	return c.root(route)
}

// root is a route beside /v1.
func (c *Client) root(route string) *url.URL {
	u := *c.base
	u.Path = strings.TrimSuffix(u.Path, "/v1")
	return u.JoinPath(route)
}

// judge tells the owner of an engine that is gone, and gives what a caller can
// do nothing about but come again the form that says so.
func (c *Client) judge(err error) error {
	var status *upstream.StatusError
	var long *upstream.ContextError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, upstream.ErrConnect), errors.Is(err, upstream.ErrBroken):
		c.tell(err)
		return &upstream.UnavailableError{State: Unreachable.String(), RetryAfter: time.Second, Err: err}
	case errors.As(err, &long) && !c.counts:
		// Who cannot count cannot say which input it was.
		return &upstream.StatusError{Code: http.StatusBadRequest, Message: long.Error()}
	case !errors.As(err, &status):
		return err
	case status.Code == http.StatusUnauthorized || status.Code == http.StatusForbidden:
		c.tell(err)
		return &upstream.UnavailableError{State: Refused.String(), RetryAfter: time.Second, Err: err}
	case status.Code == http.StatusTooManyRequests || status.Code == http.StatusServiceUnavailable:
		return &upstream.UnavailableError{State: "busy", RetryAfter: max(status.RetryAfter, time.Second), Err: err}
	}
	return err
}

func (c *Client) tell(err error) {
	if c.report != nil {
		c.report(err)
	}
}

// post sends in as JSON and returns the body of a 200 of at most limit bytes.
func (c *Client) post(ctx context.Context, to *url.URL, in any, limit int64) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(in); err != nil {
		return nil, err
	}
	return c.call(ctx, http.MethodPost, to, buffer.Bytes(), limit)
}

func (c *Client) call(ctx context.Context, method string, to *url.URL, body []byte, limit int64) ([]byte, error) {
	response, err := c.do(ctx, method, to, body, true)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %w", to.Path, llamaclient.ReadError(response))
	}
	reply, err := upstream.ReadAll(response, limit)
	if errors.Is(err, upstream.ErrTooLarge) {
		return nil, malformed()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", to.Path, err)
	}
	return reply, nil
}

// do makes one exchange, which also ends when the instance does. A repeatable
// one uses a kept connection and is sent again on a new one when the kept one
// turns out to be closed; another gets a connection of its own.
func (c *Client) do(ctx context.Context, method string, to *url.URL, body []byte, repeatable bool) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := context.AfterFunc(c.life, func() { cancel(context.Cause(c.life)) })
	release := func() {
		ended()
		cancel(nil)
	}
	request, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(body))
	if err != nil {
		release()
		return nil, err
	}
	if repeatable {
		request.Header["Idempotency-Key"] = []string{} // net/http's sign for it; nothing is sent
	}
	request.Close = !repeatable
	request.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	response, err := c.http.RoundTrip(request)
	if err != nil {
		release()
		return nil, fmt.Errorf("%s: %w", to.Path, err)
	}
	response.Body = &heldBody{response.Body, release}
	return response, nil
}

func malformed() error {
	return &vector.InvalidError{Problems: []vector.Problem{{Index: vector.WholeReply, Reason: vector.ReasonMalformed}}}
}
