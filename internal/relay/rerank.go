package relay

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/ondol-app/ondol/internal/vector"
)

// Rerank implements Reranker.
func (r *Relay) Rerank(ctx context.Context, request RerankRequest) (RerankReply, error) {
	if len(request.Documents) == 0 {
		return RerankReply{}, errors.New("rerank: no document")
	}
	e, err := r.begin(ctx, r.config.Total)
	if err != nil {
		return RerankReply{}, err
	}
	said, err := e.instance.Client.Rerank(e.ctx, request.Query, request.Documents)
	if err == nil {
		err = checkScores(said.Scores, len(request.Documents)) // the law holds for any client
	}
	if err := e.finish(err); err != nil {
		return RerankReply{}, err
	}
	results := make([]RerankResult, len(said.Scores))
	for i, score := range said.Scores {
		results[i] = RerankResult{Index: i, Score: score}
	}
	slices.SortStableFunc(results, func(a, b RerankResult) int { return cmp.Compare(b.Score, a.Score) })
	if request.TopN > 0 && request.TopN < len(results) {
		results = results[:request.TopN]
	}
	return RerankReply{Results: results, Tokens: said.Tokens, Model: e.instance.Model}, nil
}

func checkScores(scores []float64, count int) error {
	if len(scores) != count {
		return &vector.InvalidError{Problems: []vector.Problem{{Index: vector.WholeReply, Reason: vector.ReasonCount}}}
	}
	var problems []vector.Problem
	for i, score := range scores {
		if math.IsNaN(score) || math.IsInf(score, 0) {
			problems = append(problems, vector.Problem{Index: i, Reason: vector.ReasonNotFinite})
		}
	}
	if problems != nil {
		return &vector.InvalidError{Problems: problems}
	}
	return nil
}
