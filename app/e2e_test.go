package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/process"
	"github.com/ondol-app/ondol/internal/search"
)

// reflected is how soon a change of a file must show in search.
const reflected = 2 * time.Second

// TestWholeApp takes one home through a day: real engine, real files, real
// database, deaths included. The parts build on each other.
func TestWholeApp(t *testing.T) {
	h := newHome(t)
	folder := filepath.Join(t.TempDir(), "notes")
	write(t, filepath.Join(folder, "garage.md"), "# Garage\n\nThe automobile repair manual, for every car and truck.\n")
	write(t, filepath.Join(folder, "kitchen.txt"), "A chocolate cake needs butter, flour, eggs and a hot oven.\n")
	write(t, filepath.Join(folder, "의회.md"), "# 정례회\n\n시의회는 내년 예산안을 심의하고 본회의에 넘겼다.\n")
	write(t, filepath.Join(folder, "photo.txt"), noise(4096))
	write(t, filepath.Join(folder, ".gitignore"), "private/\n")
	write(t, filepath.Join(folder, "private", "diary.txt"), "The zebra diary is nobody's business.\n")
	r := h.serve(t)

	part(t, "folder", func(t *testing.T) { addFolder(t, h, folder) })
	part(t, "endpoint", func(t *testing.T) { endpointAnswers(t, h) })
	part(t, "search", func(t *testing.T) { searches(t, h, folder) })
	part(t, "command line", func(t *testing.T) { commandLine(t, h, folder) })
	part(t, "second app", func(t *testing.T) { secondApp(t, h, r) })
	part(t, "changes", func(t *testing.T) { changes(t, h, folder) })
	part(t, "engine killed", func(t *testing.T) { engineKilled(t, h, r) })
	part(t, "app killed", func(t *testing.T) { r = appKilled(t, h, r) })
	part(t, "stop", func(t *testing.T) {
		engine := process.Identify(h.waitReady(t, r).PID)
		if err := r.stop(); err != nil {
			t.Errorf("the app ended with %v", err)
		}
		if engine.Alive() {
			t.Errorf("llama-server %d outlived the app", engine.PID)
		}
		if code, _, errOut := h.ondol(t, "status"); code != 4 || !strings.Contains(errOut, "not running") {
			t.Errorf("status of a stopped app: exit %d, %q", code, errOut)
		}
	})
}

// noise is bytes that are no text, the same every time.
func noise(n int) string {
	random := rand.New(rand.NewPCG(1, 2))
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(random.Uint32())
	}
	return string(out)
}

// part runs a step; what follows makes no sense when it failed.
func part(t *testing.T, name string, run func(*testing.T)) {
	t.Helper()
	if !t.Run(name, run) {
		t.FailNow()
	}
}

func addFolder(t *testing.T, h *home, folder string) {
	code, out, errOut := h.ondol(t, "folders", "add", folder, "--wait", "--json")
	if code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, errOut)
	}
	var added document.Folder
	if err := json.Unmarshal([]byte(out), &added); err != nil {
		t.Fatal(err)
	}
	n := added.Counts
	if n.Found != n.Indexed+n.Skipped+n.Failed+n.Pending {
		t.Errorf("the ledger does not balance: %+v", n)
	}
	// .gitignore is hidden, private/ ignored by it: neither is found.
	if n.Found != 4 || n.Indexed != 3 || n.Skipped != 1 || n.Reasons[document.ReasonBinary] != 1 {
		t.Errorf("counts %+v", n)
	}
}

// results is the reply to a search, and the file names in it.
func results(t *testing.T, h *home, query string) (search.Reply, []string) {
	t.Helper()
	reply, err := h.client.Search(t.Context(), search.Request{Query: query})
	if err != nil {
		t.Fatalf("search %q: %v", query, err)
	}
	var names []string
	for _, result := range reply.Results {
		names = append(names, filepath.Base(result.Path))
	}
	return reply, names
}

