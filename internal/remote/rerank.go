package remote

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/ondol-app/ondol/internal/llamaclient"
)

// rerankShape is how a server takes a reranking.
type rerankShape int

const (
	rerankJina rerankShape = iota // /v1/rerank: query, documents; as llama-server, vLLM and Jina
	rerankTEI                     // /rerank: query, texts; as text-embeddings-inference
)

// Rerank scores documents against query with one call; errors as Embed's.
func (c *Client) Rerank(ctx context.Context, query string, documents []string) (llamaclient.RerankReply, error) {
	if len(documents) == 0 {
		return llamaclient.RerankReply{}, errors.New("rerank: no document")
	}
	reply, err := c.rerank(ctx, query, documents)
	return reply, c.judge(err)
}

func (c *Client) rerank(ctx context.Context, query string, documents []string) (llamaclient.RerankReply, error) {
	request := struct {
		Model     string   `json:"model"`
		Query     string   `json:"query"`
		Documents []string `json:"documents,omitempty"`
		Texts     []string `json:"texts,omitempty"`
	}{Model: c.model, Query: query}
	to := c.base.JoinPath("rerank")
	if c.rank == rerankTEI {
		to, request.Texts = c.root("/rerank"), documents
	} else {
		request.Documents = documents
	}
	body, err := c.post(ctx, to, request, documentsLimit(documents))
	if err != nil {
		return llamaclient.RerankReply{}, err
	}
	if c.rank == rerankTEI {
		if body, err = fromTEI(body); err != nil {
			return llamaclient.RerankReply{}, err
		}
	}
	return llamaclient.ParseRerank(body, len(documents))
}

// documentsLimit leaves room for servers that send the documents back.
func documentsLimit(documents []string) int64 {
	limit := int64(replyOverhead)
	for _, d := range documents {
		limit += bytesPerScore + 6*int64(len(d)) // a byte is at most \u00XX
	}
	return limit
}

// fromTEI puts [{"index","score"}] into the other shape without looking at the
// values, which ParseRerank judges.
func fromTEI(body []byte) ([]byte, error) {
	var said []struct {
		Index json.RawMessage `json:"index,omitempty"`
		Score json.RawMessage `json:"score,omitempty"`
	}
	if err := json.Unmarshal(body, &said); err != nil {
		return nil, malformed()
	}
	type result struct {
		Index json.RawMessage `json:"index,omitempty"`
		Score json.RawMessage `json:"relevance_score,omitempty"`
	}
	results := make([]result, len(said))
	for i, s := range said {
		results[i] = result(s)
	}
	return json.Marshal(map[string]any{"results": results})
}
