package app_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/gpu"
	"github.com/ondol-app/ondol/internal/history"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/yielding"
)

// gpuScript names the file that says what the app's machine shows; without it
// the machine tells nothing, so that no test depends on where it runs.
const gpuScript = "ONDOL_TEST_GPU"

// scriptedGPU is a machine whose GPU and conditions are in a file, a word and a
// value a line: a process and its share, "thermal", or "battery".
func scriptedGPU() gpu.Source {
	file := os.Getenv(gpuScript)
	if file == "" {
		return gpu.Source{Missing: gpu.ReasonNoGPU}
	}
	s := &scripted{file: file, at: time.Now(), used: map[int]float64{}}
	return gpu.Source{Reader: s, Conditions: func() gpu.Conditions { return s.conditions }}
}

// scripted belongs to the sampler's goroutine.
type scripted struct {
	file       string
	at         time.Time
	used       map[int]float64 // seconds, by process
	conditions gpu.Conditions
}

func (s *scripted) Read() (gpu.Reading, error) {
	text, err := os.ReadFile(s.file)
	if err != nil {
		return gpu.Reading{}, err
	}
	passed := time.Since(s.at).Seconds()
	s.at = time.Now()
	s.conditions = gpu.Conditions{}
	sum := 0.
	for line := range strings.Lines(string(text)) {
		word, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "thermal":
			s.conditions.Thermal = gpu.Thermal(value)
		case "battery":
			yes := value == "yes"
			s.conditions.OnBattery = &yes
		default:
			pid, err := strconv.Atoi(word)
			if err != nil {
				return gpu.Reading{}, err
			}
			share, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return gpu.Reading{}, err
			}
			s.used[pid] += share * passed
			sum += share
		}
	}
	utilization := min(sum, 1)
	reading := gpu.Reading{Utilization: &utilization, Clients: map[gpu.Client]gpu.Use{}}
	for pid, seconds := range s.used {
		reading.Clients[gpu.Client{ID: uint64(pid)}] = gpu.Use{PID: pid, Engines: map[string]gpu.Busy{"gpu": {Count: uint64(seconds * 1e9)}}}
	}
	return reading, nil
}

// show writes the script whole.
func show(t *testing.T, file string, lines ...string) {
	t.Helper()
	err := os.WriteFile(file+".new", []byte(strings.Join(lines, "\n")), 0o600)
	if err = errors.Join(err, os.Rename(file+".new", file)); err != nil {
		t.Fatal(err)
	}
}

