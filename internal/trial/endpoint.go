package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/upstream"
	"github.com/ondol-app/ondol/internal/vector"
)

// Endpoint is the path through the gateway: an HTTP client like any other.
type Endpoint struct {
	url, key, model string
	dim             int
	http            *http.Client
}

// NewEndpoint is a client of the endpoint at base ("http://127.0.0.1:7434/v1").
// key is shown as a bearer token; empty = none. dim is what a vector of the
// model has, and only bounds the size of a reply.
func NewEndpoint(base, key, model string, dim int) *Endpoint {
	return &Endpoint{url: strings.TrimSuffix(base, "/") + "/embeddings", key: key, model: model, dim: dim,
		// No proxy and no time limit of its own: the trial has one.
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: maxConcurrency}}}
}

// maxConcurrency is that of the workload.
const maxConcurrency = 10

// Close drops idle connections.
func (e *Endpoint) Close() { e.http.CloseIdleConnections() }

// RefusedError is an error answer of the endpoint.
type RefusedError struct {
	Status int
	code   string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the endpoint answered %d %s", e.Status, e.code)
}

// Code is the code of the error envelope, else the HTTP status.
func (e *RefusedError) Code() string { return e.code }

// What a reply may take: base64 of four bytes a component, and the rest.
const (
	replyOverhead     = 1 << 20
	bytesPerComponent = 8
)

// Embed asks as OpenAI's clients do, for base64. A reply that must not be
// believed is a *vector.InvalidError.
func (e *Endpoint) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	body, err := json.Marshal(struct {
		Model    string   `json:"model"`
		Input    []string `json:"input"`
		Encoding string   `json:"encoding_format"`
	}{e.model, texts, "base64"})
	if err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	if e.key != "" {
		request.Header.Set("Authorization", "Bearer "+e.key)
	}
	response, err := e.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the endpoint: %w", err)
	}
	defer response.Body.Close()
	answer, err := upstream.ReadAll(response, replyOverhead+int64(len(texts)*e.dim)*bytesPerComponent)
	if err != nil {
		return nil, fmt.Errorf("read the reply: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, refusal(response.StatusCode, answer)
	}
	reply, err := llamaclient.ParseEmbeddings(answer, vector.Expect{Count: len(texts)})
	if err != nil {
		return nil, err
	}
	return reply.Vectors, nil
}

func refusal(status int, answer []byte) error {
	var envelope struct {
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal(answer, &envelope) != nil || envelope.Error.Code == "" {
		envelope.Error.Code = fmt.Sprintf("http_%d", status)
	}
	return &RefusedError{Status: status, code: envelope.Error.Code}
}
