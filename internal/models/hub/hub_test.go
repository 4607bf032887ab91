package hub_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/models/hub"
	"github.com/ondol-app/ondol/internal/models/hubtest"
)

func ask(t *testing.T, mirror, token string) *hub.Hub {
	t.Helper()
	h, err := hub.New(hub.Config{Mirror: mirror, Token: func(context.Context) (string, error) { return token, nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

func TestAsk(t *testing.T) {
	b := hubtest.Model(1, 5000)
	tests := []struct {
		name   string
		change func(*hubtest.Hub)
		want   hub.File // without revision and addresses
	}{
		{"by headers", nil, hub.File{Size: 5000, SHA256: hubtest.Sum(b), Licence: "apache-2.0"}},
		{"by the listing", func(h *hubtest.Hub) { h.NoHeaders = true }, hub.File{Size: 5000, SHA256: hubtest.Sum(b), Licence: "apache-2.0"}},
		{"no hash", func(h *hubtest.Hub) { h.SHA256 = "" }, hub.File{Size: 5000, Licence: "apache-2.0"}},
		{"no licence", func(h *hubtest.Hub) { h.Licence = "" }, hub.File{Size: 5000, SHA256: hubtest.Sum(b), Licence: "unknown"}},
		{"with a token", func(h *hubtest.Hub) { h.Token = "hf_secret" }, hub.File{Size: 5000, SHA256: hubtest.Sum(b), Licence: "apache-2.0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := hubtest.Start(t, "owner/repo", "sub/m.gguf", b)
			if tt.change != nil {
				tt.change(s)
			}
			got, err := ask(t, s.URL+"/", "hf_secret").Ask(t.Context(), "owner/repo", "sub/m.gguf")
			if err != nil {
				t.Fatal(err)
			}
			tt.want.Revision, tt.want.URL = hubtest.Revision, s.URL+"/owner/repo/resolve/"+hubtest.Revision+"/sub/m.gguf"
			tt.want.LicenceURL = s.URL + "/owner/repo"
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("file (-want +got):\n%s", diff)
			}
			if len(s.Ranges()) != 0 {
				t.Error("the storage was asked")
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	s := hubtest.Start(t, "owner/repo", "m.gguf", hubtest.Model(2, 100))
	s.Token = "hf_right"
	for _, token := range []string{"", "hf_wrong"} {
		_, err := ask(t, s.URL, token).Ask(t.Context(), "owner/repo", "m.gguf")
		e, ok := errors.AsType[*hub.AccessError](err)
		if !ok || e.Token != (token != "") || e.Page != s.URL+"/owner/repo" {
			t.Errorf("token %q: %v", token, err)
		}
	}
	_, err := ask(t, s.URL, "hf_right").Ask(t.Context(), "owner/repo", "other.gguf")
	if e, ok := errors.AsType[*hub.NotFoundError](err); !ok || e.File != "other.gguf" {
		t.Errorf("no such file: %v", err)
	}
	_, err = ask(t, s.URL, "hf_right").Ask(t.Context(), "owner/none", "m.gguf")
	if e, ok := errors.AsType[*hub.NotFoundError](err); !ok || e.Repo != "owner/none" || e.File != "" {
		t.Errorf("no such repository: %v", err)
	}
	locked := errors.New("the keychain is locked")
	h, err := hub.New(hub.Config{Mirror: s.URL, Token: func(context.Context) (string, error) { return "", locked }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Ask(t.Context(), "owner/repo", "m.gguf"); !errors.Is(err, locked) {
		t.Errorf("locked keychain: %v", err)
	}
}

func TestUnreachable(t *testing.T) {
	answers := map[string]http.HandlerFunc{
		"broken": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"page":   func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>sign in</html>")) },
		"no hub": func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("{}")) },
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://portal.invalid/", http.StatusFound)
		},
		"mute": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(answer)
			defer s.Close()
			h, err := hub.New(hub.Config{Mirror: s.URL, Timeout: 300 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			if _, err := h.Ask(t.Context(), "a/b", "c.gguf"); !isUnreachable(err) {
				t.Errorf("%v", err)
			}
		})
	}
	s := httptest.NewServer(nil)
	s.Close()
	if _, err := ask(t, s.URL, "").Ask(t.Context(), "a/b", "c.gguf"); !isUnreachable(err) {
		t.Errorf("nobody there: %v", err)
	}
}

func isUnreachable(err error) bool {
	_, ok := errors.AsType[*hub.UnreachableError](err)
	return ok
}

func TestLicences(t *testing.T) {
	for card, want := range map[string][2]string{
		`"cardData":{"license":"mit"}`: {"mit", "/a/b"},
		`"tags":["license:gemma"]`:     {"gemma", "/a/b"},
		`"cardData":{"license":"other","license_name":"nvidia-open","license_link":"https://nvidia.invalid/l"}`: {"nvidia-open", "https://nvidia.invalid/l"},
		`"cardData":{"license":"other","license_name":"own","license_link":"LICENSE"}`:                          {"own", "/a/b/blob/main/LICENSE"},
		`"cardData":{"license":["mit","apache-2.0"]},"tags":["license:mit"]`:                                    {"mit", "/a/b"},
		`"cardData":{"license":"x","license_link":"javascript:alert(1)"}`:                                       {"x", "/a/b"},
		`"tags":[]`: {"unknown", "/a/b"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodHead {
				w.Header().Set("X-Linked-Etag", `"`+hubtest.Sum(nil)+`"`)
				return
			}
			w.Write([]byte(`{"sha":"` + hubtest.Revision + `",` + card + `}`))
		}))
		if want[1][0] == '/' {
			want[1] = s.URL + want[1]
		}
		got, err := ask(t, s.URL, "").Ask(t.Context(), "a/b", "c.gguf")
		if err != nil || got.Licence != want[0] || got.LicenceURL != want[1] {
			t.Errorf("%s: %q %q, %v", card, got.Licence, got.LicenceURL, err)
		}
		s.Close()
	}
}

// A token is not shown to a mirror that everybody on the network can listen to.
func TestTokenOverPlainHTTP(t *testing.T) {
	for mirror, want := range map[string]string{"http://mirror.invalid": "", "https://mirror.invalid": "hf_x", "http://127.0.0.1:9": "hf_x"} {
		if got, err := ask(t, mirror, "hf_x").Token(t.Context()); err != nil || got != want {
			t.Errorf("%s: %q, %v", mirror, got, err)
		}
	}
	for _, mirror := range []string{"", "huggingface.co", "ftp://a"} {
		if _, err := hub.New(hub.Config{Mirror: mirror}); err == nil {
			t.Errorf("%q was taken", mirror)
		}
	}
}