// TestIndexingYields has other programs use the GPU, and then the machine run on
// battery: making vectors waits and says why, everything else goes on, and the
// work is done when the machine is free again.
func TestIndexingYields(t *testing.T) {
	h := newHome(t)
	script := filepath.Join(t.TempDir(), "gpu")
	show(t, script, "7 0")
	h.env = append(h.env, gpuScript+"="+script)
	for _, pair := range [][]string{{"yield.after", "1s"}, {"yield.resume_after", "2s"}, {"yield.gpu", "40"}} {
		if code, out, errOut := h.ondol(t, "config", "set", pair[0], pair[1]); code != 0 {
			t.Fatalf("config set %v: exit %d, %s%s", pair, code, out, errOut)
		}
	}
	if code, _, errOut := h.ondol(t, "config", "set", "yield.gpu_resume", "40"); code != 2 || !strings.Contains(errOut, "yield.gpu_resume (40) must be < yield.gpu (40)") {
		t.Errorf("a pair that does not hold together: exit %d, %s", code, errOut)
	}
	r := h.serve(t)
	engine := h.waitReady(t, r).PID
	folder := filepath.Join(t.TempDir(), "notes")
	write(t, filepath.Join(folder, "garage.md"), "# Garage\n\nThe automobile repair manual, for every car and truck.\n")
	if code, out, errOut := h.ondol(t, "folders", "add", folder, "--wait"); code != 0 {
		t.Fatalf("folders add: %d %s%s", code, out, errOut)
	}

	part(t, "pause", func(t *testing.T) {
		show(t, script, "7 0.9", strconv.Itoa(engine)+" 0.5")
		write(t, filepath.Join(folder, "kitchen.md"), "# Kitchen\n\nA chocolate cake needs butter, flour, eggs and a hot oven.\n")
		h.follow(t, folder, "bakery")
		now := h.wait(t, "a pause", func(s control.Status) bool { return s.Index.Yielding != nil && s.GPU.Ours != nil })
		if got := now.Index.Yielding.Reasons; !slices.Equal(got, []yielding.Reason{yielding.GPU}) {
			t.Errorf("reasons %v", got)
		}
		now = h.wait(t, "the shares of both", func(s control.Status) bool { return s.GPU.Ours != nil && *s.GPU.Ours > 0.45 && *s.GPU.Others > 0.85 })
		if *now.GPU.Ours > 0.55 || *now.GPU.Others > 0.95 || *now.GPU.Utilization != 1 || !now.Admission.BackgroundPaused {
			t.Errorf("%+v", now.GPU)
		}
	})
	part(t, "meanwhile", func(t *testing.T) {
		before := h.wait(t, "waiting work", func(s control.Status) bool { return s.Admission.BackgroundWaiting > 0 })
		for i := range 10 {
			if code := h.embed(t, fmt.Sprintf("a client's text number %d", i)); code != http.StatusOK {
				t.Fatalf("a client is answered with %d", code)
			}
		}
		// Text is found by its words before it has vectors.
		if _, names := results(t, h, "bakery"); len(names) == 0 {
			t.Error("a document that waits for its vectors is not found by word")
		}
		after := h.wait(t, "status", func(control.Status) bool { return true })
		if after.Index.EmbeddedChunks != before.Index.EmbeddedChunks || after.Index.Counts.Pending == 0 || after.Admission.BackgroundWaiting == 0 {
			t.Errorf("while it waits: %+v and %+v", before.Index, after.Index)
		}
		if code, out, _ := h.ondol(t, "status"); code != 0 || !strings.Contains(out, "other programs use the GPU") || !strings.Contains(out, " · others ") {
			t.Errorf("status: %d\n%s", code, out)
		}
		page := h.metrics(t)
		for _, line := range []string{`ondol_yielding_paused{reason="gpu"} 1`, `ondol_yielding_paused{reason="battery"} 0`, "ondol_yielding_pauses_total 1", `ondol_gpu_share_ratio{of="others"} 0.`} {
			if !strings.Contains(page, line) {
				t.Errorf("the metrics have no %s", line)
			}
		}
		seconds, err := h.client.History(t.Context(), "10m")
		if err != nil || !slices.ContainsFunc(seconds.Points, func(p history.Point) bool { return p.GPU != nil && p.GPU.Others != nil && *p.GPU.Others > 0.5 }) {
			t.Errorf("the history has no GPU: %v", err)
		}
	})
	part(t, "another reason", func(t *testing.T) {
		show(t, script, "7 0", "battery yes", "thermal serious")
		now := h.wait(t, "the other reasons alone", func(s control.Status) bool {
			return s.Index.Yielding != nil && !slices.Contains(s.Index.Yielding.Reasons, yielding.GPU)
		})
		if got := now.Index.Yielding.Reasons; !slices.Equal(got, []yielding.Reason{yielding.Thermal, yielding.Battery}) {
			t.Errorf("reasons %v", got)
		}
	})
	part(t, "unloaded meanwhile", func(t *testing.T) {
		if code, _, errOut := h.ondol(t, "config", "set", "engine.unload_on_power", "1s", "engine.unload_on_battery", "1s"); code != 0 {
			t.Fatalf("config set: %d %s", code, errOut)
		}
		h.wait(t, "an engine that is unloaded while work waits", func(s control.Status) bool {
			return s.Engine.State == llamaserver.Unloaded && s.Admission.BackgroundWaiting > 0
		})
	})
	part(t, "resume", func(t *testing.T) {
		show(t, script, "7 0.05", "battery no", "thermal fair")
		h.wait(t, "the end of the work", func(s control.Status) bool { return s.Index.Yielding == nil && s.Index.Counts.Pending == 0 })
		if _, names := results(t, h, "dessert baking"); len(names) == 0 || names[0] != "kitchen.md" {
			t.Errorf("by meaning: %v", names)
		}
		var told []string
		for _, e := range h.events(t, "--since", "0") {
			if strings.HasPrefix(e.Kind.String(), "indexing.") {
				told = append(told, e.Kind.String()+" "+e.Args["reason"])
			}
		}
		if !slices.Equal(told, []string{"indexing.paused gpu", "indexing.resumed thermal"}) {
			t.Errorf("told %v", told)
		}
		if code, out, _ := h.ondol(t, "events", "--since", "0"); code != 0 || !strings.Contains(out, "Indexing waits: other programs use the GPU") || !strings.Contains(out, "Indexing goes on after") {
			t.Errorf("events in words: %d\n%s", code, out)
		}
	})
	if err := r.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// follow keeps new work coming until some of it waits in a pause. Each document
// holds the word.
func (h *home) follow(t *testing.T, folder, word string) {
	t.Helper()
	i := 0
	within(t, patience, "work that waits", func() error {
		i++
		write(t, filepath.Join(folder, fmt.Sprintf("more-%d.md", i)), fmt.Sprintf("# Note %d\n\nThe %s opens at %d in the morning.\n", i, word, i))
		s, err := h.client.Status(t.Context())
		if err == nil && (!s.Admission.BackgroundPaused || s.Admission.BackgroundWaiting == 0) {
			err = fmt.Errorf("admission %+v", s.Admission)
		}
		return err
	})
}

// wait asks for the status until it is as wanted.
func (h *home) wait(t *testing.T, what string, as func(control.Status) bool) (now control.Status) {
	t.Helper()
	within(t, patience, what, func() error {
		var err error
		if now, err = h.client.Status(t.Context()); err != nil {
			return err
		}
		if !as(now) {
			return fmt.Errorf("admission %+v, GPU %+v, index %+v", now.Admission, now.GPU, now.Index)
		}
		return nil
	})
	return now
}

func (h *home) embed(t *testing.T, text string) int {
	t.Helper()
	status, err := h.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reply, err := http.Post(status.Endpoint+"/embeddings", "application/json", strings.NewReader(`{"input":`+strconv.Quote(text)+`}`))
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	return reply.StatusCode
}

func (h *home) metrics(t *testing.T) string {
	t.Helper()
	status, err := h.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reply, err := http.Get(strings.TrimSuffix(status.Endpoint, "/v1") + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
