package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"

	"github.com/ondol-app/ondol/internal/upstream"
	"github.com/ondol-app/ondol/internal/vector"
)

// probeTexts are embedded before an engine may be used: two, so that count and
// order are seen too.
var probeTexts = []string{"hello", "The floor keeps warm all night."}

// The smoke test of a reranker: one document answers the question, the other
// has nothing to do with it.
const (
	probeQuery = "what is the capital of France?"
	probeRight = "Paris is the capital of France."
	probeWrong = "A toaster browns bread."
)

// errNonsense says that an answer to the probe is well-formed and wrong.
var errNonsense = errors.New("nonsense")

var errProbeTime = errors.New("the probe was not answered in time")

// probe asks the engine what its role is about and learns what it can do. The
// client is not shared yet.
func (e *Engine) probe(ctx context.Context, c *Client) (Instance, string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.config.Probe, errProbeTime)
	defer cancel()
	found := Instance{Client: c, Model: e.config.Model}
	digest, err := c.look(ctx)
	if err != nil {
		return found, "", err
	}
	switch e.config.Role {
	case upstream.RoleEmbed:
		found.Dim, found.Unnormalized, err = c.probeEmbed(ctx)
		if err == nil && c.kind == KindOpenAI {
			_, refusal := c.tokenize(ctx, probeTexts[0])
			c.counts = refusal == nil
		}
	case upstream.RoleRerank:
		err = c.probeRerank(ctx)
	}
	if err != nil {
		return found, "", err
	}
	found.Fingerprint = fingerprint(c.kind, c.base.String(), c.model, digest, found.Dim)
	return found, digest, nil
}

// look asks for the list of models: whether the engine is there, whether ours
// is, and its digest where the dialect has one. A server of OpenAI's dialect
// may have no list, or name its models as it likes; that proves nothing.
func (c *Client) look(ctx context.Context) (digest string, err error) {
	if c.kind == KindOllama {
		return c.lookOllama(ctx)
	}
	body, err := c.call(ctx, http.MethodGet, c.base.JoinPath("models"), nil, maxSmallReply)
	var status *upstream.StatusError
	if errors.As(err, &status) {
		switch codeOf(status.Code) {
		case CodeModel, CodeAnswer: // no such route
			return "", nil
		}
	}
	if err != nil {
		return "", err
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return "", fmt.Errorf("%w: /models answers no list; is the address that of an OpenAI-compatible server?", errNonsense)
	}
	return "", nil
}

// probeEmbed embeds two texts: in base64, or in floats where the server does
// not know better.
func (c *Client) probeEmbed(ctx context.Context) (dim int, unnormalized bool, err error) {
	want := vector.Expect{Count: len(probeTexts)}
	reply, err := c.embed(ctx, probeTexts, want)
	if status, refused := errors.AsType[*upstream.StatusError](err); refused && c.kind == KindOpenAI && codeOf(status.Code) == CodeAnswer {
		c.floats = true
		reply, err = c.embed(ctx, probeTexts, want)
	}
	if err != nil {
		return 0, false, err
	}
	for _, v := range reply.Vectors {
		if math.Abs(vector.Norm(v)-1) > vector.NormTolerance {
			unnormalized = true
		}
	}
	return len(reply.Vectors[0]), unnormalized, nil
}

func (c *Client) probeRerank(ctx context.Context) error {
	documents := []string{probeWrong, probeRight}
	reply, err := c.rerank(ctx, probeQuery, documents)
	if status, refused := errors.AsType[*upstream.StatusError](err); refused && codeOf(status.Code) == CodeModel {
		c.rank = rerankTEI
		reply, err = c.rerank(ctx, probeQuery, documents)
	}
	if err != nil {
		return err
	}
	if wrong, right := reply.Scores[0], reply.Scores[1]; right <= wrong {
		return fmt.Errorf("%w: a document that answers the question scores %g, an unrelated one %g; is the model a reranker?", errNonsense, right, wrong)
	}
	return nil
}

// fingerprint names what makes a remote's vectors comparable, as far as it can
// be known from here: 32 hexadecimal digits.
func fingerprint(kind Kind, base, model, digest string, dim int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%s\x00%d", kind, base, model, digest, dim))
	return hex.EncodeToString(sum[:16])
}
