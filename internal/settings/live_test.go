package settings_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/settings"
)

// running is a Live over a file, and what it told.
type running struct {
	*settings.Live
	path string

	mu      sync.Mutex
	events  []string
	applied []int // admission.waiting, each time it was handed over
}

func start(t *testing.T, content string, env map[string]string) *running {
	t.Helper()
	r := &running{path: filepath.Join(t.TempDir(), "settings.toml")}
	if content != "" {
		r.write(t, content)
	}
	config := settings.Config{File: r.path, Getenv: func(k string) string { return env[k] }}
	loaded, err := settings.Load(config)
	if err != nil {
		t.Fatal(err)
	}
	m := usual()
	r.Live = settings.NewLive(settings.LiveConfig{
		Config: config, Facts: func(s *settings.Settings) (settings.Facts, error) { return m.facts(t, s), nil },
		Apply: func(s *settings.Settings) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.applied = append(r.applied, s.Admission.Waiting)
		},
		Notify: func(e event.Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			text := e.Kind.String() + " " + e.Args["key"] + " " + e.Args["from"] + ">" + e.Args["to"] + " " + e.Args["applies"]
			if e.Kind == settings.KindRefused {
				text = e.Kind.String() + " " + e.Args["detail"]
			}
			r.events = append(r.events, text)
		},
	}, loaded)
	return r
}

func (r *running) write(t *testing.T, content string) {
	t.Helper()
	if err := os.WriteFile(r.path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (r *running) told() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	told := r.events
	r.events = nil
	return told
}

func TestAChangeIsTakenOverAndTold(t *testing.T) {
	r := start(t, "# mine\n", map[string]string{"ONDOL_LOG": "warn"})
	changed, err := r.Change(map[string]string{"admission.waiting": "7", "engine.profile": "small", "log": "debug"})
	if err != nil {
		t.Fatal(err)
	}
	want := settings.Changed{
		Before:     map[string]string{"admission.waiting": "", "engine.profile": "", "log": ""},
		Applies:    map[string]settings.Applies{"admission.waiting": "now", "engine.profile": "start", "log": "now"},
		Overridden: []string{"log"}, Chain: changed.Chain,
	}
	if diff := cmp.Diff(want, changed); diff != "" || len(changed.Chain) == 0 {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{`settings.changed engine.profile "">small start`, "settings.changed admission.waiting 64>7 now"}, r.told()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if !cmp.Equal(r.applied, []int{7}) {
		t.Errorf("applied %v", r.applied)
	}
	s := r.State()
	if force := s.InForce(); force.Admission.Waiting != 7 || force.Engine.Profile != "" || s.Engine.Profile != "small" || force.Log != "warn" {
		t.Errorf("in force: %+v", force)
	}
	if data, _ := os.ReadFile(r.path); !strings.HasPrefix(string(data), "log = \"debug\"\n# mine\n") {
		t.Errorf("file:\n%s", data)
	}
}

func TestAChangeThatBreaksTheChainChangesNothing(t *testing.T) {
	r := start(t, "log = \"info\"\n", nil)
	for _, try := range []func(map[string]string) (settings.Changed, error){r.Change, r.Preview} {
		_, err := try(map[string]string{"admission.executing": "9", "log": "warn"})
		refused, ok := errors.AsType[*settings.ProblemsError](err)
		if !ok || len(refused.Problems) != 1 {
			t.Fatalf("error is %v", err)
		}
		want := map[string]string{"link": "permits_slots", "left": "admission.executing", "left_value": "9", "op": "≤", "right": "-np", "right_value": "4",
			"unit": "requests", "knob": "engine.flags", "value": "-np 9 -c 147456", "instead": "admission.executing", "instead_value": "4"}
		if diff := cmp.Diff(want, refused.Problems[0].Args); diff != "" {
			t.Errorf("refusal (-want +got):\n%s", diff)
		}
	}
	preview, _ := r.Preview(map[string]string{"admission.executing": "9"})
	if links := brokenLinks(preview.Chain); !cmp.Equal(links, []settings.Link{settings.LinkPermitsSlots}) {
		t.Errorf("preview's chain is broken at %v", links)
	}
	if _, err := r.Preview(map[string]string{"engine.profile": "small"}); err != nil {
		t.Error(err)
	}
	if data, _ := os.ReadFile(r.path); string(data) != "log = \"info\"\n" || len(r.told()) != 0 || len(r.applied) != 0 {
		t.Errorf("file %q, applied %v", data, r.applied)
	}
}

// What somebody writes into the file counts within moments, when it holds.
func TestAnEditedFileIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, "", nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		steps := []struct {
			content string
			events  []string
			waiting int
			refused bool
		}{
			{"[admission]\nwaiting = 5\n", []string{"settings.changed admission.waiting 64>5 now"}, 5, false},
			{"[admission]\nwaiting = 6\nexecuting = 9\n", []string{"settings.refused admission.executing (9) must be ≤ -np (4); set engine.flags to -np 9 -c 147456, or admission.executing to 4"}, 5, true},
			{"[admission]\nwaitng = 61\n", []string{"settings.refused admission.waitng is no setting; did you mean admission.waiting?"}, 5, true},
			{"[admission]\nwaiting = \n", []string{"settings.refused read settings " + r.path + ": line 2, column 11: toml: unexpected character U+000A at start of value"}, 5, true},
			{"[admission]\nwaiting = 62\n", []string{"settings.changed admission.waiting 5>62 now"}, 62, false},
		}
		for _, step := range steps {
			r.write(t, step.content)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if diff := cmp.Diff(step.events, r.told()); diff != "" {
				t.Errorf("%q: events (-want +got):\n%s", step.content, diff)
			}
			if s := r.State(); s.Admission.Waiting != step.waiting || (s.Refused != nil) != step.refused {
				t.Errorf("%q: waiting %d, refused %v", step.content, s.Admission.Waiting, s.Refused)
			}
		}
		if err := os.Remove(r.path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := r.Now().Admission.Waiting; got != 64 {
			t.Errorf("without a file: waiting %d", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Addresses may hold a password; events are read by many.
func TestEventsKeepPasswordsOut(t *testing.T) {
	r := start(t, "", nil)
	if _, err := r.Change(map[string]string{"models.mirror": "https://hub.example"}); err != nil {
		t.Fatal(err)
	}
	if told := r.told(); !cmp.Equal(told, []string{"settings.changed models.mirror https://huggingface.co>https://hub.example start"}) {
		t.Errorf("%v", told)
	}
	if _, err := r.Change(map[string]string{"engine.flags": "--x user:secret@host"}); err != nil {
		t.Fatal(err)
	}
	if told := r.told(); len(told) != 1 || strings.Contains(told[0], "secret") {
		t.Errorf("%v", told)
	}
}
