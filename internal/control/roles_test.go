package control_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/upstream"
)

func TestStatusTellsOfEveryRole(t *testing.T) {
	busy := newParts().Stats()
	busy.Executing, busy.Draining = 1, 2
	roles := []control.RoleStatus{
		{Role: upstream.RoleEmbed, Kind: "local", State: "failed", Since: day, Model: "starter"},
		{Role: upstream.RoleRerank, Kind: "openai", State: "unreachable", Since: day, Model: "bge", URL: "http://10.0.0.2/v1", Outside: true, Plain: true,
			RetryAt: &day, Problem: &control.RoleProblem{Code: "timeout", Message: "no answer", At: day}},
		{Role: upstream.RoleChat, Kind: "local", State: "ready", Since: day, Model: "talker", Admission: busy},
	}
	s := setup(t, newParts(), func(c *control.Config) { c.Roles = func() []control.RoleStatus { return roles } })
	w := call(s, "GET", "status", "")
	var status control.Status
	if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	for i := range roles {
		if roles[i].Admission.Totals == nil { // what an empty histogram becomes is admission's business
			roles[i].Admission, status.Roles[i].Admission = admission.Stats{}, admission.Stats{}
		}
	}
	if diff := cmp.Diff(roles, status.Roles); diff != "" {
		t.Errorf("roles (-want +got):\n%s", diff)
	}
	want := []control.Problem{{Code: "role_unreachable", Severity: control.SeverityWarning, Since: &day, Args: map[string]string{
		"role": "rerank", "kind": "openai", "model": "bge", "url": "http://10.0.0.2/v1", "problem": "timeout", "detail": "no answer"}}}
	if diff := cmp.Diff(want, status.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
