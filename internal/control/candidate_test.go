package control_test

import (
	"testing"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/engines"
)

// A refusal carries the figures that speak against the candidate.
func TestRefusedPromotion(t *testing.T) {
	p := newParts()
	p.err = &engines.RefusedError{Code: engines.CodeChecks, Message: "the candidate did not pass its checks", Remedy: "see them",
		Args: map[string]string{"failed": "1", "fatal": "false"}, Findings: []engines.Finding{slowFinding}}
	golden(t, "promote_refused", call(setup(t, p, nil), "POST", "engine/promote", "{}"))
	p.err = &engines.RefusedError{Code: engines.CodeImpossible, Message: "no such model", Remedy: "name one"}
	if w := call(setup(t, p, nil), "POST", "engine/rollback", "{}"); w.Code != 400 {
		t.Errorf("what can never be: status %d, %s", w.Code, w.Body)
	}
	for method, path := range map[string]string{"GET": "engine/candidate", "POST": "engine/promote"} {
		body := ""
		if method == "POST" {
			body = "{}"
		}
		w := call(setup(t, newParts(), func(c *control.Config) { c.Candidates = nil }), method, path, body)
		if w.Code != 409 {
			t.Errorf("%s %s without engines of ours: status %d, %s", method, path, w.Code, w.Body)
		}
	}
}
