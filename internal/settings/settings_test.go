package settings_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/settings"
)

func load(t *testing.T, file string, env, flags map[string]string) (*settings.Loaded, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.toml")
	if file != "" {
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return settings.Load(settings.Config{File: path, Getenv: func(k string) string { return env[k] }, Flags: flags})
}

// file is the settings of a file alone.
func file(path string) settings.Config {
	return settings.Config{File: path, Getenv: func(string) string { return "" }}
}

// change is Update of one value.
func change(path, key, value string, accept func(*settings.Loaded) error) error {
	var accepts settings.Accept
	if accept != nil {
		accepts = func(_, after *settings.Loaded, _ []string) error { return accept(after) }
	}
	_, err := settings.Update(file(path), map[string]string{key: value}, accepts)
	return err
}

func TestDefaultsAreTheContract(t *testing.T) {
	got, err := load(t, "", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := settings.Settings{
		Listen: "127.0.0.1:7434", AllowedOrigins: []string{}, Aliases: []string{}, Log: "info",
		Engine:    settings.Engine{Flags: []string{}, MemoryCheck: true, CheckEvery: 1000, Silence: 2 * time.Minute, UnloadOnBattery: 15 * time.Minute, CandidateSlower: 110, Probation: 30 * time.Second},
		Admission: settings.Admission{Executing: 2, Waiting: 64, Wait: 120 * time.Second, Background: 1, Total: 300 * time.Second},
		Index:     settings.Index{ChunkMin: 400, ChunkMax: 600, MaxFile: 20, Reconcile: 10 * time.Minute, KeepGenerations: 168 * time.Hour},
		Cache:     settings.Cache{Memory: 64, Disk: 512},
		Journal:   settings.Journal{Events: 100_000, Age: 30 * 24 * time.Hour},
		Yield:     settings.Yield{GPU: 25, GPUResume: 10, After: 3 * time.Second, ResumeAfter: 15 * time.Second, Battery: true, LowPower: true},
		Models:    settings.Models{Mirror: "https://huggingface.co", Downloads: 1, Stall: 30 * time.Second},
		Roles: settings.Roles{
			Embed:  settings.Role{Kind: settings.KindLocal},
			Rerank: settings.Role{Flags: []string{}, Executing: 1, Waiting: 64, Wait: 120 * time.Second, Total: 300 * time.Second},
			Chat:   settings.Role{Flags: []string{}, Executing: 1, Waiting: 64, Wait: 120 * time.Second, Total: 300 * time.Second},
		},
	}
	if diff := cmp.Diff(want, got.Settings); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func TestOrderOfSources(t *testing.T) {
	file := "listen = \"127.0.0.1:1\"\nlog = \"warn\"\n[engine]\nmodel = \"/file\"\nflags = [\"-t\", \"4\"]\n"
	env := map[string]string{"ONDOL_LISTEN": "127.0.0.1:2", "ONDOL_MODEL": "/env"}
	got, err := load(t, file, env, map[string]string{"listen": "[::1]:3"})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]struct {
		value  string
		source settings.Source
	}{
		"listen":          {"[::1]:3", settings.FromFlag},
		"engine.model":    {"/env", settings.FromEnv},
		"log":             {"warn", settings.FromFile},
		"engine.flags":    {"-t 4", settings.FromFile},
		"index.reconcile": {"10m", settings.FromDefault},
	} {
		value, ok := got.Value(key)
		if !ok || value != want.value || got.Sources[key] != want.source {
			t.Errorf("%s = %q from %s, want %q from %s", key, value, got.Sources[key], want.value, want.source)
		}
	}
}

func TestEveryProblemIsNamedAtOnce(t *testing.T) {
	file := `
lisen = "127.0.0.1:1"
[admission]
executing = "two"
wait = "3 days"
[chunk]
max_file = 3
`
	_, err := load(t, file, map[string]string{"ONDOL_LISTEN": "0.0.0.0:7434"}, nil)
	problems, ok := errors.AsType[*settings.ProblemsError](err)
	if !ok {
		t.Fatalf("error is %v", err)
	}
	text := problems.Error()
	for _, want := range []string{
		"lisen is no setting; did you mean listen?",
		"admission.executing = two: a whole number from 1 to 64 (requests) is needed",
		`admission.wait = 3 days: a time from 1s to 1h is needed`,
		"chunk.max_file is no setting",
		"listen = 0.0.0.0:7434: only a loopback address",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %q in:\n%s", want, strings.ReplaceAll(text, "; ", "\n"))
		}
	}
	if len(problems.Problems) != 5 {
		t.Errorf("%d problems, want 5", len(problems.Problems))
	}
}

func TestGrammarErrorsCarryTheLine(t *testing.T) {
	_, err := load(t, "log = \"info\"\nlisten = \n", nil, nil)
	if err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("error is %v", err)
	}
}

