package gateway

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"github.com/ollama/ollama/api"
	"github.com/ollama/ollama/types/model"

	"github.com/ondol-app/ondol/internal/embedding"
)

// ModelFacts is what Ollama's lists tell about a model file beyond what the
// door knows. Zero values are left out or shown as unknown.
type ModelFacts struct {
	Architecture string // of the GGUF header: "qwen3", "bert" …
	SHA256       string // hexadecimal
	Bytes        int64
	Modified     time.Time
	Parameters   string // "4.0B"
	Quantization string // "Q8_0"
}

// stay is how far off the end of the model's time in memory is said to be:
// nothing unloads it, and Ollama's command shows "Forever" for decades.
const stay = 100 * 365 * 24 * time.Hour

func (g *Gateway) modelFacts() ModelFacts {
	if g.facts == nil {
		return ModelFacts{}
	}
	return g.facts()
}

// names are those under which the model is listed, each with a tag, as
// Ollama's clients expect.
func (g *Gateway) names(served string) []string {
	list := []string{tagged(served)}
	for _, alias := range g.welcome.Load().aliases {
		if tagged(alias) != list[0] {
			list = append(list, tagged(alias))
		}
	}
	return list
}

func tagged(name string) string {
	for i := len(name) - 1; i >= 0 && name[i] != '/'; i-- {
		if name[i] == ':' {
			return name
		}
	}
	return name + latest
}

// digest names the model's content; clients cut it to 12 digits, so it always
// has 64.
func digest(facts ModelFacts, info embedding.Info) string {
	if len(facts.SHA256) == 2*sha256.Size {
		return facts.SHA256
	}
	sum := sha256.Sum256([]byte(info.Fingerprint))
	return hex.EncodeToString(sum[:])
}

func details(facts ModelFacts) api.ModelDetails {
	d := api.ModelDetails{Format: "gguf", Family: facts.Architecture, ParameterSize: facts.Parameters,
		QuantizationLevel: facts.Quantization, Families: []string{}}
	if facts.Architecture != "" {
		d.Families = []string{facts.Architecture}
	}
	return d
}

// ollamaTags is GET /api/tags: the served model and its aliases.
func (g *Gateway) ollamaTags(w http.ResponseWriter, r *http.Request) {
	info, err := g.embedder.Info()
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	facts := g.modelFacts()
	var list api.ListResponse
	for _, name := range g.names(info.Model) {
		list.Models = append(list.Models, api.ListModelResponse{Name: name, Model: name, ModifiedAt: facts.Modified,
			Size: facts.Bytes, Digest: digest(facts, info), Details: details(facts)})
	}
	g.sendJSON(w, http.StatusOK, list)
}

// ollamaProcesses is GET /api/ps: what is in memory now; nothing while the
// engine is not ready.
func (g *Gateway) ollamaProcesses(w http.ResponseWriter, r *http.Request) {
	list := api.ProcessResponse{Models: []api.ProcessModelResponse{}}
	info, err := g.embedder.Info()
	if err == nil {
		facts, name := g.modelFacts(), tagged(info.Model)
		list.Models = append(list.Models, api.ProcessModelResponse{Name: name, Model: name, Size: facts.Bytes,
			Digest: digest(facts, info), Details: details(facts), ExpiresAt: time.Now().Add(stay),
			SizeVRAM: facts.Bytes, ContextLength: info.MaxTokens})
	} else if !errors.As(err, new(*embedding.UnavailableError)) {
		g.refuse(w, r, err)
		return
	}
	g.sendJSON(w, http.StatusOK, list)
}

// ollamaShow is POST /api/show.
func (g *Gateway) ollamaShow(w http.ResponseWriter, r *http.Request) {
	// Of api.ShowRequest, what matters; older clients send the name as name.
	var req struct {
		Model string `json:"model"`
		Name  string `json:"name"`
	}
	err := g.ollamaDecode(w, r, &req)
	req.Model = cmp.Or(req.Model, req.Name)
	var info embedding.Info
	if err == nil {
		info, err = g.embedder.Info()
	}
	if err == nil {
		err = g.checkModel(req.Model, info.Model)
	}
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	facts := g.modelFacts()
	family := cmp.Or(facts.Architecture, "unknown")
	g.sendJSON(w, http.StatusOK, api.ShowResponse{
		Details:      details(facts),
		ModifiedAt:   facts.Modified,
		Capabilities: []model.Capability{model.CapabilityEmbedding},
		ModelInfo: map[string]any{
			"general.architecture":       family,
			"general.basename":           info.Model,
			family + ".embedding_length": info.Dim,
			family + ".context_length":   info.MaxTokens,
		},
	})
}
