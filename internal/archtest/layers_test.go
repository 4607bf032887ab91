package archtest_test

import (
	"slices"
	"strings"
	"testing"
)

const module = "github.com/ondol-app/ondol"

// layers is the architecture. A package imports packages of lower layers only;
// a name stands for the folder below internal and everything in it.
var layers = map[string]int{
	// 1: nouns, and what every client of an engine stands on. They import nothing of ours.
	"document": 1, "vector": 1, "openai": 1, "metrics": 1, "upstream": 1, "event": 1, "trust": 1,
	// 2: mechanisms and policies, one technology or one decision each.
	"admission": 2, "process": 2, "llamaclient": 2, "watch": 2, "extract": 2, "chunk": 2, "ignore": 2,
	"sqlite": 2, "vectorcache": 2, "settings": 2, "locations": 2, "logs": 2, "keychain": 2, "history": 2, "gguf": 2, "canary": 2, "download": 2, "power": 2, "gpu": 2,
	// 3: parts with a life of their own.
	"embedding": 3, "llamaserver": 3, "journal": 3, "indexer": 3, "search": 3, "relay": 3, "remote": 3, "models": 3, "trial": 3, "yielding": 3,
	// 4: parts made of parts.
	"engines": 4,
	// 5: surfaces.
	"gateway": 5, "control": 5, "prom": 5,
	// 6: a surface that is a client of another one.
	"mcpserver": 6,
	// 7: for tests only; see testOnly.
	"archtest": 7, "enginetest": 7,
}

// testOnly packages are imported by tests alone.
var testOnly = []string{"archtest", "enginetest", "llamaserver/fakellama", "models/hubtest"}

// policies decide: they are handed everything and touch nothing.
var policies = []string{"admission", "chunk", "ignore", "vector", "yielding"}

// soleImporters lists imports that belong to one place; each stands for
// everything below it too.
var soleImporters = map[string][]string{
	"github.com/mattn/go-sqlite3":      {"internal/sqlite"},
	"database/sql":                     {"internal/sqlite"},
	"os/exec":                          {"internal/process", "build/tools"},
	"github.com/wailsapp/":             {"app"},
	"fyne.io/systray":                  {"app"},
	"github.com/fsnotify/":             {"internal/watch"},
	"github.com/pelletier/go-toml/":    {"internal/settings"},
	"gopkg.in/natefinch/lumberjack.":   {"internal/logs", "internal/llamaserver"},
	"github.com/spf13/":                {"app"},
	"github.com/zalando/go-keyring":    {"internal/keychain"},
	"github.com/modelcontextprotocol/": {"internal/mcpserver"},
	"github.com/ebitengine/purego":     {"internal/gpu", "internal/power"},
}

// impure is what a policy must not import.
var impure = []string{"net", "os", "io", "bufio", "log", "syscall", "database", "embed", "path/filepath", "golang.org/x/sys"}

func TestImportsOnlyGoDown(t *testing.T) {
	for _, f := range sources(t) {
		from := f.internal()
		if from == "" || f.isTest() {
			continue // app and main are above everything; tests may look around
		}
		level, ok := layers[top(from)]
		if !ok {
			t.Errorf("internal/%s is in no layer: enter it in layers_test.go", from)
			continue
		}
		for _, imp := range f.imports {
			rest, ours := strings.CutPrefix(imp, module+"/")
			if !ours {
				continue
			}
			to, internal := strings.CutPrefix(rest, "internal/")
			switch {
			case !internal:
				t.Errorf("%s imports %s, which is above it", f.path, rest)
			case slices.Contains(testOnly, to) && !slices.Contains(testOnly, from):
				t.Errorf("%s imports %s, which is for tests", f.path, rest)
			case top(to) != top(from) && layers[top(to)] >= level:
				t.Errorf("%s (layer %d) imports %s (layer %d): imports only go down", f.path, level, rest, layers[top(to)])
			}
		}
	}
}

func TestTestPackagesStayInTests(t *testing.T) {
	for _, f := range sources(t) {
		if f.isTest() || slices.Contains(testOnly, f.internal()) {
			continue
		}
		for _, imp := range f.imports {
			if imp == "testing" || slices.ContainsFunc(testOnly, func(p string) bool { return imp == module+"/internal/"+p }) {
				t.Errorf("%s imports %s outside a test", f.path, imp)
			}
		}
	}
}

func TestImportsThatBelongToOnePlace(t *testing.T) {
	for _, f := range sources(t) {
		if f.isTest() || slices.Contains(testOnly, f.internal()) {
			continue
		}
		for _, imp := range f.imports {
			for pattern, homes := range soleImporters {
				if !matches(imp, pattern) {
					continue
				}
				if !slices.ContainsFunc(homes, func(home string) bool { return f.dir == home || strings.HasPrefix(f.dir, home+"/") }) {
					t.Errorf("%s imports %s; only %s may", f.path, imp, strings.Join(homes, ", "))
				}
			}
		}
	}
}

func TestPoliciesOnlyDecide(t *testing.T) {
	for _, f := range sources(t) {
		if f.isTest() || !slices.Contains(policies, f.internal()) {
			continue
		}
		for _, imp := range f.imports {
			if slices.ContainsFunc(impure, func(p string) bool { return matches(imp, p) }) {
				t.Errorf("%s imports %s: a policy does no I/O", f.path, imp)
			}
		}
		if f.startsGoroutine {
			t.Errorf("%s starts a goroutine: a policy only decides", f.path)
		}
	}
}

// TestTablesAreCurrent fails on an entry whose package is gone, so that the
// tables cannot rot.
func TestTablesAreCurrent(t *testing.T) {
	have := map[string]bool{}
	for _, f := range sources(t) {
		have[top(f.internal())] = true
		have[f.internal()] = true
	}
	for _, list := range [][]string{policies, testOnly} {
		for _, name := range list {
			if !have[name] {
				t.Errorf("internal/%s does not exist", name)
			}
		}
	}
	for name := range layers {
		if !have[name] {
			t.Errorf("internal/%s does not exist", name)
		}
	}
}

// matches reports whether imp is pattern or below it; a pattern that ends in
// a dot or a slash is a plain prefix.
func matches(imp, pattern string) bool {
	if strings.HasSuffix(pattern, "/") || strings.HasSuffix(pattern, ".") {
		return strings.HasPrefix(imp, pattern)
	}
	return imp == pattern || strings.HasPrefix(imp, pattern+"/")
}

// top is the first element of a path.
func top(p string) string {
	first, _, _ := strings.Cut(p, "/")
	return first
}