func TestListenIsLoopback(t *testing.T) {
	for listen, want := range map[string]bool{
		"127.0.0.1:7434": true, "[::1]:7434": true, "localhost:1": true, "127.0.0.1:0": true, "127.9.9.9:80": true,
		"0.0.0.0:7434": false, ":7434": false, "192.168.0.2:7434": false, "127.0.0.1": false, "127.0.0.1:70000": false, "example.org:80": false,
	} {
		_, err := load(t, "", nil, map[string]string{"listen": listen})
		if (err == nil) != want {
			t.Errorf("%s: %v", listen, err)
		}
	}
}

func TestUpdateKeepsTheRestOfTheFile(t *testing.T) {
	tests := []struct{ name, before, key, value, after string }{
		{"new file", "", "engine.model", `/m "1".gguf`, "[engine]\nmodel = \"/m \\\"1\\\".gguf\"\n"},
		{"value replaced, comments kept", "# mine\nlog = 'info' # quiet\n", "log", "debug", "# mine\nlog = \"debug\" # quiet\n"},
		{"several lines replaced", "[engine]\nflags = [\n  \"-t\", # threads\n  \"4\",\n]\nmodel = \"/m\"\n", "engine.flags", "-t 8", "[engine]\nflags = [\"-t\", \"8\"]\nmodel = \"/m\"\n"},
		{"joins its table", "[engine]\nmodel = \"/m\" # here\n\n[index]\nmax_file = 1\n", "engine.profile", "small", "[engine]\nmodel = \"/m\" # here\nprofile = \"small\"\n\n[index]\nmax_file = 1\n"},
		{"empty table", "[engine]", "engine.profile", "small", "[engine]\nprofile = \"small\"\n"},
		{"top level goes before tables", "[index]\nmax_file = 1\n", "log", "warn", "log = \"warn\"\n[index]\nmax_file = 1\n"},
		{"dotted key", "engine.model = \"/a\"\n", "engine.model", "/b", "engine.model = \"/b\"\n"},
		{"empty goes back to the default", "[engine]\nmodel = \"/m\"\nprofile = \"small\"\n", "engine.model", "", "[engine]\nprofile = \"small\"\n"},
		{"its comment stays", "log = 'info' # quiet\n# more\n", "log", "", "# quiet\n# more\n"},
		{"several lines taken out", "[engine]\nflags = [\n  \"-t\", # threads\n  \"4\",\n]\nmodel = \"/m\"", "engine.flags", "", "[engine]\nmodel = \"/m\""},
		{"last line taken out", "log = \"info\"\nrequire_key = true", "require_key", "", "log = \"info\"\n"},
		{"not there, not taken out", "log = \"info\"\n", "engine.model", "", "log = \"info\"\n"},
		{"no line break at the end", "log = \"info\"", "index.reconcile", "90s", "log = \"info\"\n\n[index]\nreconcile = \"1m30s\"\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "sub", "settings.toml")
			if tt.before != "" {
				if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(tt.before), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := change(path, tt.key, tt.value, nil); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.after, string(got)); diff != "" {
				t.Errorf("file (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUpdateRefusesAndChangesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "settings.toml")
	before := "log = \"info\"\n"
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	veto := errors.New("veto")
	for _, set := range []func() error{
		func() error { return change(path, "admission.wiating", "3", nil) },
		func() error { return change(path, "admission.waiting", "-3", nil) },
		func() error { return change(path, "listen", "10.0.0.1:1", nil) },
		func() error {
			return change(path, "log", "debug", func(*settings.Loaded) error { return veto })
		},
	} {
		if set() == nil {
			t.Error("a bad change was accepted")
		}
	}
	entries, _ := os.ReadDir(dir)
	if got, _ := os.ReadFile(path); string(got) != before || len(entries) != 1 {
		t.Errorf("file is %q among %d entries", got, len(entries))
	}
}

// What a value must be has a code and its placeholders, for every language.
func TestNeedsHaveCodes(t *testing.T) {
	for pair, want := range map[string]map[string]string{
		"listen=0.0.0.0:80":          {"need": "loopback"},
		"listen=nowhere":             {"need": "address"},
		"listen=127.0.0.1:x":         {"need": "port"},
		"log=loud":                   {"need": "one_of", "choices": "debug, info, warn, error"},
		"admission.executing=-1":     {"need": "whole_number", "min": "1", "max": "64", "unit": "requests"},
		"admission.wait=soon":        {"need": "time", "min": "1s", "max": "1h"},
		"require_key=perhaps":        {"need": "yes_no"},
		"allowed_origins=*":          {"need": "origin"},
		"roles.rerank.kind=ollama":   {"need": "ollama_rerank"},
		"roles.embed.key=sk-secret1": {"need": "account"},
	} {
		key, value, _ := strings.Cut(pair, "=")
		err := change(filepath.Join(t.TempDir(), "settings.toml"), key, value, nil)
		problems, ok := errors.AsType[*settings.ProblemsError](err)
		if !ok {
			t.Errorf("%s: %v", pair, err)
			continue
		}
		for name, text := range want {
			if got := problems.Problems[0].Args[name]; got != text {
				t.Errorf("%s: %s is %q, want %q", pair, name, got, text)
			}
		}
	}
	if err := settings.NoChoice("engine.profile", "bogus", "a", "b"); err.Error() != "engine.profile = bogus: one of a, b is needed" {
		t.Errorf("no choice: %v", err)
	}
}
