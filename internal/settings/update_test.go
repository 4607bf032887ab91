package settings_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ondol-app/ondol/internal/settings"
)

func TestUpdateIsUndoneByWhatItReturns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.toml")
	start := "# mine\n[engine]\nmodel = \"/old model.gguf\" # here\nflags = [\"-t\", \"4\"]\n\n[admission]\nwait = \"90s\"\n"
	if err := os.WriteFile(path, []byte(start), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := settings.Update(file(path), map[string]string{
		"engine.model": "/new.gguf", "engine.profile": "small", "engine.flags": "", "admission.wait": "2m", "require_key": "true",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{
		"engine.model": "/old model.gguf", "engine.profile": "", "engine.flags": "-t 4", "admission.wait": "1m30s", "require_key": "",
	}, before); diff != "" {
		t.Errorf("before (-want +got):\n%s", diff)
	}
	got, _ := os.ReadFile(path)
	want := "require_key = true\n# mine\n[engine]\nmodel = \"/new.gguf\" # here\nprofile = \"small\"\n\n[admission]\nwait = \"2m\"\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	if _, err := settings.Update(file(path), before, nil); err != nil {
		t.Fatal(err)
	}
	got, _ = os.ReadFile(path)
	want = "# mine\n[engine]\nmodel = \"/old model.gguf\" # here\nflags = [\"-t\", \"4\"]\n\n[admission]\nwait = \"1m30s\"\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("undone (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestUpdateIsAllOrNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.toml")
	_, err := settings.Update(file(path), map[string]string{"log": "debug", "lgo": "info", "admission.wait": "soon"}, nil)
	problems, ok := errors.AsType[*settings.ProblemsError](err)
	if !ok || len(problems.Problems) != 2 {
		t.Fatalf("error is %v, want both faults at once", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused change left a file: %v", err)
	}
}

// What is wrong in the file can be set right.
func TestUpdateMendsABadValue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.toml")
	if err := os.WriteFile(path, []byte("[admission]\nexecuting = \"two\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := change(path, "log", "warn", nil); err == nil {
		t.Error("another value was changed in a file that cannot be loaded")
	}
	before, err := settings.Update(file(path), map[string]string{"admission.executing": "3"}, nil)
	if err != nil || before["admission.executing"] != "two" {
		t.Errorf("before %v, error %v", before, err)
	}
}

func TestUpdateFollowsALink(t *testing.T) {
	dir := t.TempDir()
	target, path := filepath.Join(dir, "dotfiles.toml"), filepath.Join(dir, "home", "settings.toml")
	if err := errors.Join(os.WriteFile(target, nil, 0o600), os.Mkdir(filepath.Dir(path), 0o700), os.Symlink(target, path)); err != nil {
		t.Fatal(err)
	}
	if err := change(path, "log", "warn", nil); err != nil {
		t.Fatal(err)
	}
	if data, _ := os.ReadFile(target); string(data) != "log = \"warn\"\n" {
		t.Errorf("target is %q", data)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", err)
	}
}

// Without turns one of two writers would put back what the other had changed.
func TestWritersTakeTurns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.toml")
	keys := []string{"engine.model", "engine.profile", "log", "index.max_file", "cache.disk", "roles.chat.url", "aliases", "admission.waiting"}
	values := []string{"/m", "small", "warn", "7", "8", "http://127.0.0.1:1", "a", "9"}
	var group sync.WaitGroup
	for i, key := range keys {
		group.Go(func() {
			for range 20 {
				for _, value := range []string{"", values[i]} {
					if err := change(path, key, value, nil); err != nil {
						t.Errorf("%s: %v", key, err)
					}
				}
			}
		})
	}
	group.Wait()
	loaded, err := settings.Load(settings.Config{File: path, Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	for i, key := range keys {
		if got, _ := loaded.Value(key); got != values[i] {
			t.Errorf("%s = %q, want %q", key, got, values[i])
		}
	}
}

func TestAWriterThatNeverEndsIsTold(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := change(filepath.Join(dir.Name(), "settings.toml"), "log", "warn", nil); !errors.Is(err, settings.ErrBusy) {
		t.Errorf("error is %v, want %v", err, settings.ErrBusy)
	}
	entries, err := os.ReadDir(dir.Name())
	if err != nil || len(entries) != 0 {
		t.Errorf("left behind: %s", fmt.Sprint(entries, err))
	}
}

// Flags with blanks and commas survive, and what does not change is not written.
func TestEngineChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.toml")
	from := settings.Engine{Server: "/s", Model: "/m.gguf", Flags: []string{"-t", "4"}}
	to := settings.Engine{Server: "/s", Profile: "small", Flags: []string{"-ts", "3,1", "--override-kv", "a b=str:c"}}
	changes := from.Changes(to)
	if _, ok := changes["engine.server"]; ok || len(changes) != 3 {
		t.Errorf("changes %v", changes)
	}
	if _, err := settings.Update(file(path), changes, nil); err != nil {
		t.Fatal(err)
	}
	got, err := settings.Load(settings.Config{File: path, Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	if got.Engine.Profile != "small" || got.Engine.Model != "" || !cmp.Equal(got.Engine.Flags, to.Flags) {
		t.Errorf("engine %+v", got.Engine)
	}
	if back := to.Changes(settings.Engine{}); len(back) != 3 || back["engine.flags"] != "" {
		t.Errorf("back: %v", back)
	}
}