func searches(t *testing.T, h *home, folder string) {
	// No word in common: only meaning can find it.
	reply, names := results(t, h, "vehicle maintenance")
	if len(names) == 0 || names[0] != "garage.md" || !reply.Evidence.Found {
		t.Fatalf("by meaning: %v, %+v", names, reply)
	}
	if want := filepath.Join(folder, "garage.md"); reply.Results[0].Path != want {
		t.Errorf("path %q, want %q", reply.Results[0].Path, want)
	}
	reply, names = results(t, h, "예산")
	if len(names) == 0 || names[0] != "의회.md" {
		t.Fatalf("Korean: %v", names)
	}
	snippet := reply.Results[0].Snippet
	if len(snippet.Marks) == 0 || !strings.HasPrefix(snippet.Text[snippet.Marks[0][0]:snippet.Marks[0][1]], "예산") {
		t.Errorf("marks %v in %q", snippet.Marks, snippet.Text)
	}
	for _, query := range []string{"zebra diary", "qwxz vbnmkl"} {
		if reply, names := results(t, h, query); reply.Evidence.Found {
			t.Errorf("%q: evidence in %v", query, names)
		}
	}
}

func endpointAnswers(t *testing.T, h *home) {
	status, err := h.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	body := `{"model":"` + status.Engine.Model.Name + `","input":["cats and dogs","예산안"]}`
	resp, err := http.Post(status.Endpoint+"/embeddings", "application/json", bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var reply struct {
		Data []struct {
			Index     int
			Embedding []*float64 // null must not become 0
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || len(reply.Data) != 2 {
		t.Fatalf("status %d, %d vectors", resp.StatusCode, len(reply.Data))
	}
	for i, item := range reply.Data {
		norm := 0.0
		for _, x := range item.Embedding {
			if x == nil || math.IsNaN(*x) || math.IsInf(*x, 0) {
				t.Fatalf("vector %d has a component that is no number", i)
			}
			norm += *x * *x
		}
		if item.Index != i || len(item.Embedding) != 128 || math.Abs(math.Sqrt(norm)-1) > 1e-2 {
			t.Errorf("vector %d: index %d, %d dimensions, norm %v", i, item.Index, len(item.Embedding), math.Sqrt(norm))
		}
	}
}

func commandLine(t *testing.T, h *home, folder string) {
	for _, tt := range []struct {
		args string
		code int
		says []string
	}{
		{"status", 0, []string{"Ondol", "ready", "4 found = 3 indexed + 1 skipped + 0 failed + 0 pending", "not text 1", "/v1"}},
		{"search vehicle maintenance", 0, []string{"garage.md", "lines"}},
		{"search 예산", 0, []string{"의회.md", "‹예산"}},
		{"search qwxz vbnmkl", 3, []string{"No evidence found"}},
		{"search --folder " + folder + " --kind text cake", 0, []string{"kitchen.txt"}},
		{"folders list", 0, []string{"PASSAGES", folder}},
		{"documents --state skipped", 0, []string{"photo.txt", "not text"}},
		{"documents --folder " + folder, 0, []string{"의회.md", "indexed"}},
		{"engine status", 0, []string{"-ngl 34", "128 dimensions", "0."}},
		{"engine logs -n 20", 0, []string{"slot"}},
		{"folders rescan 1", 0, []string{"again"}},
		{"folders add " + filepath.Join(folder, "private"), 1, []string{folder}},
		{"folders remove 77", 1, []string{"77"}},
		{"folders add " + folder, 1, []string{folder + " is already watched."}},
		{"folders add " + filepath.Join(folder, "garage.md"), 2, []string{"is not a folder"}},
		{"folders add " + filepath.Join(folder, "nowhere"), 2, []string{"nowhere does not exist."}},
		{"retry 99", 1, []string{"No document has the number 99.\n"}},
		{"search " + strings.Repeat("x", 5000), 2, []string{"too long"}},
		{"search --kind code kind:text", 2, []string{"kind:text"}},
	} {
		code, out, errOut := h.ondol(t, strings.Fields(tt.args)...)
		for _, want := range tt.says {
			if !strings.Contains(out+errOut, want) {
				t.Errorf("ondol %s: no %q in\n%s%s", tt.args, want, out, errOut)
			}
		}
		if code != tt.code {
			t.Errorf("ondol %s: exit %d, want %d\n%s%s", tt.args, code, tt.code, out, errOut)
		}
		if code != 0 {
			continue
		}
		if code, out, _ := h.ondol(t, append(strings.Fields(tt.args), "--json")...); code != 0 || !json.Valid([]byte(out)) {
			t.Errorf("ondol %s --json: exit %d, %q", tt.args, code, tail(out, 300))
		}
	}
}

func secondApp(t *testing.T, h *home, r *running) {
	code, out, errOut := h.ondol(t, "serve")
	if code != 1 || !strings.Contains(errOut, strconv.Itoa(r.cmd.Process.Pid)) {
		t.Errorf("exit %d, %q %q; want the process id %d", code, out, errOut, r.cmd.Process.Pid)
	}
}

// changes checks that what happens to a file shows in search in time.
func changes(t *testing.T, h *home, folder string) {
	at := func(name string) string { return filepath.Join(folder, name) }
	shows := func(what, query, want string) {
		t.Helper()
		took := within(t, reflected, what, func() error {
			_, names := results(t, h, query)
			if len(names) == 0 || names[0] != want {
				return fmt.Errorf("search finds %v, not %q", names, want)
			}
			return nil
		})
		t.Logf("%s: shown after %v", what, took.Round(time.Millisecond))
	}
	hides := func(what, query, unwanted string) {
		t.Helper()
		within(t, reflected, what, func() error {
			for _, name := range second(results(t, h, query)) {
				if name == unwanted {
					return fmt.Errorf("search still finds %q", name)
				}
			}
			return nil
		})
	}
	write(t, at("orchard.txt"), "Pears and quinces ripen late in the orchard.\n")
	shows("created", "quinces", "orchard.txt")
	write(t, at("orchard.txt"), "The lighthouse keeper counts ships at night.\n")
	shows("changed", "lighthouse", "orchard.txt")
	hides("changed", "quinces", "orchard.txt")

	settle(t, h)
	before, found := embedded(t, h), counts(t, h).Found
	if err := os.Rename(at("orchard.txt"), at("harbour.txt")); err != nil {
		t.Fatal(err)
	}
	shows("renamed", "lighthouse", "harbour.txt")
	settle(t, h)
	if after := embedded(t, h); after != before {
		t.Errorf("a rename embedded %d passages", after-before)
	}
	if err := os.Remove(at("harbour.txt")); err != nil {
		t.Fatal(err)
	}
	hides("deleted", "lighthouse", "harbour.txt")
	within(t, reflected, "deleted from the ledger", func() error {
		if now := counts(t, h).Found; now != found-1 {
			return fmt.Errorf("%d documents, want %d", now, found-1)
		}
		return nil
	})
}

func second[A, B any](_ A, b B) B { return b }

// settle waits until nothing is pending.
func settle(t *testing.T, h *home) {
	t.Helper()
	within(t, patience, "an index at rest", func() error {
		status, err := h.client.Status(t.Context())
		if err == nil && status.Index.Counts.Pending > 0 {
			err = fmt.Errorf("%d pending", status.Index.Counts.Pending)
		}
		return err
	})
}

func embedded(t *testing.T, h *home) int64 {
	t.Helper()
	status, err := h.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return status.Index.EmbeddedChunks
}

func counts(t *testing.T, h *home) document.Counts {
	t.Helper()
	status, err := h.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return status.Index.Counts
}

// engineKilled checks that the app gets over the sudden death of its engine.
func engineKilled(t *testing.T, h *home, r *running) {
	before, old := counts(t, h), h.waitReady(t, r).PID
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "another engine", func() error {
		if now := h.waitReady(t, r); now.PID == old {
			return fmt.Errorf("still process %d", old)
		}
		return nil
	})
	settle(t, h)
	if now := counts(t, h); now.Found != before.Found || now.Indexed != before.Indexed {
		t.Errorf("documents before %+v, after %+v", before, now)
	}
	endpointAnswers(t, h)
	if _, names := results(t, h, "vehicle maintenance"); len(names) == 0 || names[0] != "garage.md" {
		t.Errorf("search finds %v", names)
	}
}

// appKilled checks that nothing outlives the app and nothing is lost with it.
func appKilled(t *testing.T, h *home, r *running) *running {
	before, engine := counts(t, h), process.Identify(h.waitReady(t, r).PID)
	r.kill()
	gone(t, time.Second, engine)
	next := h.serve(t)
	settle(t, h)
	if now := counts(t, h); now.Indexed != before.Indexed || now.Found != before.Found {
		t.Errorf("documents before %+v, after %+v", before, now)
	}
	if n := embedded(t, h); n != 0 {
		t.Errorf("%d passages were embedded again", n)
	}
	if _, names := results(t, h, "vehicle maintenance"); len(names) == 0 || names[0] != "garage.md" {
		t.Errorf("search finds %v", names)
	}
	return next
}
