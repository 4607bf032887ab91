package control

import (
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/trust"
)

// validity is what the door counted and what the engine's checks found.
func (s *Server) validity(engine llamaserver.Status) Validity {
	v := s.cfg.Validity()
	v.Canary, v.OneAtATime = engine.Canary, engine.OneAtATime
	return v
}

// trustProblems are those of an engine that runs.
func trustProblems(v Validity) []Problem {
	var found []Problem
	if one := v.OneAtATime; one != nil {
		found = append(found, Problem{Code: "one_at_a_time", Severity: SeverityWarning, Since: &one.Since,
			Args: map[string]string{"text": one.Text, "detail": one.Detail}})
	}
	if v.Quarantined > 0 {
		found = append(found, Problem{Code: "quarantine", Severity: SeverityWarning, Args: map[string]string{"count": strconv.Itoa(v.Quarantined)}})
	}
	return found
}

func (s *Server) quarantine(r *http.Request) (any, error) {
	if _, err := params(r); err != nil {
		return nil, err
	}
	list, err := s.cfg.Trust.Quarantined(r.Context())
	if err != nil {
		return nil, err
	}
	return Quarantine{Quarantined: append([]trust.Quarantined{}, list...)}, nil
}

func (s *Server) liftQuarantine(r *http.Request) (any, error) {
	values, err := params(r, "sha256")
	if err == nil {
		err = noBody(r)
	}
	if err != nil {
		return nil, err
	}
	hash, given := values["sha256"]
	if given {
		if _, err := trust.ParseHash(hash); err != nil {
			return nil, invalid("sha256", "is no SHA-256 in hex", "take it from `ondol engine quarantine list`, or send none for all")
		}
	}
	lifted, err := s.cfg.Trust.LiftQuarantine(r.Context(), hash)
	if err != nil {
		return nil, err
	}
	if lifted == 0 && given {
		return nil, &Error{Status: http.StatusNotFound, Code: CodeNotFound, Message: "nothing of this SHA-256 is in quarantine",
			Remedy: "`ondol engine quarantine list` shows what is"}
	}
	return Lifted{Lifted: lifted}, nil
}

func (s *Server) engineReport(r *http.Request) (any, error) {
	if _, err := params(r); err != nil {
		return nil, err
	}
	evidence, err := s.cfg.Trust.Evidence(r.Context())
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	list, err := s.cfg.Trust.Quarantined(r.Context())
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	engine := s.cfg.Engine.Snapshot()
	engine.LastError = scrubbed(engine.LastError)
	return Report{
		At: time.Now().UTC(), Version: s.cfg.Version, System: runtime.GOOS + "/" + runtime.GOARCH,
		Engine: engine, Validity: s.validity(engine), Admission: s.cfg.Gate.Stats(),
		Quarantined: append([]trust.Quarantined{}, list...), Evidence: append([]trust.Evidence{}, evidence...),
	}, nil
}

// scrubbed is a problem for eyes that are not the owner's. Its log stands,
// scrubbed, in the evidence.
func scrubbed(p *llamaserver.Problem) *llamaserver.Problem {
	if p == nil {
		return nil
	}
	clean := *p
	clean.Message, clean.Log = llamaserver.Scrub(p.Message), nil
	return &clean
}
