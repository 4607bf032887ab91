package app_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ollama/ollama/api"

	"github.com/ondol-app/ondol/internal/enginetest"
)

// tolerance is the largest difference between a component a client got and
// the engine's own.
const tolerance = 1e-6

// TestConformance runs the clients people use against the app and the real
// engine, with the requests as they make them. The app has one place for
// executing and one for waiting, so that a full queue is two requests away.
func TestConformance(t *testing.T) {
	l := newLab(t)
	t.Run("ollama-go", l.ollamaGo)
	l.program(t, goCommand(t), "openai-go")
	t.Run("npm", func(t *testing.T) {
		clients := []string{"openai", "langchain-openai", "llamaindex-openai", "ai-sdk", "continue", "ollama", "langchain-ollama", "llamaindex-ollama"}
		l.program(t, nodeCommand(t, clients...), clients...)
	})
}

// conformanceTexts are what the Go clients embed; the npm clients have their own like them.
var conformanceTexts = []string{"the automobile repair manual", "시의회는 내년 예산안을 심의했다 budget law",
	"import { useState } from \"react\";", "a chocolate cake\nneeds butter", "the automobile repair manual"}

// endless is longer than the engine's context for one input.
var endless = strings.Repeat("budget law ", 6000)

// same checks a client's vectors against the engine's own.
func (l *lab) same(t *testing.T, got [][]float64, texts ...string) {
	t.Helper()
	want, err := l.reference(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Fatalf("%d vectors, want %d", len(got), len(want))
	}
	for i := range want {
		if len(got[i]) != len(want[i]) {
			t.Fatalf("vector %d has %d dimensions, want %d", i, len(got[i]), len(want[i]))
		}
		for j := range want[i] {
			if !(math.Abs(got[i][j]-want[i][j]) <= tolerance) {
				t.Fatalf("vector %d, component %d: %v, the engine has %v", i, j, got[i][j], want[i][j])
			}
		}
	}
}

// full runs try while the queue is full; it must have been refused.
func (l *lab) full(t *testing.T, try func()) {
	t.Helper()
	if err := l.hold(t.Context()); err != nil {
		t.Fatal(err)
	}
	try()
	refused, err := l.release(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}

func says(t *testing.T, message string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(message, part) {
			t.Errorf("no %q in %q", part, message)
		}
	}
}

func (l *lab) ollamaGo(t *testing.T) {
	base, err := url.Parse(l.base)
	if err != nil {
		t.Fatal(err)
	}
	client := api.NewClient(base, http.DefaultClient)
	embed := func(req api.EmbedRequest) ([][]float64, error) {
		reply, err := client.Embed(t.Context(), &req)
		if err != nil {
			return nil, err
		}
		vectors := make([][]float64, len(reply.Embeddings))
		for i, v := range reply.Embeddings {
			for _, x := range v {
				vectors[i] = append(vectors[i], float64(x))
			}
		}
		return vectors, nil
	}
	served := func(t *testing.T, req api.EmbedRequest, texts ...string) {
		t.Helper()
		vectors, err := embed(req)
		if err != nil {
			t.Fatal(err)
		}
		l.same(t, vectors, texts...)
	}
	refused := func(t *testing.T, err error, status int, parts ...string) {
		t.Helper()
		e, ok := errors.AsType[api.StatusError](err)
		if !ok || e.StatusCode != status {
			t.Fatalf("error %v, want status %d", err, status)
		}
		says(t, e.ErrorMessage, parts...)
	}
	t.Run("single", func(t *testing.T) {
		served(t, api.EmbedRequest{Model: l.model, Input: conformanceTexts[0]}, conformanceTexts[0])
	})
	t.Run("batch", func(t *testing.T) {
		served(t, api.EmbedRequest{Model: l.model + ":latest", Input: conformanceTexts}, conformanceTexts...)
	})
	t.Run("older route", func(t *testing.T) {
		reply, err := client.Embeddings(t.Context(), &api.EmbeddingRequest{Model: l.model, Prompt: conformanceTexts[1]})
		if err != nil {
			t.Fatal(err)
		}
		l.same(t, [][]float64{reply.Embedding}, conformanceTexts[1])
	})
	t.Run("too long", func(t *testing.T) {
		_, err := embed(api.EmbedRequest{Model: l.model, Input: endless})
		refused(t, err, http.StatusBadRequest, "tokens", "at most 8192", "split")
	})
	t.Run("truncate at its wish", func(t *testing.T) {
		yes := true
		vectors, err := embed(api.EmbedRequest{Model: l.model, Input: []string{endless}, Truncate: &yes})
		if err != nil || len(vectors) != 1 || len(vectors[0]) != 128 {
			t.Errorf("%d vectors, %v", len(vectors), err)
		}
	})
	t.Run("wrong model", func(t *testing.T) {
		_, err := embed(api.EmbedRequest{Model: "no-such-model", Input: "cake"})
		refused(t, err, http.StatusNotFound, "no-such-model", l.model)
	})
	t.Run("refusal", func(t *testing.T) {
		req := api.EmbedRequest{Model: l.model, Input: "the budget of ollama-go"}
		l.full(t, func() {
			_, err := embed(req)
			refused(t, err, http.StatusTooManyRequests, "queue is full")
		})
		served(t, req, "the budget of ollama-go")
	})
	t.Run("models", func(t *testing.T) {
		list, err := client.List(t.Context())
		if err != nil || len(list.Models) == 0 || list.Models[0].Name != l.model+":latest" {
			t.Errorf("models %+v, %v", list, err)
		}
		shown, err := client.Show(t.Context(), &api.ShowRequest{Model: l.model})
		if err != nil || !slices.Contains(shown.Capabilities, "embedding") {
			t.Errorf("show %+v, %v", shown, err)
		}
		if err := client.Heartbeat(t.Context()); err != nil {
			t.Errorf("heartbeat: %v", err)
		}
	})
}

