package llamaserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/ondol-app/ondol/internal/canary"
	"github.com/ondol-app/ondol/internal/gguf"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/upstream"
	"github.com/ondol-app/ondol/internal/vector"
)

// RoleProfile is the built-in profile of a role beside embedding.
//
// A reranker computes query and document in one piece, so the physical batch
// is as long as a slot's context. It runs one request at a time: its memory is
// what counts. A chat model's context grows with its slots; one is what a
// small machine can afford.
func RoleProfile(role upstream.Role) (Profile, error) {
	switch role {
	case upstream.RoleRerank:
		return Profile{Name: "rerank", Role: role, Flags: strings.Fields("--rerank -ngl 99 -c 4096 -b 4096 -ub 4096 -np 1")}, nil
	case upstream.RoleChat:
		return Profile{Name: "chat", Role: role, Flags: strings.Fields("-ngl 99 -c 16384 -np 1")}, nil
	}
	return Profile{}, fmt.Errorf("no engine profile for role %q: use rerank or chat", role)
}

// accepts refuses a model by its header where the probe might be passed by
// luck: llama-server takes the first component of any vector for a score.
func accepts(r upstream.Role, h *gguf.Header) error {
	if r == upstream.RoleRerank && h.Pooling() != gguf.PoolingRank {
		return errors.New("it is no reranker (its pooling type is not rank); choose a GGUF converted as one, such as bge-reranker or Qwen3-Reranker")
	}
	return nil
}

// seen is what a probe found out.
type seen struct {
	dim        int  // components of a vector; 0 = this role makes none
	normalized bool // vectors have length 1
}

// probe asks the engine for what its role is about. The error is a
// *vector.InvalidError or wraps errProbe when the answer must not be believed.
func (e *engine) probe(ctx context.Context, client *llamaclient.Client) (seen, error) {
	switch e.config.Profile.Role {
	case upstream.RoleRerank:
		return seen{}, probeRerank(ctx, client)
	case upstream.RoleChat:
		return seen{}, probeChat(ctx, client)
	}
	normalized := flagNumber(e.config.Profile.Flags, 2, "--embd-normalize") == 2 // 2 is Euclidean, llama-server's default
	reply, err := client.Embed(ctx, []string{canary.Probe}, vector.Expect{Normalized: normalized})
	if err != nil {
		return seen{}, err
	}
	return seen{dim: len(reply.Vectors[0]), normalized: normalized}, nil
}

// errProbe says that an answer to the probe is nonsense though well-formed.
var errProbe = errors.New("nonsense")

// The smoke test of a reranker: one document answers the question, the other
// has nothing to do with it.
const (
	probeQuery = "what is the capital of France?"
	probeRight = "Paris is the capital of France."
	probeWrong = "A toaster browns bread."
)

// probeRerank catches a model file without its classification head or prompt
// template: llama-server then answers tiny, equal or arbitrary scores.
func probeRerank(ctx context.Context, client *llamaclient.Client) error {
	reply, err := client.Rerank(ctx, probeQuery, []string{probeWrong, probeRight})
	if err != nil {
		return err
	}
	if wrong, right := reply.Scores[0], reply.Scores[1]; right <= wrong {
		return fmt.Errorf("%w: a document that answers the question scores %g, an unrelated one %g; is the model a reranker, converted as one?", errProbe, right, wrong)
	}
	return nil
}

// maxProbeReply bounds the reply to a completion of one token, bytes.
const maxProbeReply = 1 << 20

func probeChat(ctx context.Context, client *llamaclient.Client) error {
	response, err := client.Stream(ctx, "/v1/completions", []byte(`{"prompt":"hello","max_tokens":1}`))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := upstream.ReadAll(response, maxProbeReply)
	if err != nil {
		return err
	}
	var reply struct {
		Choices []json.RawMessage `json:"choices"`
	}
	if err := json.Unmarshal(body, &reply); err != nil || len(reply.Choices) == 0 {
		return fmt.Errorf("%w: no completion in the reply; is the model one that writes text?", errProbe)
	}
	return nil
}
