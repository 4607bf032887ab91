package llamaclient

import (
	"context"
	"encoding/json"
	"errors"
	"math"

	"github.com/ondol-app/ondol/internal/upstream"
	"github.com/ondol-app/ondol/internal/vector"
)

// RerankReply is a valid answer to Rerank.
type RerankReply struct {
	Scores []float64 // one for each document, in document order; finite, higher is more relevant
	Tokens int       // of all pairs of query and document
}

// bytesPerScore is more than one result takes in JSON: index, score, and no text.
const bytesPerScore = 512

// Rerank scores documents against query with one engine call. Errors:
// *vector.InvalidError when the reply must not be believed, *ContextError when
// query and document together do not fit, *StatusError, one of this package's
// transport errors, or the context's cause.
func (c *Client) Rerank(ctx context.Context, query string, documents []string) (RerankReply, error) {
	if len(documents) == 0 {
		return RerankReply{}, errors.New("rerank: no document")
	}
	request := struct {
		Query     string   `json:"query"`
		Documents []string `json:"documents"`
	}{query, documents}
	body, err := c.call(ctx, "/v1/rerank", request, replyOverhead+int64(len(documents))*bytesPerScore)
	if errors.Is(err, upstream.ErrTooLarge) {
		return RerankReply{}, malformed()
	}
	if err != nil {
		return RerankReply{}, err
	}
	return ParseRerank(body, len(documents))
}

// wireScore keeps what is no number: null must not become 0.
type wireScore float64

func (s *wireScore) UnmarshalJSON(raw []byte) error {
	var number float64
	if string(raw) == "null" || json.Unmarshal(raw, &number) != nil {
		number = math.NaN()
	}
	*s = wireScore(number)
	return nil
}

// ParseRerank reads the Jina and Cohere shape of a reply to count documents
// and checks it: the indices are exactly 0…count-1, every score is finite.
// The error is a *vector.InvalidError.
func ParseRerank(body []byte, count int) (RerankReply, error) {
	var reply struct {
		Results []struct {
			Index *int       `json:"index"`
			Score *wireScore `json:"relevance_score"` // absent and null are nil
		} `json:"results"`
		Usage struct {
			Total int `json:"total_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(body, &reply); err != nil {
		return RerankReply{}, malformed()
	}
	if len(reply.Results) != count {
		return RerankReply{}, &vector.InvalidError{Problems: []vector.Problem{{Index: vector.WholeReply, Reason: vector.ReasonCount}}}
	}
	seen := make([]int, count)
	scores := make([]float64, count)
	for _, item := range reply.Results {
		if item.Index == nil || *item.Index < 0 || *item.Index >= count {
			continue // the document it should have named is seen to be missing
		}
		seen[*item.Index]++
		scores[*item.Index] = math.NaN()
		if item.Score != nil {
			scores[*item.Index] = float64(*item.Score)
		}
	}
	var problems []vector.Problem
	for i, times := range seen {
		switch {
		case times != 1:
			problems = append(problems, vector.Problem{Index: i, Reason: vector.ReasonIndex})
		case math.IsNaN(scores[i]) || math.IsInf(scores[i], 0):
			problems = append(problems, vector.Problem{Index: i, Reason: vector.ReasonNotFinite})
		}
	}
	if problems != nil {
		return RerankReply{}, &vector.InvalidError{Problems: problems}
	}
	return RerankReply{Scores: scores, Tokens: reply.Usage.Total}, nil
}
