package control

import (
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/upstream"
)

// RoleStatus is one role: who serves it, how that one is, and its own queue.
type RoleStatus struct {
	Role      upstream.Role   `json:"role"`
	Kind      string          `json:"kind"`  // local, ollama, openai
	State     string          `json:"state"` // of its engine; see llamaserver and remote
	Since     time.Time       `json:"since"`
	Model     string          `json:"model"`
	URL       string          `json:"url,omitempty"`      // of a remote engine
	Outside   bool            `json:"outside"`            // texts leave this machine, since its owner set that address
	Plain     bool            `json:"plain"`              // and do so unencrypted
	RetryAt   *time.Time      `json:"retry_at,omitempty"` // when an engine that is away is tried again
	Problem   *RoleProblem    `json:"problem,omitempty"`  // the last one; stays after a recovery
	Admission admission.Stats `json:"admission"`
}

// RoleProblem is why a role's engine is, or was, not usable.
type RoleProblem struct {
	Code    string    `json:"code"`
	Message string    `json:"message"` // English; names the remedy where there is one
	At      time.Time `json:"at"`
}

// CodeEngineRemote refuses to steer an engine that others run.
const CodeEngineRemote = "engine_remote"

// away are the states of an engine that does not serve and is not about to.
var away = map[string]Severity{"failed": SeverityError, "refused": SeverityError, "unreachable": SeverityWarning}

// roleProblems tells of roles beside embedding, whose engine has a problem of
// its own, and of a remote one that embeds.
func roleProblems(roles []RoleStatus) []Problem {
	var found []Problem
	for _, r := range roles {
		severity, isAway := away[r.State]
		if !isAway || r.Role == upstream.RoleEmbed && r.Kind == "local" {
			continue
		}
		since := r.Since
		p := Problem{Code: "role_" + r.State, Severity: severity, Since: &since,
			Args: map[string]string{"role": r.Role.String(), "kind": r.Kind, "model": r.Model, "url": r.URL, "detail": ""}}
		if r.Problem != nil {
			p.Args["problem"], p.Args["detail"] = r.Problem.Code, r.Problem.Message
		}
		found = append(found, p)
	}
	return found
}

func (s *Server) roles() []RoleStatus {
	if s.cfg.Roles == nil {
		return []RoleStatus{}
	}
	return s.cfg.Roles()
}
