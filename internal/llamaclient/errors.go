package llamaclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ondol-app/ondol/internal/upstream"
)

// StatusError is an HTTP error of the engine.
type StatusError = upstream.StatusError

// ContextError says that an input does not fit the engine.
type ContextError = upstream.ContextError

// typeContext is how llama-server marks an input longer than a slot's context.
const typeContext = "exceed_context_size_error"

// ReadError is what an answer that is no success says: a *StatusError, a
// *ContextError, or a transport error.
func ReadError(response *http.Response) error {
	body, err := upstream.ReadAll(response, maxErrorBody)
	if err != nil && !errors.Is(err, upstream.ErrTooLarge) {
		return err
	}
	err = statusError(response.StatusCode, body)
	if status := (*StatusError)(nil); errors.As(err, &status) {
		status.RetryAfter = retryAfter(response.Header)
	}
	return err
}

// retryAfter reads the header in its form of seconds, which is what servers of
// models send.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, maxRetryAfter)) * time.Second
}

// maxRetryAfter keeps a nonsensical header from overflowing, seconds.
const maxRetryAfter = 24 * 60 * 60

// maxMessage bounds what is kept of an engine's own words, bytes.
const maxMessage = 2 << 10

func statusError(code int, body []byte) error {
	said := readWords(body)
	if said.Message == "" {
		return &StatusError{Code: code, Message: http.StatusText(code)}
	}
	if said.Type == typeContext {
		return &ContextError{Tokens: said.Tokens, Limit: said.Limit}
	}
	// A model whose input cannot be split over batches refuses with a 500 and
	// the figures in the text alone.
	var tokens, limit int
	const tooLarge = "input (%d tokens) is too large to process. increase the physical batch size (current batch size: %d)"
	if n, err := fmt.Sscanf(said.Message, tooLarge, &tokens, &limit); err == nil && n == 2 {
		return &ContextError{Tokens: tokens, Limit: limit}
	}
	message := said.Message
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	return &StatusError{Code: code, Message: message, Type: said.Type}
}

type words struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Tokens  int    `json:"n_prompt_tokens"`
	Limit   int    `json:"n_ctx"`
}

// readWords understands {"error":{"message",…}} (llama-server, OpenAI),
// {"error":"…"} (Ollama, TEI) and {"message":"…"} (vLLM).
func readWords(body []byte) words {
	var envelope struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	if json.Unmarshal(body, &envelope) != nil {
		return words{}
	}
	var said words
	if json.Unmarshal(envelope.Error, &said) == nil && said.Message != "" {
		return said
	}
	var text string
	if json.Unmarshal(envelope.Error, &text) == nil && text != "" {
		return words{Message: text}
	}
	return words{Message: envelope.Message}
}
