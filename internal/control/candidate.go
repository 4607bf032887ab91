package control

import (
	"context"
	"net/http"

	"github.com/ondol-app/ondol/internal/engines"
)

// Rollback is the body of POST engine/rollback.
type Rollback struct {
	InPlace bool `json:"in_place"` // stop the engine in service first, where memory does not hold two
}

// withCandidates answers with what do does to the engines beside the one in
// service.
func (s *Server) withCandidates(do func(Candidates) (engines.State, error)) (any, error) {
	if s.cfg.Candidates == nil {
		return nil, &Error{Status: http.StatusConflict, Code: CodeEngineRemote, Message: "the embedding engine is run by others",
			Remedy: "try other models or flags where it runs, or set roles.embed.kind to local", Args: map[string]string{"role": "embed"}}
	}
	state, err := do(s.cfg.Candidates)
	if err != nil {
		return nil, err
	}
	return state, nil
}

func (s *Server) candidate(r *http.Request) (any, error) {
	if _, err := params(r); err != nil {
		return nil, err
	}
	return s.withCandidates(func(c Candidates) (engines.State, error) { return c.State(), nil })
}

func (s *Server) tryCandidate(r *http.Request) (any, error) {
	order, err := decode[engines.Order](r)
	if err != nil {
		return nil, err
	}
	return s.withCandidates(func(c Candidates) (engines.State, error) { return c.Try(r.Context(), order) })
}

func (s *Server) dropCandidate(r *http.Request) (any, error) {
	if err := noBody(r); err != nil {
		return nil, err
	}
	return s.withCandidates(func(c Candidates) (engines.State, error) { return c.Drop(r.Context()) })
}

func (s *Server) promote(r *http.Request) (any, error) {
	promotion, err := decode[engines.Promotion](r)
	if err != nil {
		return nil, err
	}
	return s.withCandidates(func(c Candidates) (engines.State, error) { return c.Promote(r.Context(), promotion) })
}

func (s *Server) rollback(r *http.Request) (any, error) {
	body, err := decode[Rollback](r)
	if err != nil {
		return nil, err
	}
	return s.withCandidates(func(c Candidates) (engines.State, error) { return c.Rollback(r.Context(), body.InPlace) })
}

// refusedByEngines is a wish about engines that cannot be had.
func refusedByEngines(e *engines.RefusedError) *Error {
	status := http.StatusConflict
	if e.Code == engines.CodeImpossible {
		status = http.StatusBadRequest
	}
	return &Error{Status: status, Code: e.Code, Message: e.Message, Remedy: e.Remedy, Args: e.Args, Findings: e.Findings}
}

// Candidate is the engine beside the one in service, or the last there was.
func (c *Client) Candidate(ctx context.Context) (engines.State, error) {
	return call[engines.State](ctx, c, "GET", "engine/candidate", nil)
}

// TryCandidate starts a candidate and returns at once.
func (c *Client) TryCandidate(ctx context.Context, order engines.Order) (engines.State, error) {
	return call[engines.State](ctx, c, "POST", "engine/candidate", order)
}

// DropCandidate returns when the candidate's process has ended.
func (c *Client) DropCandidate(ctx context.Context) (engines.State, error) {
	return call[engines.State](ctx, c, "DELETE", "engine/candidate", nil)
}

// Promote returns when new requests go to the candidate, or that has begun.
func (c *Client) Promote(ctx context.Context, p engines.Promotion) (engines.State, error) {
	return call[engines.State](ctx, c, "POST", "engine/promote", p)
}

// Rollback returns when the earlier engine serves, or has been started.
func (c *Client) Rollback(ctx context.Context, inPlace bool) (engines.State, error) {
	return call[engines.State](ctx, c, "POST", "engine/rollback", Rollback{InPlace: inPlace})
}
