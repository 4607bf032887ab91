package gateway

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ollama/ollama/api"

	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/openai"
)

// ollamaVersion is the release of Ollama whose API the routes below follow and
// whose types they use: clients switch features on by it.
const ollamaVersion = "0.17.4"

// truncatedHeader lists the indices of inputs that were cut at the client's wish.
const truncatedHeader = "x-ondol-truncated"

// ollamaRoot is GET /: how Ollama's clients find out that it runs.
func (g *Gateway) ollamaRoot(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "Ollama is running")
}

func (g *Gateway) ollamaVersion(w http.ResponseWriter, _ *http.Request) {
	g.send(w, http.StatusOK, []byte(`{"version":"`+ollamaVersion+`"}`))
}

// ollamaEmbed is POST /api/embed. Without truncate:true an input that is too
// long is refused: Ollama's default would cut it and nobody would know.
func (g *Gateway) ollamaEmbed(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	in, err := g.intake(w, r)
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	defer in.close()
	var req api.EmbedRequest
	err = openai.Object(in.bytes(), &req)
	in.recycle()
	var res embedding.Result
	if err == nil {
		res, err = g.ollamaVectors(w, r, req)
	}
	if err != nil {
		g.refuse(w, r, ollamaTooLong(err, "or send truncate:true to have it cut"))
		return
	}
	if len(res.Truncated) > 0 {
		w.Header().Set(truncatedHeader, indices(res.Truncated))
	}
	reply := ollamaReply{model: req.Model, vectors: res.Vectors, tokens: res.Tokens, took: time.Since(began)}
	g.sendVectors(w, r, reply.size(), reply.appendJSON)
}

// ollamaVectors serves one request; without an input it only looks whether the
// model is there.
func (g *Gateway) ollamaVectors(w http.ResponseWriter, r *http.Request, req api.EmbedRequest) (embedding.Result, error) {
	inputs, err := ollamaInputs(req.Input)
	if err != nil {
		return embedding.Result{}, err
	}
	if err := positive(req.Dimensions); err != nil {
		return embedding.Result{}, err
	}
	if len(inputs) == 0 {
		return embedding.Result{}, g.loaded(req.Model)
	}
	return g.vectors(w, r, req.Model, req.Dimensions, embedding.Request{
		Inputs: inputs, Truncate: req.Truncate != nil && *req.Truncate})
}

// ollamaTooLong words the refusal of a long input as Ollama does, which some
// clients look for, and adds the other way out that this dialect has.
func ollamaTooLong(err error, way string) error {
	long, ok := errors.AsType[*embedding.TooLongError](err)
	if !ok {
		return err
	}
	f := tooLong(long)
	f.body.Message = fmt.Sprintf("the input length exceeds the context length: input[%d] has %s tokens and the engine takes at most %d; split the text, %s",
		long.Index, long.Count(), long.Limit, way)
	return f
}

// ollamaInputs are the texts of an input field: nothing, a string or strings.
func ollamaInputs(input any) ([]string, error) {
	refusal := failure{status: http.StatusBadRequest, body: openai.Error{Type: openai.TypeInvalidRequest, Param: "input",
		Code: openai.CodeInvalidValue, Message: "input must be a string or an array of strings"}}
	switch input := input.(type) {
	case nil:
		return nil, nil
	case string:
		if input == "" {
			return nil, nil
		}
		return []string{input}, nil
	case []any:
		if len(input) > openai.MaxInputs {
			refusal.body.Message = fmt.Sprintf("input has more than %d items; send it in several requests", openai.MaxInputs)
			return nil, refusal
		}
		texts := make([]string, len(input))
		for i, item := range input {
			text, ok := item.(string)
			if !ok || text == "" {
				refusal.body.Message = fmt.Sprintf("input[%d] must be a string that is not empty; leave it out", i)
				return nil, refusal
			}
			texts[i] = text
		}
		return texts, nil
	}
	return nil, refusal
}

// loaded is what a request without input asks: whether the model is there.
func (g *Gateway) loaded(model string) error {
	info, err := g.embedder.Info()
	if err != nil {
		return err
	}
	return g.checkModel(model, info.Model)
}

func positive(dimensions int) error {
	if dimensions >= 0 {
		return nil
	}
	return failure{status: http.StatusBadRequest, body: openai.Error{Type: openai.TypeInvalidRequest, Param: "dimensions",
		Code: openai.CodeInvalidValue, Message: "dimensions must be a whole number of at least 1; leave it out for the model's own"}}
}

func indices(list []int) string {
	text := make([]string, len(list))
	for i, n := range list {
		text[i] = strconv.Itoa(n)
	}
	return strings.Join(text, ",")
}

// ollamaReply is an api.EmbedResponse that is written without reflection.
type ollamaReply struct {
	model   string // as the client named it
	vectors [][]float32
	tokens  int
	took    time.Duration
}

// size estimates the length from above, in bytes.
func (o *ollamaReply) size() int {
	r := openai.EmbeddingReply{Model: o.model, Vectors: o.vectors, Encoding: openai.EncodingFloat}
	return r.Size()
}

func (o *ollamaReply) appendJSON(dst []byte) ([]byte, error) {
	dst = append(dst, `{"model":`...)
	dst = openai.AppendString(dst, o.model)
	dst = append(dst, `,"embeddings":[`...)
	for i, v := range o.vectors {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = openai.AppendVector(dst, v); err != nil {
			return dst, fmt.Errorf("encode vector %d: %w", i, err)
		}
	}
	dst = append(dst, `],"total_duration":`...)
	dst = strconv.AppendInt(dst, o.took.Nanoseconds(), 10)
	dst = append(dst, `,"load_duration":0,"prompt_eval_count":`...) // the model is always loaded
	dst = strconv.AppendInt(dst, int64(o.tokens), 10)
	return append(dst, '}'), nil
}

// ollamaEmbeddings is POST /api/embeddings, the older route for one text.
func (g *Gateway) ollamaEmbeddings(w http.ResponseWriter, r *http.Request) {
	in, err := g.intake(w, r)
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	defer in.close()
	var req api.EmbeddingRequest
	err = openai.Object(in.bytes(), &req)
	in.recycle()
	vector := []float32{}
	switch {
	case err != nil:
	case req.Prompt == "":
		err = g.loaded(req.Model)
	default:
		var res embedding.Result
		if res, err = g.vectors(w, r, req.Model, 0, embedding.Request{Inputs: []string{req.Prompt}}); err == nil {
			vector = res.Vectors[0]
		}
	}
	if err != nil {
		g.refuse(w, r, ollamaTooLong(err, "or send it to /api/embed with truncate:true to have it cut"))
		return
	}
	size := openai.EmbeddingReply{Vectors: [][]float32{vector}, Encoding: openai.EncodingFloat}
	g.sendVectors(w, r, size.Size(), func(dst []byte) ([]byte, error) {
		dst, err := openai.AppendVector(append(dst, `{"embedding":`...), vector)
		return append(dst, '}'), err
	})
}

// ollamaDecode reads a small body into one of Ollama's request types.
func (g *Gateway) ollamaDecode(w http.ResponseWriter, r *http.Request, into any) error {
	in, err := g.intake(w, r)
	if err != nil {
		return err
	}
	defer in.close()
	return openai.Object(in.bytes(), into)
}
