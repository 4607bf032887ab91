package pull_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/download"
	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/models/catalog"
	"github.com/ondol-app/ondol/internal/models/hub"
	"github.com/ondol-app/ondol/internal/models/hubtest"
	"github.com/ondol-app/ondol/internal/models/pull"
)

const (
	size  = 300_000
	asked = "hf:owner/repo:m.gguf"
)

// world is a hub, a folder, and the manager of one life of the app.
type world struct {
	t    *testing.T
	hub  *hubtest.Hub
	dir  string
	m    *pull.Manager
	stop func() // ends the life; once

	mu     sync.Mutex
	events []event.Event
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, hub: hubtest.Start(t, "owner/repo", "m.gguf", hubtest.Model(1, size)), dir: filepath.Join(t.TempDir(), "models")}
	w.live()
	return w
}

// live starts the app anew with what is on the disk.
func (w *world) live() {
	w.t.Helper()
	h, err := hub.New(hub.Config{Mirror: w.hub.URL, Token: func(context.Context) (string, error) { return "hf_mine", nil }})
	if err != nil {
		w.t.Fatal(err)
	}
	d, err := download.New(download.Config{Tries: 2, Every: time.Nanosecond, Reserve: 1,
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }})
	if err != nil {
		w.t.Fatal(err)
	}
	w.m, err = pull.New(pull.Config{Dir: w.dir, Hub: h, Downloader: d, Notify: w.note, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	m := w.m
	go func() { done <- m.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
		d.Close()
		h.Close()
	})
	w.t.Cleanup(w.stop)
}

func (w *world) note(e event.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

func (w *world) kinds() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []string
	for _, e := range w.events {
		list = append(list, e.Kind.String())
	}
	return list
}

