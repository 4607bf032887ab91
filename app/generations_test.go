package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/indexer"
	"github.com/ondol-app/ondol/internal/search"
)

// passages is how many the index of TestFlagsChanged has at least.
const passages = 5000

// TestFlagsChanged changes a flag that changes the fingerprint, in the settings
// of an app with one engine: the new vectors are made in its place. Search
// answers throughout and says what is missing; the app is killed in the middle
// and goes on; going back embeds nothing.
func TestFlagsChanged(t *testing.T) {
	h := newHome(t)
	folder := filepath.Join(t.TempDir(), "library")
	layLibrary(t, folder)
	set := func(key, value string) {
		t.Helper()
		if code, out, errOut := h.ondol(t, "config", "set", key, value); code != 0 {
			t.Fatalf("config set %s: %s%s", key, out, errOut)
		}
	}
	set("index.chunk_min", "16")
	set("index.chunk_max", "48")
	r := h.serve(t)
	addLibrary(t, h, folder)
	old := generations(t, h)
	if len(old) != 1 || old[0].State != document.Active || old[0].Texts < passages || old[0].Missing() != 0 || old[0].Recipe == "" {
		t.Fatalf("indexed: %+v", old)
	}
	costIsTold(t, h, old[0])

	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	set("engine.flags", "-t 1")
	r = h.serve(t)
	asking := askAlways(t, h, "rebuilding")
	var building indexer.Generation
	within(t, patience, "a part of the new vectors", func() error {
		list := generations(t, h)
		building = list[len(list)-1]
		if len(list) != 2 || building.Embedded < passages/4 {
			return fmt.Errorf("%+v", list)
		}
		return nil
	})
	progressIsShown(t, h)
	r.kill()
	r = h.serve(t)
	stored := generations(t, h)
	if len(stored) != 2 || stored[0].State != document.Active || stored[1].Embedded < building.Embedded {
		t.Errorf("before the kill %+v, after it %+v", building, stored)
	}
	settle(t, h)
	within(t, patience, "the switch", func() error {
		if list := generations(t, h); list[0].State != document.Retired || list[1].State != document.Active || list[1].Missing() != 0 {
			return fmt.Errorf("%+v", list)
		}
		return nil
	})
	// What was embedded between the start and the first look is in both figures.
	if n, most := embedded(t, h), building.Missing(); n == 0 || n > most {
		t.Errorf("%d passages were embedded after the kill, at most %d were missing", n, most)
	}
	within(t, patience, "a reply by all the new vectors", func() error {
		if asking.count("whole") == 0 {
			return errors.New("none")
		}
		return nil
	})
	asking.end()

	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	set("engine.flags", "")
	r = h.serve(t)
	within(t, patience, "the way back", func() error {
		if list := generations(t, h); list[0].State != document.Active || list[1].State != document.Retired {
			return fmt.Errorf("%+v", list)
		}
		return nil
	})
	reply, err := h.client.Search(t.Context(), search.Request{Query: "vehicle maintenance", Explain: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(reply.Degraded) != 0 || !answeredBy(reply, old[0].Fingerprint) {
		t.Errorf("after the way back: %+v", reply)
	}
	if n := embedded(t, h); n != 0 {
		t.Errorf("the way back embedded %d passages", n)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
}

// layLibrary writes a folder of passages texts and one that is searched for.
func layLibrary(t *testing.T, folder string) {
	t.Helper()
	write(t, filepath.Join(folder, "garage.md"), "# Garage\n\nThe automobile repair manual, for every car and truck.\n")
	words := strings.Fields("river mountain harbour winter kitchen teacher engine garden market letter village doctor window summer bridge music")
	for i := range passages / 10 {
		var b strings.Builder
		for j := range 10 {
			fmt.Fprintf(&b, "# Part %d of volume %d\n\n", j, i)
			for k := range 16 {
				b.WriteString(words[(i*7+j*5+k*(1+i%3))%len(words)] + " ")
			}
			b.WriteString("\n\n")
		}
		write(t, filepath.Join(folder, fmt.Sprintf("%04d.md", i)), b.String())
	}
}

func addLibrary(t *testing.T, h *home, folder string) {
	t.Helper()
	if code, out, errOut := h.ondol(t, "folders", "add", folder, "--wait"); code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, errOut)
	}
	settle(t, h)
}

func generations(t *testing.T, h *home) []indexer.Generation {
	t.Helper()
	reply, err := h.client.Generations(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return reply.Generations
}

// costIsTold compares the cost told for vectors like those there are with what
// those are said to take.
func costIsTold(t *testing.T, h *home, have indexer.Generation) {
	t.Helper()
	code, out, errOut := h.ondol(t, "engine", "generations", "--dimension", fmt.Sprint(have.Dim), "--json")
	var reply control.Generations
	if err := json.Unmarshal([]byte(out), &reply); err != nil || code != 0 || reply.Cost == nil {
		t.Fatalf("exit %d: %s%s (%v)", code, out, errOut, err)
	}
	if c := reply.Cost; c.Texts != have.Texts || c.Bytes != have.Bytes || c.Bytes < int64(2*have.Dim)*have.Texts {
		t.Errorf("cost %+v, there is %+v", c, have)
	}
	if _, out, _ := h.ondol(t, "engine", "generations"); !strings.Contains(out, "active") || !strings.Contains(out, "in service") {
		t.Errorf("shown:\n%s", out)
	}
}

func progressIsShown(t *testing.T, h *home) {
	t.Helper()
	_, out, errOut := h.ondol(t, "status")
	for _, want := range []string{"New vectors", " passages", "left"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in the status:\n%s%s", want, out, errOut)
		}
	}
}

// answeredBy reports whether a reply has a result by meaning, and all are by
// vectors of the fingerprint.
func answeredBy(reply search.Reply, fingerprint string) bool {
	near := slices.Concat(reply.Results, reply.NearMisses)
	return len(near) > 0 && near[0].Explain.Cosine != nil &&
		!slices.ContainsFunc(near, func(r search.Result) bool { return r.Explain.Fingerprint != fingerprint })
}

// askers search all the time, through the death of the app as well.
type askers struct {
	mu     sync.Mutex
	counts map[string]int // guarded by mu; of replies, by what they were
	end    func()
}

func (a *askers) count(what string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts[what]
}

func (a *askers) note(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts[what]++
}

// askAlways asks for what shares its words with one document, and fails the
// test when a reply is without that, or without the semantic side and the
// notice of it, or of two generations. An app that does not answer is asked
// again. In the end there must have been some of the kind.
func askAlways(t *testing.T, h *home, kind string) *askers {
	ctx, stop := context.WithCancel(context.Background())
	a := &askers{counts: make(map[string]int)}
	client := control.NewClient(h.socket)
	var all sync.WaitGroup
	all.Go(func() {
		for ctx.Err() == nil {
			reply, err := client.Search(ctx, search.Request{Query: "automobile repair manual", Explain: true})
			switch {
			case err == nil:
				a.note(kindOf(t, reply))
			case ctx.Err() == nil && !errors.Is(err, control.ErrNotRunning):
				a.note("cut off") // in the moment of the kill
			}
			select {
			case <-ctx.Done():
			case <-time.After(30 * time.Millisecond):
			}
		}
	})
	a.end = sync.OnceFunc(func() {
		stop()
		all.Wait()
		client.Close()
		t.Logf("searches: %v", a.counts)
		if a.counts[kind] == 0 || a.counts["cut off"] > 2 {
			t.Errorf("searches: %v", a.counts)
		}
	})
	t.Cleanup(a.end)
	return a
}

// kindOf says by what a reply was made, and fails the test when it is not
// honest about that.
func kindOf(t *testing.T, reply search.Reply) string {
	if len(reply.Results) == 0 || filepath.Base(reply.Results[0].Path) != "garage.md" {
		t.Errorf("search does not find its words: %+v", reply)
		return "wrong"
	}
	by := reply.Results[0].Explain.Fingerprint
	for _, r := range slices.Concat(reply.Results, reply.NearMisses) {
		if r.Explain.Fingerprint != by {
			t.Errorf("one reply is of %q and of %q", by, r.Explain.Fingerprint)
		}
	}
	said := slices.ContainsFunc(reply.Degraded, func(d search.Degradation) bool {
		return d == search.EngineUnavailable || d == search.EngineTimeout
	})
	switch rebuilding := slices.Contains(reply.Degraded, search.Rebuilding); {
	case said && by == "":
		return "words alone"
	case rebuilding && by != "" && reply.Index.Rebuilding.Embedded < reply.Index.Rebuilding.Texts:
		return "rebuilding"
	case !rebuilding && !said && answeredBy(reply, by):
		return "whole"
	}
	t.Errorf("a reply does not say what it lacks: %v, by %q, %+v", reply.Degraded, by, reply.Results[0].Explain)
	return "wrong"
}
