package app_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/event"
)

// What happened is told, in order and once, over a kill and a restart: on the
// command line in words and as JSON, and over TCP to who has the token.
func TestEvents(t *testing.T) {
	h := newHome(t)
	r := h.serve(t)
	folder := filepath.Join(t.TempDir(), "notes")
	write(t, filepath.Join(folder, "one.md"), "# One\n\nThe warm floor of a Korean house.\n")
	write(t, filepath.Join(folder, "two.bin"), "\x00\x01\x02")
	if code, _, errOut := h.ondol(t, "folders", "add", folder, "--wait"); code != 0 {
		t.Fatalf("folders add: %d %s", code, errOut)
	}
	r.kill()
	r = h.serve(t)

	events := h.events(t, "--since", "0")
	var last uint64
	var kinds []string
	for _, e := range events {
		if e.Seq != last+1 {
			t.Errorf("event %d follows %d", e.Seq, last)
		}
		last = e.Seq
		kinds = append(kinds, e.Kind.String())
	}
	for _, kind := range []string{"engine.state", "folder.added", "folder.changed", "document.indexed", "document.skipped"} {
		if !slices.Contains(kinds, kind) {
			t.Errorf("no %s among %v", kind, kinds)
		}
	}
	started := 0
	for _, e := range events {
		if e.Kind == "app.started" {
			started++
		}
	}
	if started != 2 || slices.Contains(kinds, "app.stopping") {
		t.Errorf("after a kill the app began %d times among %v", started, kinds)
	}
	if code, out, _ := h.ondol(t, "events"); code != 0 || !strings.Contains(out, "Watching "+folder) || !strings.Contains(out, "Embedding: the engine went from being checked to ready") {
		t.Errorf("events in words: %d\n%s", code, out)
	}
	h.eventsOverTCP(t, events)
	if err := r.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if code, _, _ := h.ondol(t, "events"); code != 4 {
		t.Errorf("events without an app: exit %d, want 4", code)
	}
}

// events is what the command line tells, as JSON.
func (h *home) events(t *testing.T, args ...string) (list []event.Event) {
	t.Helper()
	code, out, errOut := h.ondol(t, append([]string{"events", "--json"}, args...)...)
	if code != 0 {
		t.Fatalf("events: %d %s", code, errOut)
	}
	for line := range strings.Lines(out) {
		var e event.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		list = append(list, e)
	}
	return list
}

// eventsOverTCP compares what the gateway tells with what is known.
func (h *home) eventsOverTCP(t *testing.T, want []event.Event) {
	t.Helper()
	status, err := h.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimSuffix(status.Endpoint, "/v1") + control.Prefix + "events?since=0"
	request, err := http.NewRequestWithContext(t.Context(), "GET", address, nil)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	reply.Body.Close()
	if reply.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the token: %s", reply.Status)
	}
	token, err := os.ReadFile(filepath.Join(h.dir, "data", "token"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	if reply, err = http.DefaultClient.Do(request); err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	lines := bufio.NewScanner(reply.Body)
	for _, e := range want {
		var got event.Event
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				if err := json.Unmarshal([]byte(data), &got); err != nil {
					t.Fatal(err)
				}
				break
			}
		}
		if got.Seq != e.Seq || got.Kind != e.Kind {
			t.Fatalf("over TCP came event %d (%s) instead of %d (%s)", got.Seq, got.Kind, e.Seq, e.Kind)
		}
	}
}
