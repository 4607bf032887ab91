package gateway

import (
	"errors"
	"net/http"

	"github.com/ondol-app/ondol/internal/openai"
	"github.com/ondol-app/ondol/internal/relay"
	"github.com/ondol-app/ondol/internal/vector"
)

// Reranker is the door to the rerank role; *relay.Relay is one.
type Reranker interface {
	relay.Reranker
	Model() (string, error)
}

const noReranker = "no reranker is configured: say with `ondol config set roles.rerank.kind` what serves it and start Ondol again, or turn reranking off in this client"

// rerank is POST /v1/rerank.
func (g *Gateway) rerank(w http.ResponseWriter, r *http.Request) {
	in, err := g.intake(w, r)
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	defer in.close()
	req, err := openai.ParseRerank(in.bytes())
	in.recycle()
	var said relay.RerankReply
	if err == nil {
		said, err = g.reranker.Rerank(r.Context(), relay.RerankRequest{Query: req.Query, Documents: req.Documents, TopN: req.TopN})
	}
	if invalid, ok := errors.AsType[*vector.InvalidError](err); ok {
		err = invalidReply(invalid, "score", "documents", openai.CodeInvalidScore)
	}
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	g.sendJSON(w, http.StatusOK, rerankReply(req, said))
}

func rerankReply(req openai.RerankRequest, said relay.RerankReply) openai.RerankReply {
	reply := openai.RerankReply{Model: said.Model, Object: "list", Results: make([]openai.RerankResult, len(said.Results)),
		Usage: openai.RerankUsage{PromptTokens: said.Tokens, TotalTokens: said.Tokens}}
	for i, result := range said.Results {
		reply.Results[i] = openai.RerankResult{Index: result.Index, RelevanceScore: result.Score}
		if req.ReturnDocuments {
			reply.Results[i].Document = &openai.RerankDocument{Text: req.Documents[result.Index]}
		}
	}
	return reply
}