// pull asks for the hub's model with its licence accepted.
func (w *world) pull() pull.Pull {
	w.t.Helper()
	p, err := w.m.Pull(w.t.Context(), pull.Request{Model: asked, AcceptLicence: "apache-2.0"})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// until waits for a pull of which ok is true.
func (w *world) until(id int64, what string, ok func(pull.Pull) bool) pull.Pull {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		for _, p := range w.m.List() {
			if p.ID == id && ok(p) {
				return p
			}
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("pull %d never was %s: %+v", id, what, w.m.List())
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (w *world) untilState(id int64, s pull.State) pull.Pull {
	w.t.Helper()
	return w.until(id, s.String(), func(p pull.Pull) bool { return p.State == s })
}

// untilBytes waits until so many bytes have come.
func (w *world) untilBytes(id int64, n int64) {
	w.t.Helper()
	w.until(id, fmt.Sprint(n, " bytes far"), func(p pull.Pull) bool { return p.Done == n })
}

func (w *world) model() string { return filepath.Join(w.dir, "owner", "repo", "m.gguf") }

// visible are the files that look like models.
func (w *world) visible() []string {
	w.t.Helper()
	var list []string
	err := filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".gguf" {
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

func TestPull(t *testing.T) {
	w := newWorld(t)
	w.hub.Token = "hf_mine"
	p := w.untilState(w.pull().ID, pull.Done)
	text, err := os.ReadFile(w.model())
	if err != nil || hubtest.Sum(text) != hubtest.Sum(w.hub.Bytes) {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	want := pull.Pull{ID: 1, Model: asked, State: pull.Done, Path: w.model(), Done: size, Total: size, Repo: "owner/repo", File: "m.gguf",
		Revision: hubtest.Revision, SHA256: hubtest.Sum(w.hub.Bytes), HashFrom: pull.FromHub, Licence: "apache-2.0", Added: p.Added, Changed: p.Changed}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("pull (-want +got):\n%s", diff)
	}
	if got := w.kinds(); !slices.Equal(got, []string{"model.pull_started", "model.pull_done"}) {
		t.Errorf("events %v", got)
	}
	if tokens := w.hub.Tokens(); !slices.Equal(tokens, []string{""}) {
		t.Errorf("the storage was shown %q", tokens)
	}
	if again := w.pull(); again.ID != 1 || again.State != pull.Done || len(w.hub.Ranges()) != 1 {
		t.Errorf("asked again: %+v", again)
	}
	// Somebody deletes the file and wants it back.
	if err := os.Remove(w.model()); err != nil {
		t.Fatal(err)
	}
	if again := w.pull(); again.ID != 1 {
		t.Errorf("%+v", again)
	}
	w.until(1, "there again", func(p pull.Pull) bool { return p.State == pull.Done && len(w.visible()) == 1 })
}

// Nothing is downloaded before the licence was accepted, by its own name.
func TestLicenceFirst(t *testing.T) {
	w := newWorld(t)
	for _, given := range []string{"", "mit"} {
		_, err := w.m.Pull(t.Context(), pull.Request{Model: asked, AcceptLicence: given})
		e, ok := errors.AsType[*pull.LicenceError](err)
		if !ok || e.Licence != "apache-2.0" || e.Size != size || e.Given != given || e.Page != w.hub.URL+"/owner/repo" {
			t.Errorf("%q: %v", given, err)
		}
	}
	m, _ := catalog.Parse("embeddinggemma-300m")
	_, err := w.m.Pull(t.Context(), pull.Request{Model: m.Name, AcceptLicence: "apache-2.0"})
	if e, ok := errors.AsType[*pull.LicenceError](err); !ok || e.Licence != "LicenseRef-Gemma" || e.URL != m.Model.LicenceURL {
		t.Errorf("%v", err)
	}
	if len(w.hub.Ranges()) != 0 || len(w.m.List()) != 0 {
		t.Error("something was queued")
	}
}

func TestWithoutAHash(t *testing.T) {
	w := newWorld(t)
	w.hub.SHA256 = ""
	req := pull.Request{Model: asked, AcceptLicence: "apache-2.0"}
	_, err := w.m.Pull(t.Context(), req)
	if _, ok := errors.AsType[*pull.NoHashError](err); !ok {
		t.Fatalf("%v", err)
	}
	req.Unverified = true
	p, err := w.m.Pull(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	p = w.untilState(p.ID, pull.Done)
	if p.HashFrom != pull.FromNobody || p.SHA256 != hubtest.Sum(w.hub.Bytes) {
		t.Errorf("%+v", p)
	}
}

// Whatever is wrong with a file, it never looks like a model.
func TestFailures(t *testing.T) {
	tests := []struct {
		name   string
		change func(*hubtest.Hub)
		reason pull.Reason
		arg    string
	}{
		{"wrong hash", func(h *hubtest.Hub) { h.SHA256 = strings.Repeat("0", 64) }, pull.ReasonHash, "got"},
		{"no model", func(h *hubtest.Hub) {
			h.Bytes = []byte("<html>not found</html>")
			h.SHA256 = hubtest.Sum(h.Bytes)
		}, pull.ReasonNotGGUF, "file"},
		{"storage broken", func(h *hubtest.Hub) { h.Status = http.StatusInternalServerError }, pull.ReasonNetwork, "detail"},
		{"gone", func(h *hubtest.Hub) { h.Status = http.StatusNotFound }, pull.ReasonNotFound, "repo"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			tt.change(w.hub)
			p := w.untilState(w.pull().ID, pull.Failed)
			if p.Reason != tt.reason || p.Args[tt.arg] == "" {
				t.Errorf("%s %v", p.Reason, p.Args)
			}
			if got := w.visible(); len(got) != 0 {
				t.Errorf("looks like a model: %v", got)
			}
			if got := w.kinds(); !slices.Equal(got, []string{"model.pull_started", "model.pull_failed"}) {
				t.Errorf("events %v", got)
			}
			// What was wrong is mended, and the person asks again.
			w.hub.Change(func(h *hubtest.Hub) { h.Status = 0 })
			again, err := w.m.Resume(t.Context(), p.ID)
			if err != nil || again.State != pull.Queued || again.Reason != "" {
				t.Fatalf("%+v, %v", again, err)
			}
			want := pull.Done
			if tt.reason == pull.ReasonHash || tt.reason == pull.ReasonNotGGUF {
				want = pull.Failed
			}
			w.until(p.ID, want.String(), func(now pull.Pull) bool { return now.State == want && now.Changed.After(again.Changed) })
		})
	}
}

func TestGated(t *testing.T) {
	w := newWorld(t)
	w.hub.Token = "hf_of_others"
	_, err := w.m.Pull(t.Context(), pull.Request{Model: asked, AcceptLicence: "apache-2.0"})
	if e, ok := errors.AsType[*hub.AccessError](err); !ok || !e.Token {
		t.Errorf("%v", err)
	}
	// A model of the catalogue is not asked about first: the download itself is refused.
	m := catalog.Models()[0]
	w.hub.Change(func(h *hubtest.Hub) { h.Repo, h.File = m.Repo, m.File })
	p, err := w.m.Pull(t.Context(), pull.Request{Model: m.Name, AcceptLicence: m.Licence})
	if err != nil {
		t.Fatal(err)
	}
	p = w.untilState(p.ID, pull.Failed)
	if p.Reason != pull.ReasonAccess || p.Args["page"] != w.hub.URL+"/"+m.Repo {
		t.Errorf("%s %v", p.Reason, p.Args)
	}
}

func TestPauseAndResume(t *testing.T) {
	w := newWorld(t)
	w.hub.StopAt = 100_000
	id := w.pull().ID
	w.untilBytes(id, 100_000)
	p, err := w.m.Pause(t.Context(), id)
	if err != nil || p.State != pull.Paused {
		t.Fatalf("%+v, %v", p, err)
	}
	w.hub.Release()
	if p, err = w.m.Resume(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	w.untilState(id, pull.Done)
	if got := w.hub.Ranges(); !slices.Equal(got, []string{"", "bytes=100000-"}) {
		t.Errorf("asked for %q", got)
	}
	for _, do := range []func(context.Context, int64) (pull.Pull, error){w.m.Pause, w.m.Resume} {
		if p, err := do(t.Context(), id); err != nil || p.State != pull.Done {
			t.Errorf("a done pull: %+v, %v", p, err)
		}
		if _, err := do(t.Context(), 99); !errors.Is(err, pull.ErrNotFound) {
			t.Errorf("no such pull: %v", err)
		}
	}
	if got := w.kinds(); !slices.Equal(got, []string{"model.pull_started", "model.pull_paused", "model.pull_started", "model.pull_done"}) {
		t.Errorf("events %v", got)
	}
}

// The app ends in the middle: what ran goes on at the byte, what was paused stays paused.
func TestAnotherLife(t *testing.T) {
	w := newWorld(t)
	w.hub.StopAt = 100_000
	id := w.pull().ID
	w.untilBytes(id, 100_000)
	w.stop()
	if _, err := w.m.Pause(t.Context(), id); !errors.Is(err, pull.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	w.live()
	w.untilBytes(id, 200_000)
	if _, err := w.m.Pause(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	w.stop()
	w.hub.Release()
	w.live()
	if p := w.m.List()[0]; p.State != pull.Paused || p.Done != 200_000 || p.Total != size {
		t.Errorf("%+v", p)
	}
	if _, err := w.m.Resume(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	w.untilState(id, pull.Done)
	if got := w.hub.Ranges(); !slices.Equal(got, []string{"", "bytes=100000-", "bytes=200000-"}) {
		t.Errorf("asked for %q", got)
	}
	w.stop()
	w.live()
	if p := w.m.List()[0]; p.State != pull.Done || p.Done != size {
		t.Errorf("%+v", p)
	}
}

// The app died between the file's name and the list.
func TestDoneBeforeItWasWritten(t *testing.T) {
	for _, unverified := range []bool{false, true} {
		w := newWorld(t)
		if unverified {
			w.hub.SHA256 = ""
		}
		p, err := w.m.Pull(t.Context(), pull.Request{Model: asked, AcceptLicence: "apache-2.0", Unverified: unverified})
		if err != nil {
			t.Fatal(err)
		}
		w.untilState(p.ID, pull.Done)
		w.stop()
		list := filepath.Join(w.dir, "pulls.json")
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(list, []byte(strings.Replace(string(text), `"done",`, `"verifying",`, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		w.live()
		w.untilState(p.ID, pull.Done)
		if got := w.hub.Ranges(); len(got) != 1 {
			t.Errorf("unverified %v: asked for %q", unverified, got)
		}
	}
}

func TestDamagedList(t *testing.T) {
	w := newWorld(t)
	w.hub.StopAt = 100_000
	w.untilBytes(w.pull().ID, 100_000)
	w.stop()
	if err := os.WriteFile(filepath.Join(w.dir, "pulls.json"), []byte(`{"next":`), 0o600); err != nil {
		t.Fatal(err)
	}
	w.live()
	if got := w.m.List(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	w.hub.Release()
	w.untilState(w.pull().ID, pull.Done)
	if got := w.hub.Ranges(); !slices.Equal(got, []string{"", "bytes=100000-"}) {
		t.Errorf("asked for %q", got)
	}
}

func TestRemove(t *testing.T) {
	w := newWorld(t)
	w.hub.StopAt = 100_000
	id := w.pull().ID
	w.untilBytes(id, 100_000)
	if err := w.m.Remove(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	gone := func() bool { return len(w.m.List()) == 0 }
	for deadline := time.Now().Add(time.Minute); !gone(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v", w.m.List())
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(w.model())); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if err := w.m.Remove(t.Context(), id); !errors.Is(err, pull.ErrNotFound) {
		t.Errorf("removed twice: %v", err)
	}
	w.hub.Release()
	p := w.untilState(w.pull().ID, pull.Done)
	if p.ID == id {
		t.Error("an id was given twice")
	}
	if err := w.m.Remove(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	if got := w.visible(); !slices.Equal(got, []string{w.model()}) {
		t.Errorf("the model of a done pull: %v", got)
	}
}

// One at a time, in the order asked.
func TestQueue(t *testing.T) {
	w := newWorld(t)
	w.hub.StopAt = 100_000
	first := w.pull().ID
	w.untilBytes(first, 100_000)
	m := catalog.Models()[0]
	second, err := w.m.Pull(t.Context(), pull.Request{Model: m.Name, AcceptLicence: m.Licence})
	if err != nil || second.State != pull.Queued || second.HashFrom != pull.FromCatalogue || second.SHA256 != m.SHA256 {
		t.Fatalf("%+v, %v", second, err)
	}
	if again, err := w.m.Pull(t.Context(), pull.Request{Model: m.Name}); err != nil || again.ID != second.ID {
		t.Errorf("asked twice: %+v, %v", again, err)
	}
	if _, err := w.m.Pause(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	p := w.untilState(second.ID, pull.Failed) // this hub has no such repository
	if p.Reason != pull.ReasonNotFound {
		t.Errorf("%s %v", p.Reason, p.Args)
	}
	if list := w.m.List(); len(list) != 2 || list[0].State != pull.Paused {
		t.Errorf("%+v", list)
	}
}

func TestNewNeedsEveryPart(t *testing.T) {
	if _, err := pull.New(pull.Config{Dir: "/a"}); err == nil {
		t.Error("an empty Config was taken")
	}
}
