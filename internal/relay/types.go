package relay

import (
	"context"
	"net/http"

	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/upstream"
)

// Role is what an engine is there for.
type Role = upstream.Role

// Engine is a role's engine, local or remote.
type Engine interface {
	// Current is the instance to use now; else the error is best an
	// *upstream.UnavailableError.
	Current() (Instance, error)

	// Replace ends the instance of that generation, whatever it is doing, and
	// returns when it is gone; at once when it is gone already.
	Replace(ctx context.Context, generation uint64, cause string) error
}

// Instance is one life of an engine.
type Instance struct {
	Generation uint64
	Client     Client
	Model      string // name shown to clients
}

// Client is one instance's connection. *llamaclient.Client is one.
type Client interface {
	// Stream posts body and returns the reply once its header is there. A
	// reply that is no success is a *upstream.StatusError or *upstream.ContextError.
	Stream(ctx context.Context, path string, body []byte) (*http.Response, error)
	Rerank(ctx context.Context, query string, documents []string) (llamaclient.RerankReply, error)
}

// Teller is a Client whose engine can say how many of its slots compute.
type Teller interface {
	Busy(ctx context.Context) (int, error)
}

// ForwardRequest is one exchange to pass on.
type ForwardRequest struct {
	Path   string // "/v1/chat/completions", "/v1/completions" or "/infill"
	Body   []byte // JSON, checked to be an object
	Stream bool   // the body asks for a stream
}

// Forwarder passes an exchange through the role's gate to its engine and
// writes the reply to w as it comes. Errors: *admission.RejectedError,
// *upstream.UnavailableError, *upstream.TimeoutError, *upstream.StatusError, or
// the cause of ctx's end. An error after the first byte was written means that
// the reply broke off: its handler must abort (http.ErrAbortHandler), or half a
// reply would look like a whole one.
type Forwarder interface {
	Forward(ctx context.Context, w http.ResponseWriter, request ForwardRequest) error
}

// RerankRequest asks for the documents in the order of their relevance.
type RerankRequest struct {
	Query     string
	Documents []string // at least one
	TopN      int      // how many to return; 0 = all
}

// RerankReply is a valid answer.
type RerankReply struct {
	Results []RerankResult // most relevant first; equal ones in document order
	Tokens  int            // of all pairs of query and document
	Model   string
}

// RerankResult is one document's relevance.
type RerankResult struct {
	Index int     // in RerankRequest.Documents
	Score float64 // finite; its scale is the model's own
}

// Reranker scores documents. Errors: as Forwarder's, and
// *vector.InvalidError, *upstream.ContextError.
type Reranker interface {
	Rerank(ctx context.Context, request RerankRequest) (RerankReply, error)
}
