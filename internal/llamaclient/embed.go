package llamaclient

import (
	"context"
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
