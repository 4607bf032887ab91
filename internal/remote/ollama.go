package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/ollama/ollama/api"

	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/upstream"
	"github.com/ondol-app/ondol/internal/vector"
)

// embedOllama asks in the library's type and reads the reply by itself: the
// library decodes into []float32, where null becomes 0 without a word. Nothing
// may be cut, so truncation, which is Ollama's default, is turned off.
func (c *Client) embedOllama(ctx context.Context, inputs []string, want vector.Expect, limit int64) (llamaclient.Reply, error) {
	truncate := false
	request := api.EmbedRequest{Model: c.model, Input: inputs, Truncate: &truncate}
	body, err := c.post(ctx, c.base.JoinPath("/api/embed"), request, limit)
	if err != nil {
		return llamaclient.Reply{}, err
	}
	var reply struct {
		Embeddings []json.RawMessage `json:"embeddings"`
		Tokens     int               `json:"prompt_eval_count"`
	}
	if err := json.Unmarshal(body, &reply); err != nil {
		return llamaclient.Reply{}, malformed()
	}
	if len(reply.Embeddings) != want.Count {
		return llamaclient.Reply{}, &vector.InvalidError{Problems: []vector.Problem{{Index: vector.WholeReply, Reason: vector.ReasonCount}}}
	}
	vectors := make([][]float32, len(reply.Embeddings))
	var problems []vector.Problem
	for i, raw := range reply.Embeddings {
		if vectors[i], err = vector.DecodeJSON(raw); err != nil {
			problems = append(problems, vector.Problem{Index: i, Reason: vector.ReasonMalformed})
		}
	}
	if problems != nil {
		return llamaclient.Reply{}, &vector.InvalidError{Problems: problems}
	}
	if err := vector.Check(vectors, want); err != nil {
		return llamaclient.Reply{}, err
	}
	return llamaclient.Reply{Vectors: vectors, PromptTokens: reply.Tokens}, nil
}

// lookOllama finds the model among those that are there, and its digest.
func (c *Client) lookOllama(ctx context.Context) (digest string, err error) {
	library := api.NewClient(c.base, &http.Client{Transport: bounded{c, maxSmallReply}})
	list, err := library.List(ctx)
	if err != nil {
		return "", ollamaError(err)
	}
	for _, m := range list.Models {
		if m.Name == c.model || m.Model == c.model || m.Name == c.model+":latest" || m.Model == c.model+":latest" {
			return m.Digest, nil
		}
	}
	return "", fmt.Errorf("%w: Ollama has no %s; run: ollama pull %s", errModel, c.model, c.model)
}

// ollamaError gives the library's errors this project's names.
func ollamaError(err error) error {
	if status, ok := errors.AsType[api.StatusError](err); ok {
		return &upstream.StatusError{Code: status.StatusCode, Message: strings.TrimSpace(status.ErrorMessage)}
	}
	if refused, ok := errors.AsType[api.AuthorizationError](err); ok {
		return &upstream.StatusError{Code: refused.StatusCode, Message: "it does not know us"}
	}
	return fmt.Errorf("/api/tags: %w", err)
}
