package app_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ondol-app/ondol/internal/engines"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/llamaserver/fakellama"
	"github.com/ondol-app/ondol/internal/process"
)

// shows runs a command and checks its exit code and what it shows.
func (h *home) shows(t *testing.T, code int, want string, args ...string) string {
	t.Helper()
	got, out, errOut := h.ondol(t, args...)
	if got != code || !strings.Contains(out+errOut, want) {
		t.Fatalf("ondol %s: exit %d, want %d; no %q in\n%s%s", strings.Join(args, " "), got, code, want, out, errOut)
	}
	return out + errOut
}

// A person tries a candidate, reads its verdict, promotes it, and has the
// earlier engine back, by commands alone.
func TestCandidateByCommands(t *testing.T) {
	h := newPromoteHome(t)
	// How fast an engine is on a machine where tests run says nothing.
	h.shows(t, 0, "", "config", "set", "engine.candidate_slower_limit", "1000")
	r := h.serve(t)
	folder := filepath.Join(t.TempDir(), "library")
	write(t, filepath.Join(folder, "garage.md"), "# Garage\n\nThe automobile repair manual, for every car and truck.\n")
	addLibrary(t, h, folder)
	before := h.waitReady(t, r)

	h.shows(t, 0, "No candidate yet", "engine", "candidate", "status")
	h.shows(t, 1, "no candidate that could be promoted", "engine", "promote")
	h.shows(t, 1, "no earlier engine to go back to: one is kept for 7 days", "engine", "rollback")
	h.shows(t, 2, "--host is set by Ondol itself", "engine", "candidate", "--flag", "--host x")
	h.shows(t, 2, "/none.gguf does not exist", "engine", "candidate", "--model", "/none.gguf")
	h.shows(t, 1, "No model here is called nothing", "engine", "candidate", "--model", "nothing")
	h.shows(t, 2, `Did you mean "status"?`, "engine", "candidate", "statos")

	text := h.shows(t, 0, "passed every check", "engine", "candidate", "--flag", "-ub 4096", "--quick")
	for _, want := range []string{"-ub 4096", "on trial", "1 passages will take", "FIGURE", "IN SERVICE", "Tokens/s", "vectors alike", "rank correlation", "To put it into service: ondol engine promote"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	h.shows(t, 1, "under way with another engine (judged)", "engine", "candidate", "--quick")
	h.env = append(h.env, "ONDOL_LANG=ko")
	h.shows(t, 1, "아직 끝나지 않았습니다 (판정함)", "engine", "candidate", "--quick")
	h.shows(t, 0, "모든 검사 통과", "engine", "candidate", "status")
	h.env = h.env[:len(h.env)-1]

	h.shows(t, 0, "is in service, and set for the next start", "engine", "promote")
	promoted := h.waitReady(t, r)
	if promoted.Fingerprint == before.Fingerprint || !strings.Contains(h.shows(t, 0, "", "config", "get", "engine.flags"), "4096") {
		t.Errorf("promoted: %s, flags %v", promoted.Fingerprint, promoted.Flags)
	}
	list := generations(t, h)
	if len(list) != 2 || !strings.Contains(list[1].Recipe, "4096") || strings.Contains(list[0].Recipe, "4096") || list[1].Fingerprint != promoted.Fingerprint {
		t.Errorf("recipes: %+v", list)
	}
	h.shows(t, 0, "Rollback", "engine", "candidate", "status")
	vectors := embedded(t, h)
	h.shows(t, 0, "is in service. The earlier engine is kept warm until", "engine", "rollback")
	back := h.waitReady(t, r)
	h.candidate(t, engines.Proved)
	if back.Fingerprint != before.Fingerprint || embedded(t, h) != vectors {
		t.Errorf("rolled back to %s, %d passages embedded, before %d", back.Fingerprint, embedded(t, h), vectors)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	h.shows(t, 4, "not running", "engine", "candidate")
}

// A candidate with wrong vectors, or slower than it may be, is refused, and the
// engine in service is not touched: the same process answers every request.
func TestBadCandidateByCommands(t *testing.T) {
	c := newClinic(t, fakellama.Faults{}, "engine.probation", "2s").start()
	for _, tt := range []struct {
		name   string
		faults fakellama.Faults
		says   string // of the check, or of the problem
		force  string
	}{
		{"wrong dimension", fakellama.Faults{Vectors: fakellama.Short}, "not passed", "force does not help"},
		{"NaN", fakellama.Faults{Vectors: fakellama.NaN}, "failed", "no candidate"},
		{"null", fakellama.Faults{Vectors: fakellama.Null}, "failed", "no candidate"},
		{"zero", fakellama.Faults{Vectors: fakellama.Zero}, "failed", "no candidate"},
		{"NaN when two run at once", fakellama.Faults{Overlap: true, DelayMS: 20}, "not passed", ""},
		{"exits at load", fakellama.Faults{ExitAtLoad: true}, "failed", "no candidate"},
		{"slower than the limit", fakellama.Faults{DelayMS: 200}, "not passed", ""},
	} {
		part(t, tt.name, func(t *testing.T) {
			other := fakellama.Install(t, tt.faults)
			stop, ended := make(chan struct{}), make(chan int)
			go func() {
				n := 0
				for ; ; n++ {
					select {
					case <-stop:
						ended <- n
						return
					default:
						c.served(fmt.Sprintf("%s, request %d", tt.name, n))
					}
				}
			}()
			out := c.shows(t, 1, tt.says, "engine", "candidate", "--server", other.Path, "--quick")
			refused := c.shows(t, 1, "", "engine", "promote")
			if tt.force != "" {
				c.shows(t, 1, tt.force, "engine", "promote", "--force")
			}
			if strings.Contains(out, "To end it") {
				c.shows(t, 0, "has ended", "engine", "candidate", "stop")
			}
			close(stop)
			if n := <-ended; n == 0 {
				t.Error("nobody was served")
			}
			now := c.status().Engine
			if now.PID != c.before.PID || now.Generation != c.before.Generation || now.State != llamaserver.Ready {
				t.Errorf("the engine in service was touched: %+v", now)
			}
			state, err := c.client.Candidate(t.Context())
			if err != nil || state.Candidate.Engine != nil && state.Candidate.Engine.PID > 0 && process.Identify(state.Candidate.Engine.PID).Alive() {
				t.Errorf("the candidate is still there: %v", err)
			}
			t.Logf("%s%s", told(state.Candidate.Verdict), refused)
		})
	}
	// The refusal has its figures for a program as well.
	other := fakellama.Install(t, fakellama.Faults{DelayMS: 200})
	c.shows(t, 1, "", "engine", "candidate", "--server", other.Path, "--quick")
	code, out, _ := c.ondol(t, "engine", "promote", "--json")
	var refusal struct {
		Error struct {
			Code     string
			Findings []engines.Finding
		}
	}
	if err := json.Unmarshal([]byte(out), &refusal); err != nil || code != 1 || refusal.Error.Code != engines.CodeChecks || len(refusal.Error.Findings) != 1 || refusal.Error.Findings[0].Check != engines.CheckSpeed {
		t.Errorf("exit %d, %s, %v", code, out, err)
	}
	c.shows(t, 0, "is in service, and set", "engine", "promote", "--force")
}
