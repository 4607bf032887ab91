package gateway_test

import (
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/gateway"
)

const secret = "k-0123456789abcdefghij"

func locked(c *gateway.Config) {
	c.RequireKey = true
	c.Keys = []gateway.Key{{Name: "token", Secret: secret}, {Name: "langchain", Secret: "another-secret-of-size", DecodeTokenIDs: gateway.VocabularyCL100K}}
	c.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("metrics\n")) })
}

func TestRequiredKey(t *testing.T) {
	tests := []struct {
		name   string
		header []string
		passes bool
	}{
		{"none", nil, false},
		{"bearer", []string{"Authorization: Bearer " + secret}, true},
		{"other case", []string{"Authorization: bearer " + secret}, true},
		{"x-api-key", []string{"X-Api-Key: " + secret}, true},
		{"api-key", []string{"Api-Key: " + secret}, true},
		{"second key", []string{"Authorization: Bearer another-secret-of-size"}, true},
		{"a placeholder beside it", []string{"Authorization: Bearer default-key", "Api-Key: " + secret}, true},
		{"wrong", []string{"Authorization: Bearer k-0123456789abcdefghix"}, false},
		{"prefix", []string{"Authorization: Bearer k-0123456789"}, false},
		{"longer", []string{"Authorization: Bearer " + secret + "x"}, false},
		{"empty", []string{"Authorization: Bearer "}, false},
		{"basic", []string{"Authorization: Basic " + secret}, false},
		{"bare", []string{"Authorization: " + secret}, false},
		{"too many", []string{"Api-Key: a", "Api-Key: b", "Api-Key: c", "Api-Key: d", "Api-Key: " + secret}, false},
	}
	routes := []struct{ method, path, body string }{
		{"POST", "/v1/embeddings", `{"input":"x"}`}, {"GET", "/v1/models", ""}, {"POST", "/api/embed", `{"model":"starter","input":"x"}`},
		{"GET", "/api/tags", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			door := newDoor()
			g := setup(t, door, locked)
			for _, r := range routes {
				w := call(g, r.method, r.path, r.body, tt.header...)
				if (w.Code == 200) != tt.passes || !tt.passes && (w.Code != 401 || w.Header().Get("WWW-Authenticate") != `Bearer realm="ondol"`) {
					t.Errorf("%s %s: %d %v", r.method, r.path, w.Code, w.Header())
				}
			}
			if !tt.passes && len(door.seen) > 0 {
				t.Errorf("the door saw %v", door.seen)
			}
		})
	}
	g := setup(t, newDoor(), locked)
	golden(t, "no_key", call(g, "POST", "/v1/embeddings", `{"input":"x"}`))
	golden(t, "ollama_no_key", call(g, "POST", "/api/embed", `{"input":"x"}`))
	if w := call(g, "GET", "/nowhere", ""); w.Code != 401 {
		t.Errorf("unknown path: %d, want 401", w.Code)
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/", "/api/version"} {
		if w := call(g, "GET", path, ""); w.Code != 200 {
			t.Errorf("%s without a key: %d", path, w.Code)
		}
	}
}

// Without the requirement every key passes, known or not.
func TestKeyIsOptional(t *testing.T) {
	g := setup(t, newDoor(), func(c *gateway.Config) { locked(c); c.RequireKey = false })
	for _, header := range [][]string{nil, {"Authorization: Bearer wrong"}, {"Authorization: Bearer " + secret}} {
		if w := call(g, "POST", "/v1/embeddings", `{"input":"x"}`, header...); w.Code != 200 {
			t.Errorf("%v: %d", header, w.Code)
		}
	}
}

func TestDecodeTokenIDs(t *testing.T) {
	// 15339 is "hello", 1917 " world"; 168 is the first byte of a longer character.
	tests := []struct {
		name, input string
		want        []string
	}{
		{"one text", `[15339,1917]`, []string{"hello world"}},
		{"several", `[[15339,1917],[15339]]`, []string{"hello world", "hello"}},
		{"text still works", `["plain"]`, []string{"plain"}},
		{"cut inside a character", `[[15339,168]]`, []string{"hello�"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			door := newDoor()
			g := setup(t, door, func(c *gateway.Config) { locked(c); c.RequireKey = false })
			w := call(g, "POST", "/v1/embeddings", `{"input":`+tt.input+`}`, "Authorization: Bearer another-secret-of-size")
			if w.Code != 200 || len(door.seen) != 1 {
				t.Fatalf("got %d %s", w.Code, w.Body)
			}
			if diff := cmp.Diff(tt.want, door.seen[0].Inputs); diff != "" {
				t.Errorf("inputs (-want +got):\n%s", diff)
			}
		})
	}
	for name, header := range map[string]string{"no key": "", "key without decoding": "Authorization: Bearer " + secret} {
		w := call(setup(t, newDoor(), func(c *gateway.Config) { locked(c); c.RequireKey = false }),
			"POST", "/v1/embeddings", `{"input":[15339,1917]}`, header)
		if code := errorCode(t, w); w.Code != 400 || code != "token_ids_unsupported" {
			t.Errorf("%s: %d %s", name, w.Code, code)
		}
	}
	w := call(setup(t, newDoor(), locked), "POST", "/v1/embeddings", `{"input":[99999999]}`, "Authorization: Bearer another-secret-of-size")
	if code := errorCode(t, w); w.Code != 400 || code != "invalid_value" {
		t.Errorf("unknown id: %d %s", w.Code, w.Body)
	}
}

func TestKeysRefused(t *testing.T) {
	for name, change := range map[string]func(*gateway.Config){
		"none set":           func(c *gateway.Config) { c.RequireKey = true },
		"short":              func(c *gateway.Config) { c.Keys = []gateway.Key{{Name: "k", Secret: "short"}} },
		"unknown vocabulary": func(c *gateway.Config) { c.Keys = []gateway.Key{{Name: "k", Secret: secret, DecodeTokenIDs: "qwen"}} },
	} {
		cfg := gateway.Config{Embedder: newDoor(), Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)}
		change(&cfg)
		if _, err := gateway.New(cfg); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "home", "token")
	var got [8]string
	var group sync.WaitGroup
	for i := range got {
		group.Go(func() {
			token, err := gateway.Token(path)
			if err != nil {
				t.Error(err)
			}
			got[i] = token
		})
	}
	group.Wait()
	for _, token := range got {
		if token != got[0] || len(token) < 50 {
			t.Errorf("tokens %q and %q", got[0], token)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file: %v, %v", info.Mode(), err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	other, err := gateway.Token(filepath.Join(t.TempDir(), "token"))
	if err != nil || other == got[0] {
		t.Errorf("another token = %q, %v", other, err)
	}
}

func TestTokenRefuses(t *testing.T) {
	dir := t.TempDir()
	open, empty, link := filepath.Join(dir, "open"), filepath.Join(dir, "empty"), filepath.Join(dir, "link")
	for path, mode := range map[string]fs.FileMode{open: 0o644, empty: 0o600} {
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(empty, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{open, empty, link, dir} {
		if token, err := gateway.Token(path); err == nil || !strings.Contains(err.Error(), "delete it") {
			t.Errorf("%s: %q, %v", path, token, err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "file"), 0o500); err != nil {
		t.Fatal(err)
	}
	if _, err := gateway.Token(filepath.Join(open, "token")); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("below a file: %v", err)
	}
}
