package app

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/locations"
	"github.com/ondol-app/ondol/internal/search"
	"github.com/ondol-app/ondol/internal/settings"
)

func touch(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Each step adds a place that goes before the ones so far.
func TestFindModel(t *testing.T) {
	dir := t.TempDir()
	paths := locations.Paths{Data: filepath.Join(dir, "home [1]")} // no character of a path is special
	executable := filepath.Join(dir, "build", "bin", "ondol")
	find := func(setting string) string { return findModel(setting, paths, executable) }
	if got := find(""); got != "" {
		t.Errorf("without any: %q", got)
	}
	for _, path := range []string{
		filepath.Join(dir, "build", "deps", "models", starterModel),
		filepath.Join(dir, "build", "Resources", starterModel),
		filepath.Join(paths.Models(), starterModel),
		filepath.Join(paths.Models(), "qwen3-embedding-4b.gguf"), // sorts after the starter
	} {
		touch(t, path)
		touch(t, path+".part") // a download under way is no model
		if got := find(""); got != path {
			t.Errorf("found %q, want %q", got, path)
		}
	}
	if got := find("/elsewhere.gguf"); got != "/elsewhere.gguf" {
		t.Errorf("with a setting: %q", got)
	}
}

func TestChooseProfile(t *testing.T) {
	for _, tt := range []struct{ set, model, want string }{
		{"", "/m/" + starterModel, "starter"},
		{"", "/m/other.gguf", "standard"},
		{"", "", "standard"},
		{"small", "/m/" + starterModel, "small"},
	} {
		got, err := chooseProfile(settings.Engine{Profile: tt.set, Flags: []string{"-t", "4"}}, tt.model)
		if err != nil {
			t.Fatal(err)
		}
		n := len(got.Flags)
		if got.Name != tt.want || !slices.Equal(got.Flags[n-2:], []string{"-t", "4"}) {
			t.Errorf("%+v: %s %v", tt, got.Name, got.Flags)
		}
	}
	if _, err := chooseProfile(settings.Engine{Profile: "huge"}, ""); err == nil || !strings.Contains(err.Error(), "reference") {
		t.Errorf("unknown profile: %v", err)
	}
}

// Only the engine that is there now, of the family that was measured, is believed.
func TestTrust(t *testing.T) {
	for _, tt := range []struct {
		name, fingerprint string
		want              search.Trust
	}{
		{"Qwen3-Embedding-4B-Q8_0", "now", search.StrongTrust()},
		{"Qwen3-Embedding-4B-Q8_0", "before", search.WeakTrust()},
		{"ondol-starter-en", "now", search.WeakTrust()},
	} {
		engine := llamaserver.Status{Fingerprint: "now", Model: llamaserver.Model{Name: tt.name}}
		if got := searchTrust(func() llamaserver.Status { return engine })(tt.fingerprint); got != tt.want {
			t.Errorf("%s, vectors of %s: %+v", tt.name, tt.fingerprint, got)
		}
	}
}
