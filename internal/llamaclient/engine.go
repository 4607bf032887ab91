package llamaclient

import (
	"context"
	"encoding/json"
	"fmt"
)

// maxSmallReply bounds the replies that describe the engine (a chat template
// may be some hundred kilobytes).
const maxSmallReply = 4 << 20

// Health asks whether the engine takes requests: nil when it does, a
// *StatusError (503 "Loading model") while it loads. It says nothing about
// whether its vectors are right.
func (c *Client) Health(ctx context.Context) error {
	_, err := c.call(ctx, "/health", nil, maxSmallReply)
	return err
}

// Props is what the engine says about its configuration.
type Props struct {
	Model          string // path of the model file
	ContextPerSlot int    // tokens one input may have
	Slots          int    // inputs computed at once
	Build          string // "b11669-Debian"
}

// Props reads /props.
func (c *Client) Props(ctx context.Context) (Props, error) {
	var reply struct {
		Model    string `json:"model_path"`
		Slots    int    `json:"total_slots"`
		Build    string `json:"build_info"`
		Settings struct {
			Context int `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	if err := c.read(ctx, "/props", nil, maxSmallReply, &reply); err != nil {
		return Props{}, err
	}
	return Props{Model: reply.Model, ContextPerSlot: reply.Settings.Context, Slots: reply.Slots, Build: reply.Build}, nil
}

// ModelMeta is what the engine read from the model file.
type ModelMeta struct {
	Dim          int   // components of a vector
	TrainContext int   // tokens
	Params       int64 // weights
	Size         int64 // bytes
}

// ModelMeta reads /v1/models.
func (c *Client) ModelMeta(ctx context.Context) (ModelMeta, error) {
	var reply struct {
		Data []struct {
			Meta struct {
				Dim          int   `json:"n_embd"`
				TrainContext int   `json:"n_ctx_train"`
				Params       int64 `json:"n_params"`
				Size         int64 `json:"size"`
			} `json:"meta"`
		} `json:"data"`
	}
	if err := c.read(ctx, "/v1/models", nil, maxSmallReply, &reply); err != nil {
		return ModelMeta{}, err
	}
	if len(reply.Data) == 0 {
		return ModelMeta{}, fmt.Errorf("/v1/models: no model listed")
	}
	return ModelMeta(reply.Data[0].Meta), nil
}

// Tokenize returns the token ids the engine would embed for text, special
// tokens included.
func (c *Client) Tokenize(ctx context.Context, text string) ([]int, error) {
	request := struct {
		Content    string `json:"content"`
		AddSpecial bool   `json:"add_special"`
	}{text, true}
	var reply struct {
		Tokens []int `json:"tokens"`
	}
	// At most one token a byte, at most 8 characters a token.
	limit := maxSmallReply + 8*int64(len(text))
	if err := c.read(ctx, tokenizePath, request, limit, &reply); err != nil {
		return nil, err
	}
	return reply.Tokens, nil
}

const tokenizePath = "/tokenize"

// CountTokens returns for each text how many tokens the engine would embed,
// special tokens included. One call for each text: the engine joins a list.
func (c *Client) CountTokens(ctx context.Context, texts []string) ([]int, error) {
	counts := make([]int, len(texts))
	for i, text := range texts {
		tokens, err := c.Tokenize(ctx, text)
		if err != nil {
			return nil, err
		}
		counts[i] = len(tokens)
	}
	return counts, nil
}

func (c *Client) read(ctx context.Context, path string, in any, limit int64, out any) error {
	body, err := c.call(ctx, path, in, limit)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("%s: read the reply: %w", path, err)
	}
	return nil
}
