package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/models/catalog"
	"github.com/ondol-app/ondol/internal/models/hub"
	"github.com/ondol-app/ondol/internal/models/pull"
)

// pulls is a Puller of one pull that remembers what it was asked.
type pulls struct{ *parts }

var onePull = pull.Pull{ID: 3, Model: "bge-m3", State: pull.Downloading, Path: "/models/a/b.gguf", Done: 10, Total: 40, Rate: 5, Left: 6,
	Repo: "a", File: "b.gguf", Revision: "r", SHA256: "s", HashFrom: pull.FromCatalogue, Licence: "MIT", Added: day, Changed: day}

func (p pulls) Catalogue() []catalog.Model { return catalog.Models()[:1] }
func (p pulls) List() []pull.Pull          { return []pull.Pull{onePull} }
func (p pulls) Pull(_ context.Context, r pull.Request) (pull.Pull, error) {
	return onePull, p.note("pull %s %s %v", r.Model, r.AcceptLicence, r.Unverified)
}
func (p pulls) Pause(_ context.Context, id int64) (pull.Pull, error) {
	return onePull, p.note("pause %d", id)
}
func (p pulls) Resume(_ context.Context, id int64) (pull.Pull, error) {
	return onePull, p.note("resume %d", id)
}
func (p pulls) Remove(_ context.Context, id int64) error { return p.note("remove %d", id) }

func withPulls(t *testing.T, p *parts) *control.Server {
	return setup(t, p, func(c *control.Config) { c.Pulls = pulls{p} })
}

func TestPullRoutes(t *testing.T) {
	tests := []struct {
		name, method, path, body string
		status                   int
		asked                    string
	}{
		{"models_catalog", "GET", "models/catalog", "", 200, ""},
		{"models_pulls", "GET", "models/pulls", "", 200, ""},
		{"models_pull", "POST", "models/pull", `{"model":"bge-m3","accept_licence":"MIT","unverified":true}`, 200, "pull bge-m3 MIT true"},
		{"models_pull_pause", "POST", "models/pulls/3/pause", "", 200, "pause 3"},
		{"models_pull_resume", "POST", "models/pulls/3/resume", "", 200, "resume 3"},
		{"models_pull_remove", "DELETE", "models/pulls/3", "", 204, "remove 3"},
		{"refused_pull_field", "POST", "models/pull", `{"name":"bge-m3"}`, 400, ""},
		{"refused_pull_empty", "POST", "models/pull", `{}`, 400, ""},
		{"refused_pull_id", "POST", "models/pulls/x/pause", "", 400, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newParts()
			w := call(withPulls(t, p), tt.method, tt.path, tt.body)
			if got := strings.Join(p.asked, ", "); w.Code != tt.status || got != tt.asked {
				t.Errorf("%d after %q: %s", w.Code, got, w.Body)
			}
			golden(t, tt.name, w)
		})
	}
	if w := call(setup(t, newParts(), nil), "GET", "models/pulls", ""); w.Code != 404 {
		t.Errorf("without pulls: %d", w.Code)
	}
}

func TestErrorsOfPulls(t *testing.T) {
	tests := []struct {
		err    error
		status int
		code   string
		args   string // one name that must have a value
	}{
		{&catalog.ReferenceError{Text: "x", Code: "unknown"}, 400, "unknown_model", "text"},
		{&catalog.ReferenceError{Text: "x", Code: "unknown", Nearest: "y"}, 400, "unknown_model", "nearest"},
		{&pull.LicenceError{Model: "m", Licence: "MIT", URL: "u", Page: "p", Size: 5}, 409, "licence_required", "licence"},
		{&pull.NoHashError{Model: "m", Page: "p"}, 409, "no_hash", "model"},
		{&hub.AccessError{Repo: "r", Page: "p"}, 403, "hub_access", "page"},
		{&hub.NotFoundError{Repo: "r", File: "f"}, 404, "hub_not_found", "file"},
		{&hub.UnreachableError{Host: "h", Err: errors.New("cut")}, 502, "hub_unreachable", "detail"},
		{pull.ErrNotFound, 404, "not_found", "kind"},
		{pull.ErrClosed, 503, "stopping", ""},
		{errors.New("disk is full"), 500, "internal_error", ""},
	}
	for _, tt := range tests {
		p := newParts()
		p.err = tt.err
		for path, body := range map[string]string{"models/pull": `{"model":"m"}`, "models/pulls/3/resume": ""} {
			w := call(withPulls(t, p), "POST", path, body)
			var got struct{ Error control.Error }
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatalf("%q: %v", w.Body, err)
			}
			if w.Code != tt.status || got.Error.Code != tt.code || (tt.args != "" && got.Error.Args[tt.args] == "") {
				t.Errorf("%v: %d %s %v", tt.err, w.Code, got.Error.Code, got.Error.Args)
			}
		}
	}
}
