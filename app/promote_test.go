package app_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ondol-app/ondol/internal/engines"
	"github.com/ondol-app/ondol/internal/enginetest"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/process"
)

const (
	crowdClients  = 50
	crowdRequests = 8 // of each client, one after another
)

// crowd is many clients that each ask for texts nobody else asks for.
type crowd struct {
	url  string
	name string // of this crowd: its texts are its own

	mu      sync.Mutex
	answers []crowdAnswer // guarded by mu
	served  atomic.Int64
}

type crowdAnswer struct {
	text, fingerprint string
	vector            []float32
}

// run has every client make its requests; promote is called once a third of
// them was served, while the others go on.
func (c *crowd) run(t *testing.T, promote func()) {
	t.Helper()
	var clients sync.WaitGroup
	third := make(chan struct{})
	for i := range crowdClients {
		clients.Go(func() {
			for j := range crowdRequests {
				text := fmt.Sprintf("%s client %d asks for number %d in the garden of words", c.name, i, j)
				if err := c.ask(t, text); err != nil {
					t.Errorf("%q: %v", text, err)
				}
				if c.served.Add(1) == crowdClients*crowdRequests/3 {
					close(third)
				}
			}
		})
	}
	<-third
	promote()
	clients.Wait()
}

func (c *crowd) ask(t *testing.T, text string) error {
	body, err := json.Marshal(map[string]any{"input": text, "encoding_format": "base64"})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, raw)
	}
	var reply struct {
		Data []struct{ Embedding []byte } // base64 in JSON
	}
	if err := json.Unmarshal(raw, &reply); err != nil || len(reply.Data) != 1 {
		return fmt.Errorf("%d vectors: %w", len(reply.Data), err)
	}
	a := crowdAnswer{text: text, fingerprint: resp.Header.Get("x-ondol-fingerprint")}
	for bits := range slices.Chunk(reply.Data[0].Embedding, 4) {
		a.vector = append(a.vector, math.Float32frombits(binary.LittleEndian.Uint32(bits)))
	}
	c.mu.Lock()
	c.answers = append(c.answers, a)
	c.mu.Unlock()
	return nil
}

// tasks counts in the logs of both places what the engines have begun to
// compute. A log gathers for a moment before it is written, so it is looked at
// until nothing has come for many times as long.
func (h *home) tasks(t *testing.T) int {
	t.Helper()
	n, same := -1, 0
	within(t, patience, "engines at rest", func() error {
		now := h.logged(t)
		if same++; now != n {
			n, same = now, 0
		}
		if same < 20 { // looks, 25 ms apart
			return fmt.Errorf("%d texts so far", n)
		}
		return nil
	})
	return n
}

