package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/openai"
	"github.com/ondol-app/ondol/internal/vector"
)

// embeddings is POST /v1/embeddings.
func (g *Gateway) embeddings(w http.ResponseWriter, r *http.Request) {
	in, err := g.intake(w, r)
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	defer in.close()
	reply, err := g.embed(w, r, in)
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	g.sendVectors(w, r, reply.Size(), reply.AppendJSON)
}

// sendVectors writes a reply of about size bytes that encode appends.
func (g *Gateway) sendVectors(w http.ResponseWriter, r *http.Request, size int, encode func([]byte) ([]byte, error)) {
	buf := g.buffer()
	defer g.recycle(buf)
	if cap(*buf) < size {
		*buf = make([]byte, 0, size)
	}
	out, err := encode(*buf)
	*buf = out
	if err != nil {
		// The door let a value pass that is no number: a defect, and still
		// never an answer.
		g.log.Error("invalid vector reached the encoder", "error", err)
		g.fail(w, r, invalidVector(&vector.InvalidError{Problems: []vector.Problem{
			{Index: vector.WholeReply, Reason: vector.ReasonNotFinite}}}))
		return
	}
	g.send(w, http.StatusOK, out)
}

// embed checks and serves one request up to the point of writing.
func (g *Gateway) embed(w http.ResponseWriter, r *http.Request, in *intake) (*openai.EmbeddingReply, error) {
	req, err := openai.ParseEmbeddings(in.bytes(), g.keys.decoder(r.Header))
	in.recycle()
	if err != nil {
		return nil, err
	}
	res, err := g.vectors(w, r, req.Model, req.Dimensions, embedding.Request{Inputs: req.Inputs})
	if err != nil {
		return nil, err
	}
	return &openai.EmbeddingReply{Model: res.Model, Vectors: res.Vectors, Encoding: req.Encoding, PromptTokens: res.Tokens}, nil
}

// fingerprintHeader names the model, build and flags that made the vectors of a reply.
const fingerprintHeader = "x-ondol-fingerprint"

// vectors asks the door on behalf of a client and shortens what it gives to
// dimensions components; 0 = as they are. The reply's header names what made
// them: only vectors of one fingerprint may be compared.
func (g *Gateway) vectors(w http.ResponseWriter, r *http.Request, model string, dimensions int, req embedding.Request) (embedding.Result, error) {
	info, err := g.embedder.Info()
	if err != nil {
		return embedding.Result{}, err
	}
	if err := g.checkModel(model, info.Model); err != nil {
		return embedding.Result{}, err
	}
	if err := checkDimensions(dimensions, info.Dim); err != nil {
		return embedding.Result{}, err
	}
	req.Lane = admission.LaneClient
	res, err := g.embedder.Embed(r.Context(), req)
	if err != nil {
		return embedding.Result{}, err
	}
	w.Header().Set(fingerprintHeader, res.Fingerprint)
	res.Vectors, err = cut(res.Vectors, dimensions)
	return res, err
}

// latest is the tag that Ollama's clients add to a name without one.
const latest = ":latest"

// checkModel accepts the served model's name or an alias, each with the tag
// latest as well, or no name at all: there is one model here, so a client
// that names none means it.
func (g *Gateway) checkModel(asked, served string) error {
	untagged := strings.TrimSuffix(asked, latest)
	same := func(name string) bool { return strings.TrimSuffix(name, latest) == untagged }
	if asked == "" || same(served) || slices.ContainsFunc(g.welcome.Load().aliases, same) {
		return nil
	}
	return failure{status: http.StatusNotFound, body: openai.Error{
		Type: openai.TypeInvalidRequest, Param: "model", Code: openai.CodeModelNotFound,
		Message: fmt.Sprintf("the model %s does not exist here; set the client's model to %q", clip(asked), served)}}
}

func checkDimensions(asked, dim int) error {
	if asked <= dim {
		return nil
	}
	return failure{status: http.StatusBadRequest, body: openai.Error{
		Type: openai.TypeInvalidRequest, Param: "dimensions", Code: openai.CodeInvalidValue,
		Message: fmt.Sprintf("dimensions is %d and the model has %d; ask for at most that, or leave it out", asked, dim)}}
}

// cut shortens every vector to dim components and renormalises it; 0 leaves
// them as they are. The vectors of the door are never written to.
func cut(vectors [][]float32, dim int) ([][]float32, error) {
	if dim == 0 {
		return vectors, nil
	}
	short := make([][]float32, len(vectors))
	var problems []vector.Problem
	for i, v := range vectors {
		// The engine may have been replaced by one of another size meanwhile.
		if err := checkDimensions(dim, len(v)); err != nil {
			return nil, err
		}
		s, err := vector.Truncate(v, dim)
		if errors.Is(err, vector.ErrNoDirection) {
			problems = append(problems, vector.Problem{Index: i, Reason: vector.ReasonZero})
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cut vector %d: %w", i, err)
		}
		short[i] = s
	}
	if len(problems) > 0 {
		return nil, &vector.InvalidError{Problems: problems}
	}
	return short, nil
}
