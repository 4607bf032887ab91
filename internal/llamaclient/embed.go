package llamaclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/ondol-app/ondol/internal/upstream"
	"github.com/ondol-app/ondol/internal/vector"
)

// Reply is a valid answer to Embed.
type Reply struct {
	Vectors      [][]float32 // in input order
	PromptTokens int         // of all inputs, special tokens included
}

// What a reply may take: the text of a component is at most 32 bytes with its
// separator, and no model in sight has more dimensions than maxDim.
const (
	replyOverhead     = 1 << 20
	bytesPerComponent = 32
	maxDim            = 16384
)

// Embed turns inputs into vectors with one engine call. want.Count is taken
// from inputs. Errors: *vector.InvalidError when the reply must not be
// believed, *ContextError when an input does not fit, *StatusError, one of
// this package's transport errors, or the context's cause.
func (c *Client) Embed(ctx context.Context, inputs []string, want vector.Expect) (Reply, error) {
	if len(inputs) == 0 {
		return Reply{}, errors.New("embed: no input")
	}
	want.Count = len(inputs)
	dim := want.Dim
	if dim == 0 {
		dim = maxDim
	}
	request := struct {
		Input    []string `json:"input"`
		Encoding string   `json:"encoding_format"`
	}{inputs, "base64"}
	limit := replyOverhead + int64(len(inputs))*int64(dim)*bytesPerComponent
	body, err := c.call(ctx, "/v1/embeddings", request, limit)
	if errors.Is(err, upstream.ErrTooLarge) {
		return Reply{}, malformed()
	}
	if err != nil {
		return Reply{}, err
	}
	return ParseEmbeddings(body, want)
}

func malformed() error {
	return &vector.InvalidError{Problems: []vector.Problem{{Index: vector.WholeReply, Reason: vector.ReasonMalformed}}}
}

// wireVector takes either encoding and keeps what is wrong with it: one
// unreadable vector is a problem of that vector, not of the reply.
type wireVector struct {
	values []float32
	err    error
}

func (w *wireVector) UnmarshalJSON(raw []byte) error {
	if len(raw) == 0 || raw[0] != '"' {
		w.values, w.err = vector.DecodeJSON(raw)
		return nil
	}
	text := string(raw[1 : len(raw)-1])
	if bytes.IndexByte(raw, '\\') >= 0 {
		if err := json.Unmarshal(raw, &text); err != nil {
			return err
		}
	}
	w.values, w.err = vector.DecodeBase64(text)
	return nil
}

// ParseEmbeddings reads an OpenAI-shaped reply, in floats or base64, and checks
// it against want. The error is a *vector.InvalidError.
func ParseEmbeddings(body []byte, want vector.Expect) (Reply, error) {
	var reply struct {
		Data []struct {
			Index     *int       `json:"index"`
			Embedding wireVector `json:"embedding"`
		} `json:"data"`
		Usage struct {
			PromptTokens int `json:"prompt_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(body, &reply); err != nil {
		return Reply{}, malformed()
	}
	if len(reply.Data) != want.Count {
		return Reply{}, &vector.InvalidError{Problems: []vector.Problem{{Index: vector.WholeReply, Reason: vector.ReasonCount}}}
	}
	seen := make([]int, want.Count)
	vectors := make([][]float32, want.Count)
	unreadable := make([]bool, want.Count)
	for _, item := range reply.Data {
		if item.Index == nil || *item.Index < 0 || *item.Index >= want.Count {
			continue // the input it should have named is seen to be missing
		}
		seen[*item.Index]++
		vectors[*item.Index] = item.Embedding.values
		unreadable[*item.Index] = item.Embedding.err != nil
	}
	var problems []vector.Problem
	for i, times := range seen {
		switch {
		case times != 1:
			problems = append(problems, vector.Problem{Index: i, Reason: vector.ReasonIndex})
		case unreadable[i]:
			problems = append(problems, vector.Problem{Index: i, Reason: vector.ReasonMalformed})
		}
	}
	if problems != nil {
		return Reply{}, &vector.InvalidError{Problems: problems}
	}
	if err := vector.Check(vectors, want); err != nil {
		return Reply{}, err
	}
	return Reply{Vectors: vectors, PromptTokens: reply.Usage.PromptTokens}, nil
}
