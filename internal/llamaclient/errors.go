package llamaclient

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// StatusError is an HTTP error of the engine.
type StatusError struct {
	Code    int    // HTTP status
	Message string // as the engine worded it
	Type    string // "unavailable_error", "invalid_request_error", …; may be empty
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("llama-server answered %d: %s", e.Code, e.Message)
}

// ContextError says that an input does not fit the engine. The engine does
// not say which one.
type ContextError struct {
	Tokens int // of the input, special tokens included
	Limit  int // the engine's, per input
}

func (e *ContextError) Error() string {
	return fmt.Sprintf("input of %d tokens exceeds the engine's limit of %d", e.Tokens, e.Limit)
}

// typeContext is how llama-server marks an input longer than a slot's context.
const typeContext = "exceed_context_size_error"

func statusError(code int, body []byte) error {
	var reply struct {
		Error struct {
			Message string `json:"message"`
			Type    string `json:"type"`
			Tokens  int    `json:"n_prompt_tokens"`
			Limit   int    `json:"n_ctx"`
		} `json:"error"`
	}
	if err := json.Unmarshal(body, &reply); err != nil || reply.Error.Message == "" {
		return &StatusError{Code: code, Message: http.StatusText(code)}
	}
	said := reply.Error
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
	return &StatusError{Code: code, Message: said.Message, Type: said.Type}
}
