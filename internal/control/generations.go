package control

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/ondol-app/ondol/internal/indexer"
)

// Generations is the reply to GET generations.
type Generations struct {
	Generations []indexer.Generation `json:"generations"`    // oldest first; never null
	Cost        *Cost                `json:"cost,omitempty"` // of one more; only when asked for
}

// Cost is what the vectors of every passage would take on disk, beside those
// that are kept.
type Cost struct {
	Dimension int   `json:"dimension"` // components of a vector
	Texts     int64 `json:"texts"`     // passages now, equal ones counted once
	Bytes     int64 `json:"bytes"`     // to about a tenth
}

// maxDimension is beyond what any model gives.
const maxDimension = 1 << 16

func (s *Server) generations(r *http.Request) (any, error) {
	values, err := params(r, "dimension")
	if err != nil {
		return nil, err
	}
	dim, err := number(values, "dimension", 1, maxDimension, 0)
	if err != nil {
		return nil, err
	}
	var reply Generations
	if reply.Generations, err = s.listGenerations(r.Context()); err != nil || dim == 0 {
		return reply, err
	}
	cost := Cost{Dimension: dim}
	if cost.Bytes, cost.Texts, err = s.cfg.Index.VectorCost(r.Context(), dim); err != nil {
		return nil, fmt.Errorf("estimate vectors: %w", err)
	}
	reply.Cost = &cost
	return reply, nil
}

func (s *Server) listGenerations(ctx context.Context) ([]indexer.Generation, error) {
	list, err := s.cfg.Indexer.Generations(ctx)
	if err != nil {
		return nil, fmt.Errorf("list generations of vectors: %w", err)
	}
	return append([]indexer.Generation{}, list...), nil
}

// Generations lists the generations of vectors. A dimension other than 0 asks
// for the cost of one more with vectors of so many components.
func (c *Client) Generations(ctx context.Context, dimension int) (Generations, error) {
	path := "generations"
	if dimension != 0 {
		path += "?" + url.Values{"dimension": {strconv.Itoa(dimension)}}.Encode()
	}
	return call[Generations](ctx, c, "GET", path, nil)
}
