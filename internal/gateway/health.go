package gateway

import (
	"errors"
	"net/http"

	"github.com/ondol-app/ondol/internal/embedding"
)

// health is the body of /healthz and /readyz.
type health struct {
	Status string `json:"status"`          // ok, ready, not_ready
	State  string `json:"state,omitempty"` // of the engine, when not ready
	Model  string `json:"model,omitempty"`
}

// healthz says that the process answers; nothing else.
func (g *Gateway) healthz(w http.ResponseWriter, _ *http.Request) {
	g.send(w, http.StatusOK, []byte(`{"status":"ok"}`))
}

// readyz says whether a request would be worked on now.
func (g *Gateway) readyz(w http.ResponseWriter, _ *http.Request) {
	info, err := g.embedder.Info()
	if err == nil {
		g.sendJSON(w, http.StatusOK, health{Status: "ready", Model: info.Model})
		return
	}
	wait, state := unknownWait, "unknown"
	if e, ok := errors.AsType[*embedding.UnavailableError](err); ok {
		state = e.State
		if e.RetryAfter > 0 {
			wait = e.RetryAfter
		}
	}
	w.Header().Set("Retry-After", seconds(wait))
	g.sendJSON(w, http.StatusServiceUnavailable, health{Status: "not_ready", State: state})
}