func (h *home) logged(t *testing.T) int {
	t.Helper()
	n := 0
	for _, dir := range []string{"logs", "logs/second"} {
		log, err := os.ReadFile(filepath.Join(h.dir, dir, "llama-server.log"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		n += bytes.Count(log, []byte("processing task"))
	}
	return n
}

// candidate waits until the candidate has the outcome and all is at rest.
func (h *home) candidate(t *testing.T, want engines.Outcome) engines.State {
	t.Helper()
	var state engines.State
	within(t, patience, "a candidate that is "+want.String(), func() error {
		var err error
		if state, err = h.client.Candidate(t.Context()); err != nil {
			return err
		}
		if state.Candidate == nil || state.Candidate.Outcome != want || state.Phase != engines.Idle {
			text, _ := json.Marshal(state.Candidate)
			return fmt.Errorf("phase %s, candidate %s", state.Phase, text)
		}
		return nil
	})
	return state
}

// verdict waits until the candidate was judged.
func (h *home) verdict(t *testing.T) engines.State {
	t.Helper()
	var state engines.State
	within(t, patience, "a verdict", func() error {
		var err error
		if state, err = h.client.Candidate(t.Context()); err != nil {
			return err
		}
		if c := state.Candidate; c == nil || c.Verdict == nil || state.Phase != engines.Checked {
			text, _ := json.Marshal(c)
			return fmt.Errorf("phase %s, candidate %s", state.Phase, text)
		}
		return nil
	})
	return state
}

func newPromoteHome(t *testing.T) *home {
	h := newHome(t)
	if code, out, errOut := h.ondol(t, "config", "set", "engine.probation", "2s"); code != 0 {
		t.Fatalf("config set: exit %d, %s%s", code, out, errOut)
	}
	return h
}

// Fifty clients notice nothing of two promotions but the fingerprint: every
// request is answered once, by the engine that the answer names.
func TestPromoteUnderLoad(t *testing.T) {
	h := newPromoteHome(t)
	r := h.serve(t)
	status, err := h.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	profile, err := llamaserver.ProfileByName("starter")
	if err != nil {
		t.Fatal(err)
	}
	flags := map[string][]string{status.Engine.Fingerprint: profile.Flags}
	var answers []crowdAnswer
	for _, step := range []struct {
		name  string
		added []string
		alike bool // the same numbers under another fingerprint; else the verdict is against it
	}{
		{"one", []string{"-ub", "4096"}, true},
		{"two", []string{"--pooling", "mean"}, false},
	} {
		before := h.waitReady(t, r)
		old := process.Identify(before.PID)
		if _, err := h.client.TryCandidate(t.Context(), engines.Order{Flags: step.added, Quick: true}); err != nil {
			t.Fatal(err)
		}
		state := h.verdict(t)
		t.Logf("verdict on %v: %+v", step.added, told(state.Candidate.Verdict))
		for _, f := range state.Candidate.Verdict.Findings {
			// How fast it is on a machine where tests run says nothing.
			if f.Check != engines.CheckSpeed && !f.Pass && (step.alike || f.Fatal) {
				t.Errorf("%s: %s does not pass", step.name, f.Check)
			}
		}
		fingerprint := state.Candidate.Verdict.Candidate.Fingerprint
		flags[fingerprint] = append(slices.Clone(profile.Flags), state.Candidate.Setup.Flags...)

		tasks := h.tasks(t)
		c := &crowd{url: status.Endpoint + "/embeddings", name: step.name}
		c.run(t, func() {
			if _, err := h.client.Promote(t.Context(), engines.Promotion{Force: true}); err != nil {
				t.Errorf("promote: %v", err)
			}
		})
		h.candidate(t, engines.Proved)
		gone(t, patience, old)
		if n := h.tasks(t) - tasks; n != crowdClients*crowdRequests {
			t.Errorf("%s: the engines computed %d texts, want %d", step.name, n, crowdClients*crowdRequests)
		}
		now := h.waitReady(t, r)
		if now.Fingerprint != fingerprint || now.PID == before.PID || now.Generation <= before.Generation {
			t.Errorf("%s: live is process %d, start %d, before %d, start %d", step.name, now.PID, now.Generation, before.PID, before.Generation)
		}
		byKind := map[string]int{}
		for _, a := range c.answers {
			byKind[a.fingerprint]++
		}
		if byKind[before.Fingerprint] == 0 || byKind[fingerprint] == 0 || len(byKind) != 2 || len(c.answers) != crowdClients*crowdRequests {
			t.Errorf("%s: answers by fingerprint: %v", step.name, byKind)
		}
		answers = append(answers, c.answers...)
	}
	after, err := h.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a := after.Admission; a.Executing+a.Draining+a.Waiting != 0 || a.Totals["served"] != uint64(len(answers)) {
		t.Errorf("the gate at the end: %+v", a)
	}
	checkAnswers(t, flags, answers)
}

// checkAnswers compares every answer with what an engine of its fingerprint
// gives when it is asked by itself.
func checkAnswers(t *testing.T, flags map[string][]string, answers []crowdAnswer) {
	t.Helper()
	direct := map[string]engine{}
	for fingerprint, list := range flags {
		direct[fingerprint] = startEngine(t, enginetest.StarterModel(t), list)
	}
	worst, nearest := 0.0, 1.0
	for i, a := range answers {
		e, ok := direct[a.fingerprint]
		if !ok {
			t.Fatalf("an answer of unknown fingerprint %q", a.fingerprint)
		}
		off := apart(t, e, a)
		worst = max(worst, off)
		if off > 1e-5 {
			t.Errorf("%q: differs by %g from an engine of %s", a.text, off, a.fingerprint)
		}
		for other, engine := range direct {
			if i%20 == 0 && slices.Contains(flags[other], "mean") != slices.Contains(flags[a.fingerprint], "mean") {
				nearest = min(nearest, apart(t, engine, a))
			}
		}
	}
	t.Logf("%d answers: at most %g from their own engine, at least %g from one of other numbers", len(answers), worst, nearest)
	if nearest < 1e-2 {
		t.Errorf("the engines cannot be told apart: %g", nearest)
	}
}

// apart is the largest difference of a component between an answer and what an
// engine gives for its text.
func apart(t *testing.T, e engine, a crowdAnswer) float64 {
	t.Helper()
	want, err := e.embed(t.Context(), a.text)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.vector) != len(want) {
		return math.Inf(1)
	}
	most := 0.0
	for i := range want {
		most = max(most, math.Abs(float64(a.vector[i])-want[i]))
	}
	return most
}

// told is a verdict in one line for the log of a test.
func told(v *engines.Verdict) string {
	if v == nil {
		return "none"
	}
	var parts []string
	for _, f := range v.Findings {
		value := "-"
		if f.Value != nil {
			value = fmt.Sprintf("%.4g", *f.Value)
		}
		parts = append(parts, fmt.Sprintf("%s=%s(%v)%s", f.Check, value, f.Pass, f.Detail))
	}
	return strings.Join(parts, " ")
}
