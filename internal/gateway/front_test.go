package gateway_test

import (
	"net/http"
	"testing"

	"github.com/ondol-app/ondol/internal/gateway"
)

func TestHost(t *testing.T) {
	g := setup(t, newDoor(), nil)
	allowed := []string{"127.0.0.1", "127.0.0.1:7434", "127.0.0.1:9", "127.8.9.1:80", "localhost", "localhost:7434", "LocalHost:7434",
		"localhost.:7434", "[::1]", "[::1]:7434", "[0:0:0:0:0:0:0:1]:7434"}
	refused := []string{"", "example.com", "example.com:7434", "127.0.0.1.example.com", "localhost.example.com:7434", "evil-localhost",
		"192.168.1.5:7434", "0.0.0.0:7434", "[::]:7434", "::1", "[::1", "[localhost]:7434x", "127.0.0.1:", "127.0.0.1:74a", "127.0.0.1:1:2", "127.1",
		"2130706433", "0177.0.0.1", "[::ffff:127.0.0.1]:7434", "[::1%25lo]:7434", "[fe80::1]:7434", "127.0.0.1@evil:80", "localhost\x00"}
	for _, path := range []string{"/healthz", "/v1/models", "/nowhere"} {
		for _, host := range allowed {
			if w := call(g, http.MethodGet, path, "", "Host: "+host); w.Code == http.StatusMisdirectedRequest || w.Code == http.StatusForbidden {
				t.Errorf("Host %q %s: %d, want it to pass", host, path, w.Code)
			}
		}
		for _, host := range refused {
			w := call(g, http.MethodGet, path, "", "Host: "+host)
			if code := errorCode(t, w); w.Code != http.StatusMisdirectedRequest || code != "misdirected_request" {
				t.Errorf("Host %q %s: %d %s, want 421", host, path, w.Code, code)
			}
		}
	}
	golden(t, "host", call(g, http.MethodGet, "/healthz", "", "Host: rebound.example:7434"))
}

func TestOrigin(t *testing.T) {
	g := setup(t, newDoor(), func(c *gateway.Config) {
		c.AllowedOrigins = []string{"app://obsidian.md", "vscode-webview://*", "http://localhost:3000/"}
	})
	tests := []struct {
		name   string
		header []string
		status int
		cors   string
	}{
		{"none", nil, 200, ""},
		{"own", []string{"Origin: http://127.0.0.1:7434"}, 200, ""},
		{"own by name", []string{"Host: localhost:7434", "Origin: http://localhost:7434"}, 200, ""},
		{"own by IPv6", []string{"Host: [::1]:7434", "Origin: http://[::1]:7434"}, 200, ""},
		{"other port", []string{"Origin: http://127.0.0.1:8080"}, 403, ""},
		{"no port", []string{"Origin: http://127.0.0.1"}, 403, ""},
		{"other name", []string{"Origin: http://localhost:7434"}, 403, ""},
		{"other scheme", []string{"Origin: https://127.0.0.1:7434"}, 403, ""},
		{"site", []string{"Origin: https://example.com"}, 403, ""},
		{"null", []string{"Origin: null"}, 403, ""},
		{"empty", []string{"Origin: "}, 403, ""},
		{"two", []string{"Origin: http://127.0.0.1:7434", "Origin: https://example.com"}, 403, ""},
		{"two in one", []string{"Origin: http://127.0.0.1:7434, https://example.com"}, 403, ""},
		{"listed", []string{"Origin: app://obsidian.md"}, 200, "app://obsidian.md"},
		{"listed, cross-site", []string{"Origin: app://obsidian.md", "Sec-Fetch-Site: cross-site"}, 200, "app://obsidian.md"},
		{"listed with a port", []string{"Origin: http://localhost:3000"}, 200, "http://localhost:3000"},
		{"listed scheme", []string{"Origin: vscode-webview://1a2b3c"}, 200, "vscode-webview://1a2b3c"},
		{"like a listed one", []string{"Origin: app://obsidian.md.example"}, 403, ""},
		{"scheme alone", []string{"Origin: vscode-webview://"}, 403, ""},
		{"cross-site without origin", []string{"Sec-Fetch-Site: cross-site"}, 403, ""},
		{"other port without origin", []string{"Sec-Fetch-Site: same-site"}, 403, ""},
		{"own without origin", []string{"Sec-Fetch-Site: same-origin"}, 200, ""},
		{"typed into the bar", []string{"Sec-Fetch-Site: none"}, 200, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, call := range []func() (int, http.Header){
				func() (int, http.Header) {
					w := call(g, http.MethodGet, "/v1/models", "", tt.header...)
					return w.Code, w.Header()
				},
				func() (int, http.Header) {
					w := call(g, http.MethodPost, "/v1/embeddings", `{"input":"x"}`, tt.header...)
					return w.Code, w.Header()
				},
			} {
				status, h := call()
				if status != tt.status {
					t.Errorf("status = %d, want %d", status, tt.status)
				}
				if got := h.Get("Access-Control-Allow-Origin"); got != tt.cors {
					t.Errorf("Access-Control-Allow-Origin = %q, want %q", got, tt.cors)
				}
				if status == 403 {
					for name := range h {
						if len(name) > 14 && name[:14] == "Access-Control" {
							t.Errorf("refused with %s", name)
						}
					}
				}
				if h.Get("Access-Control-Allow-Credentials") != "" {
					t.Error("credentials are allowed")
				}
			}
		})
	}
	golden(t, "origin", call(g, http.MethodPost, "/v1/embeddings", `{"input":"x"}`, "Origin: https://example.com"))
}

