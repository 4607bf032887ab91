package gateway

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/openai"
)

const modelsPrefix = "/v1/models/"

// models is GET /v1/models: the embedding model first, then its aliases, so
// that a client that looks its model up in the list finds it, then the models
// of the other roles that are ready.
func (g *Gateway) models(w http.ResponseWriter, r *http.Request) {
	info, err := g.embedder.Info()
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	list := openai.ModelList{Object: "list", Data: []openai.Model{g.card(info.Model, info)}}
	for _, alias := range g.welcome.Load().aliases {
		if alias != info.Model {
			list.Data = append(list.Data, g.card(alias, info))
		}
	}
	for _, name := range g.otherModels() {
		list.Data = append(list.Data, g.otherCard(name))
	}
	g.sendJSON(w, http.StatusOK, list)
}

// otherModels are the names served by the rerank and chat roles now.
func (g *Gateway) otherModels() []string {
	var names []string
	for _, role := range []interface{ Model() (string, error) }{g.reranker, g.chat} {
		if role == nil {
			continue
		}
		if name, err := role.Model(); err == nil && name != "" {
			names = append(names, name)
		}
	}
	return names
}

// model is GET /v1/models/{id}. Names may hold slashes, as in "Qwen/Qwen3".
func (g *Gateway) model(w http.ResponseWriter, r *http.Request) {
	id := strings.TrimPrefix(tidy(r.URL.Path), modelsPrefix)
	if slices.Contains(g.otherModels(), id) {
		g.sendJSON(w, http.StatusOK, g.otherCard(id))
		return
	}
	info, err := g.embedder.Info()
	if err == nil {
		err = g.checkModel(id, info.Model)
	}
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	g.sendJSON(w, http.StatusOK, g.card(id, info))
}

func (g *Gateway) otherCard(id string) openai.Model {
	return openai.Model{ID: id, Object: "model", Created: g.created.Unix(), OwnedBy: "ondol", Root: id}
}

func (g *Gateway) card(id string, info embedding.Info) openai.Model {
	return openai.Model{ID: id, Object: "model", Created: g.created.Unix(), OwnedBy: "ondol",
		Root: info.Model, MaxModelLen: info.MaxTokens, Dimensions: info.Dim}
}

// sendJSON writes a small reply; structs of plain fields always marshal.
func (g *Gateway) sendJSON(w http.ResponseWriter, status int, v any) {
	body, _ := json.Marshal(v)
	g.send(w, status, body)
}
