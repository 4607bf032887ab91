package app_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/engines"
	"github.com/ondol-app/ondol/internal/enginetest"
	"github.com/ondol-app/ondol/internal/indexer"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/llamaserver/fakellama"
	"github.com/ondol-app/ondol/internal/process"
	"github.com/ondol-app/ondol/internal/search"
)

// otherStarter is the starter model under another name within the file: other
// bytes, so another model to everybody, of the same speed.
func otherStarter(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(enginetest.StarterModel(t))
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(raw, []byte("general.name"))
	if at < 0 {
		t.Fatal("the starter model has no name")
	}
	raw[at+len("general.name")+12] ^= 0x20 // behind type and length: a letter's case
	path := filepath.Join(t.TempDir(), "other-starter.gguf")
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestModelSwitch exchanges the model of an index by one command: the old one
// serves until the new one's vectors are whole, the app is killed on the way
// and loses nothing, and the way back embeds nothing.
func TestModelSwitch(t *testing.T) {
	h := newPromoteHome(t)
	other := otherStarter(t)
	h.env = without(h.env, "ONDOL_MODEL")
	for _, pair := range [][2]string{{"engine.model", enginetest.StarterModel(t)}, {"index.chunk_min", "16"}, {"index.chunk_max", "48"}} {
		h.shows(t, 0, "", "config", "set", pair[0], pair[1])
	}
	folder := filepath.Join(t.TempDir(), "library")
	layLibrary(t, folder)
	r := h.serve(t)
	addLibrary(t, h, folder)
	before := h.waitReady(t, r)
	asking := askAlways(t, h, "whole")

	use := h.start(t, "models", "use", other, "--quick", "--profile", "starter")
	var half indexer.Generation
	within(t, patience, "a part of the new vectors", func() error {
		list := generations(t, h)
		half = list[len(list)-1]
		if len(list) != 2 || half.Place != indexer.Candidate || half.Embedded < passages/4 {
			return fmt.Errorf("%+v", list)
		}
		return nil
	})
	h.shows(t, 0, "filling the index", "engine", "candidate", "status")
	candidate := process.Identify(besides(t, h))
	r.kill()
	<-use.done
	if use.cmd.ProcessState.ExitCode() == 0 || !strings.Contains(use.out.String(), "passages will take") {
		t.Errorf("the command ended with %d:\n%s", use.cmd.ProcessState.ExitCode(), use.out.String())
	}

	r = h.serve(t)
	gone(t, patience, candidate)
	if now := h.waitReady(t, r); now.Fingerprint != before.Fingerprint {
		t.Errorf("after the kill %s serves, before %s", now.Fingerprint, before.Fingerprint)
	}
	stored := generations(t, h)
	if len(stored) != 2 || stored[0].State != document.Active || stored[0].Missing() != 0 || stored[1].State != document.Building || stored[1].Embedded < half.Embedded {
		t.Errorf("half %+v, after the kill %+v", half, stored)
	}
	h.shows(t, 0, "is in service, and set for the next start", "models", "use", other, "--quick", "--profile", "starter")
	list := generations(t, h)
	if list[0].State != document.Retired || list[1].State != document.Active || list[1].Missing() != 0 || list[1].Vectors != list[1].Texts {
		t.Errorf("switched: %+v", list)
	}
	if counts := counts(t, h); counts.Pending != 0 || embedded(t, h) != 0 {
		t.Errorf("after the switch %+v, %d passages were embedded with the documents", counts, embedded(t, h))
	}
	asking.end()
	if asking.count("rebuilding") != 0 {
		t.Errorf("search was short of vectors: %v", asking.counts)
	}
	h.shows(t, 0, "runs it already", "models", "use", other, "--profile", "starter")

	began := time.Now()
	h.shows(t, 0, "is in service", "engine", "rollback")
	t.Logf("the way back took %v", time.Since(began))
	reply, err := h.client.Search(t.Context(), search.Request{Query: "vehicle maintenance", Explain: true})
	if err != nil || len(reply.Degraded) != 0 || !answeredBy(reply, before.Fingerprint) || embedded(t, h) != 0 {
		t.Errorf("rolled back: %+v, %v, %d embedded", reply, err, embedded(t, h))
	}
	h.candidate(t, engines.Proved)
	if text := h.shows(t, 0, "", "config", "get", "engine.model"); !strings.Contains(text, enginetest.StarterModel(t)) {
		t.Errorf("set is %s", text)
	}
}

// besides is the process of the engine beside the one in service.
func besides(t *testing.T, h *home) int {
	t.Helper()
	state, err := h.client.Candidate(t.Context())
	if err != nil || state.Candidate == nil || state.Candidate.Engine == nil || state.Candidate.Engine.PID == 0 {
		t.Fatalf("no engine beside: %+v, %v", state, err)
	}
	return state.Candidate.Engine.PID
}

func (c *clinic) phase(want engines.Phase) engines.State {
	c.t.Helper()
	var state engines.State
	within(c.t, patience, "phase "+want.String(), func() (err error) {
		if state, err = c.client.Candidate(c.t.Context()); err == nil && state.Phase != want {
			err = fmt.Errorf("phase %s, %+v", state.Phase, state.Candidate)
		}
		return err
	})
	return state
}

// library gives the app a folder with so many documents.
func (c *clinic) library(n int) (folder string) {
	folder = filepath.Join(c.t.TempDir(), "library")
	for i := range n {
		write(c.t, filepath.Join(folder, fmt.Sprintf("%d.md", i)), fmt.Sprintf("document number %d of the library\n", i))
	}
	return folder
}

// Killed on trial, while the index is filled, or on probation, the app starts
// with the engine it is known to work with, and no other is left.
func TestKilledWithACandidate(t *testing.T) {
	c := newClinic(t, fakellama.Faults{}, "engine.probation", "1h", "engine.candidate_slower_limit", "1000", "admission.background", "0").start()
	if code, out, errOut := c.ondol(t, "folders", "add", c.library(5)); code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, errOut)
	}
	within(t, patience, "passages", func() error {
		if list := generations(t, c.home); len(list) != 1 || list[0].Texts != 5 {
			return fmt.Errorf("%+v", list)
		}
		return nil
	})
	settings, err := os.ReadFile(filepath.Join(c.dir, "settings.toml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		phase   engines.Phase
		delay   int
		outcome engines.Outcome
		promote *engines.Promotion
	}{
		{engines.Checking, 500, engines.Dropped, nil},
		{engines.Filling, 0, engines.Passed, &engines.Promotion{}},
		{engines.Probation, 0, engines.RolledBack, &engines.Promotion{Now: true}},
	} {
		part(t, tt.phase.String(), func(t *testing.T) {
			other := fakellama.Install(t, fakellama.Faults{DelayMS: tt.delay})
			if _, err := c.client.TryCandidate(t.Context(), engines.Order{Server: other.Path, Flags: []string{"-t", "2"}, Quick: true, Promote: tt.promote}); err != nil {
				t.Fatal(err)
			}
			state := c.phase(tt.phase)
			if tt.phase == engines.Filling {
				within(t, patience, "the reason", func() error {
					if _, out, _ := c.ondol(t, "engine", "candidate", "status"); !strings.Contains(out, "admission.background is 0") {
						return fmt.Errorf("shown:\n%s", out)
					}
					return nil
				})
			}
			ids := []process.Identity{process.Identify(c.status().Engine.PID), process.Identify(state.Candidate.Engine.PID)}
			c.app.kill()
			c.start()
			for _, id := range ids {
				gone(t, patience, id)
			}
			after, err := c.client.Candidate(t.Context())
			if err != nil || after.Phase != engines.Idle || after.Candidate.Outcome != tt.outcome || after.Live.Server != c.fake.Path {
				t.Errorf("after the kill: %+v, %+v, %v", after, after.Candidate, err)
			}
			now, err := os.ReadFile(filepath.Join(c.dir, "settings.toml"))
			if err != nil || !bytes.Equal(now, settings) {
				t.Errorf("the settings were %s\nand are %s", settings, now)
			}
			if list := generations(t, c.home); list[0].State != document.Active || list[0].Place != indexer.InService {
				t.Errorf("generations %+v", list)
			}
			c.served("after a kill " + tt.phase.String())
		})
	}
	// What the filling waits for can be had without another start.
	if _, err := c.client.TryCandidate(t.Context(), engines.Order{Flags: []string{"-t", "3"}, Quick: true, Promote: &engines.Promotion{}}); err != nil {
		t.Fatal(err)
	}
	c.phase(engines.Filling)
	c.shows(t, 0, "", "config", "set", "admission.background", "1")
	c.phase(engines.Probation)
	within(t, patience, "the index to follow the switch", func() error {
		list := generations(t, c.home)
		if last := list[len(list)-1]; last.State != document.Active || last.Missing() != 0 {
			return fmt.Errorf("%+v", list)
		}
		return nil
	})
	c.shows(t, 0, "The earlier engine is in service again", "engine", "rollback")
}

