package app_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ondol-app/ondol/internal/locations"
)

// What keeps the app from starting is said in one line that names the remedy.
func TestStartIsRefusedInOneSentence(t *testing.T) {
	settingsFile := func(text string) func(*testing.T, *home) {
		return func(t *testing.T, h *home) { write(t, filepath.Join(h.dir, "settings.toml"), text) }
	}
	for _, tt := range []struct {
		name    string
		prepare func(*testing.T, *home)
		code    int
		says    []string
	}{
		{"damaged index", func(t *testing.T, h *home) {
			write(t, filepath.Join(h.dir, "data", "ondol.db"), strings.Repeat("no database ", 100))
		}, 1, []string{"ondol.db is damaged", "your own files are untouched", "Move it away", "the index is rebuilt"}},
		{"unknown profile", func(_ *testing.T, h *home) { h.env = append(h.env, "ONDOL_PROFILE=bogus") }, 2,
			[]string{"engine.profile = bogus: one of", "standard", "starter"}},
		{"too many permits", settingsFile("[admission]\nexecuting = 9\n"), 2, []string{"admission.executing (9) must be ≤ -np", "or set: admission.executing = 4"}},
		{"taken port", func(t *testing.T, h *home) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			h.env = append(h.env, "ONDOL_LISTEN="+l.Addr().String())
		}, 1, []string{"is taken by another program", "ONDOL_LISTEN=127.0.0.1:PORT"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHome(t)
			tt.prepare(t, h)
			code, out, errOut := h.ondol(t, "serve")
			if code != tt.code || out != "" {
				t.Errorf("exit %d, want %d; standard output %q", code, tt.code, out)
			}
			for _, want := range tt.says {
				if !strings.Contains(errOut, want) {
					t.Errorf("standard error has no %q:\n%s", want, errOut)
				}
			}
			if strings.Count(errOut, "\n") != 1 {
				t.Errorf("not one line:\n%s", errOut)
			}
			logged, err := os.ReadFile(filepath.Join(h.dir, "logs", "ondol.log"))
			if err != nil || !strings.Contains(string(logged), "Start refused") {
				t.Errorf("the log has %q, %v", logged, err)
			}
		})
	}
}

// A home too deep for sockets keeps them elsewhere; a clean end leaves nothing there.
func TestNothingIsLeftOfTheSockets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("deep", 25))
	h := newHomeAt(t, dir)
	paths, err := locations.Resolve(locations.Environment{GOOS: "linux", UID: os.Getuid(), Getenv: func(k string) string {
		return map[string]string{"ONDOL_HOME": dir}[k]
	}})
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(paths.Run, dir) {
		t.Fatalf("%s lies in the home", paths.Run)
	}
	r := h.serve(t)
	if _, err := os.Stat(paths.ControlSocket()); err != nil {
		t.Fatal(err)
	}
	if err := r.stop(); err != nil {
		t.Errorf("the app ended with %v", err)
	}
	if left, err := os.ReadDir(paths.Run); !os.IsNotExist(err) {
		t.Errorf("%s is left with %v (%v)", paths.Run, left, err)
	}
	// The log of the engine can still be read.
	code, out, errOut := h.ondol(t, "engine", "logs", "-n", "5")
	if code != 0 || out == "" || !strings.Contains(errOut, filepath.Join(paths.Logs, "llama-server.log")) {
		t.Errorf("engine logs: exit %d, %q, %q", code, out, errOut)
	}
}