// program runs clients that embed and are a process of their own. All of the
// clients must be among what it reports.
func (l *lab) program(t *testing.T, cmd *exec.Cmd, clients ...string) {
	lab := httptest.NewServer(l.handler())
	defer lab.Close()
	planned := report(t, cmd, map[string]any{"base": l.base, "control": lab.URL, "model": l.model})
	for _, client := range clients {
		for _, check := range []string{"single", "batch", "too long", "wrong model"} {
			if !planned[client+"/"+check] {
				t.Errorf("%s: no check %q", client, check)
			}
		}
		if !planned[client+"/retry"] && !planned[client+"/refusal"] {
			t.Errorf("%s: no check of a full queue", client)
		}
	}
}

// report runs a program of build/conformance: one subtest for each line it
// reports. It returns the checks, "client/check", all of which were reported.
func report(t *testing.T, cmd *exec.Cmd, settings map[string]any) map[string]bool {
	t.Helper()
	text, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	var errOut bytes.Buffer
	cmd.Env, cmd.Stderr = append(cmd.Environ(), "ONDOL_CONFORMANCE="+string(text), "NO_PROXY=127.0.0.1"), &errOut
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	planned := make(map[string]bool) // "client/check" → reported
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			Plan []struct {
				Client string
				Checks []string
			}
			Client, Check, Error string
			OK                   bool
			MS                   int
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Errorf("a line that is no report: %s", lines.Text())
			continue
		}
		for _, p := range line.Plan {
			for _, check := range p.Checks {
				planned[p.Client+"/"+check] = false
			}
		}
		if line.Client == "" {
			continue
		}
		planned[line.Client+"/"+line.Check] = true
		t.Run(line.Client+"/"+line.Check, func(t *testing.T) {
			if !line.OK {
				t.Error(line.Error)
			}
			t.Logf("%d ms", line.MS)
		})
	}
	if err := errors.Join(lines.Err(), cmd.Wait()); err != nil {
		t.Errorf("%s: %v\n%s", cmd.Path, err, tail(errOut.String(), 4000))
	}
	for name, reported := range planned {
		if !reported {
			t.Errorf("%s was not reported", name)
		}
	}
	return planned
}

// goCommand is the Go program of build/conformance.
func goCommand(t *testing.T) *exec.Cmd {
	t.Helper()
	path := filepath.Join(t.TempDir(), "goclient")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".")
	build.Dir = filepath.Join(enginetest.RepoRoot(t), "build", "conformance", "goclient")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the Go client: %v; run: make setup\n%s", err, out)
	}
	return exec.CommandContext(t.Context(), path)
}

// nodeCommand runs clients with main.mjs of build/conformance, beside the packages that make setup installed.
func nodeCommand(t *testing.T, clients ...string) *exec.Cmd {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("node is missing: %v; run: make setup", err)
	}
	root := enginetest.RepoRoot(t)
	source, installed := filepath.Join(root, "build", "conformance"), filepath.Join(root, "build", "deps", "conformance")
	want, err := os.ReadFile(filepath.Join(source, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	if have, err := os.ReadFile(filepath.Join(installed, "package-lock.json")); err != nil || !bytes.Equal(have, want) {
		t.Fatalf("the npm clients in build/deps/conformance are not those of build/conformance/package-lock.json; run: make setup")
	}
	// Packages are looked up from where the script lies, so both must lie together.
	dir := t.TempDir()
	scripts, err := filepath.Glob(filepath.Join(source, "*.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, filepath.Base(script)), string(text))
	}
	if err := os.Symlink(filepath.Join(installed, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, append([]string{"main.mjs"}, clients...)...)
	cmd.Dir = dir
	return cmd
}