func TestPreflight(t *testing.T) {
	g := setup(t, newDoor(), func(c *gateway.Config) { c.AllowedOrigins = []string{"app://obsidian.md"} })
	ask := []string{"Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization,x-stainless-os", "Access-Control-Request-Private-Network: true"}
	w := call(g, http.MethodOptions, "/v1/embeddings", "", append(ask, "Origin: app://obsidian.md")...)
	want := map[string]string{
		"Access-Control-Allow-Origin":          "app://obsidian.md",
		"Access-Control-Allow-Methods":         "GET, HEAD, POST, DELETE",
		"Access-Control-Allow-Headers":         "authorization,x-stainless-os",
		"Access-Control-Allow-Private-Network": "true",
	}
	if w.Code != http.StatusNoContent {
		t.Errorf("status = %d, want 204", w.Code)
	}
	for name, value := range want {
		if got := w.Header().Get(name); got != value {
			t.Errorf("%s = %q, want %q", name, got, value)
		}
	}
	w = call(g, http.MethodOptions, "/v1/embeddings", "", append(ask, "Origin: https://example.com")...)
	if w.Code != http.StatusForbidden || w.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("foreign preflight: %d %v", w.Code, w.Header())
	}
}

func TestSecurityHeaders(t *testing.T) {
	g := setup(t, newDoor(), nil)
	for _, w := range []http.Header{
		call(g, http.MethodGet, "/healthz", "").Header(),
		call(g, http.MethodGet, "/nowhere", "").Header(),
		call(g, http.MethodPost, "/v1/embeddings", `{"input":"x"}`).Header(),
		call(g, http.MethodGet, "/healthz", "", "Host: example.com").Header(),
		call(g, http.MethodGet, "/healthz", "", "Origin: https://example.com").Header(),
	} {
		for name, want := range map[string]string{
			"X-Content-Type-Options":       "nosniff",
			"X-Frame-Options":              "DENY",
			"Cross-Origin-Resource-Policy": "same-origin",
			"Cache-Control":                "no-store",
		} {
			if got := w.Get(name); got != want {
				t.Errorf("%s = %q, want %q", name, got, want)
			}
		}
	}
}
