package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/openai"
	"github.com/ondol-app/ondol/internal/vector"
)

// embeddings is POST /v1/embeddings.
func (g *Gateway) embeddings(w http.ResponseWriter, r *http.Request) {
	reply, err := g.embed(w, r)
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	buf := g.buffer()
	defer g.recycle(buf)
	if size := reply.Size(); cap(*buf) < size {
		*buf = make([]byte, 0, size)
	}
	out, err := reply.AppendJSON(*buf)
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

// embed reads, checks and serves one request up to the point of writing.
func (g *Gateway) embed(w http.ResponseWriter, r *http.Request) (*openai.EmbeddingReply, error) {
	req, err := g.readRequest(w, r)
	if err != nil {
		return nil, err
	}
	info, err := g.embedder.Info()
	if err != nil {
		return nil, err
	}
	if err := g.checkModel(req.Model, info.Model); err != nil {
		return nil, err
	}
	if err := checkDimensions(req.Dimensions, info.Dim); err != nil {
		return nil, err
	}
	res, err := g.embedder.Embed(r.Context(), embedding.Request{Lane: admission.LaneClient, Inputs: req.Inputs})
	if err != nil {
		return nil, err
	}
	vectors, err := cut(res.Vectors, req.Dimensions)
	if err != nil {
		return nil, err
	}
	return &openai.EmbeddingReply{Model: res.Model, Vectors: vectors, Encoding: req.Encoding, PromptTokens: res.Tokens}, nil
}

// readRequest holds the body only as long as it is parsed.
func (g *Gateway) readRequest(w http.ResponseWriter, r *http.Request) (openai.EmbeddingRequest, error) {
	buf := g.buffer()
	defer g.recycle(buf)
	body, err := g.readBody(w, r, *buf)
	*buf = body
	if err != nil {
		return openai.EmbeddingRequest{}, err
	}
	return openai.ParseEmbeddings(body)
}

// checkModel accepts the served model's name, an alias, or no name at all:
// there is one model here, so a client that names none means it.
func (g *Gateway) checkModel(asked, served string) error {
	if asked == "" || asked == served || slices.Contains(g.aliases, asked) {
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