// kinds are the kinds of the events since, with what was missing where a
// generation came into use.
func (c *clinic) kinds(since uint64) []string {
	var list []string
	for _, e := range c.events(c.t, "--since", fmt.Sprint(since)) {
		text := e.Kind.String()
		if missing := e.Args["missing"]; missing != "" {
			text += " " + missing
		}
		list = append(list, text)
	}
	return list
}

// In the place of the engine in service too the index is filled before the
// switch; and one that was whole once is filled up before it serves again.
func TestFilledBeforeTheSwitch(t *testing.T) {
	c := newClinic(t, fakellama.Faults{}, "engine.probation", "1s", "engine.candidate_slower_limit", "1000").start()
	folder := c.library(20)
	addLibrary(t, c.home, folder)
	first := c.status().Engine.Fingerprint
	follows := func(kinds []string, one, two string) {
		t.Helper()
		i, j := slices.Index(kinds, one), slices.Index(kinds, two)
		if i < 0 || j < i {
			t.Errorf("no %q before %q among %v", one, two, kinds)
		}
	}
	seq := c.status().Seq
	out := c.shows(t, 0, "is in service, and set", "engine", "candidate", "--flag", "-t 2", "--in-place", "--quick", "--promote")
	kinds := c.kinds(seq)
	follows(kinds, "generation.ready", engines.KindPromoted.String())
	follows(kinds, "generation.ready", "generation.active 0")
	c.settle()
	if list := generations(t, c.home); len(list) != 2 || list[1].State != document.Active || list[1].Missing() != 0 || c.before.Fingerprint == first || c.before.State != llamaserver.Ready {
		t.Errorf("in place: %+v\n%s", list, out)
	}

	write(t, filepath.Join(folder, "late.md"), "written for the second engine alone\n")
	within(t, patience, "the late document", func() error {
		if list := generations(t, c.home); list[1].Embedded != 21 || list[0].Missing() != 1 {
			return fmt.Errorf("%+v", list)
		}
		return nil
	})
	seq = c.status().Seq
	c.shows(t, 0, "is in service, and set", "engine", "candidate", "--clear-flags", "--quick", "--promote")
	follows(c.kinds(seq), "candidate.checked", "generation.rolled_back 0")
	if list := generations(t, c.home); list[0].State != document.Active || list[0].Missing() != 0 || list[0].Fingerprint != first {
		t.Errorf("back to the first: %+v", list)
	}
}
