package gateway_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/ondol-app/ondol/internal/gateway"
)

// The control API asks for the token whether or not clients need a key, and is
// handed what was sent.
func TestControlNeedsTheToken(t *testing.T) {
	var seen []string
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		seen = append(seen, fmt.Sprintf("%s %s %s", r.Method, r.URL.RequestURI(), body))
		w.WriteHeader(http.StatusNoContent)
	})
	for _, required := range []bool{false, true} {
		seen = nil
		g := setup(t, newDoor(), func(c *gateway.Config) {
			c.Control, c.Token = api, secret
			if required {
				c.RequireKey, c.Keys = true, []gateway.Key{{Name: "other", Secret: "another-secret-of-size"}}
			}
		})
		for _, header := range [][]string{nil, {"Authorization: Bearer "}, {"Authorization: Bearer " + secret + "x"}, {"Api-Key: another-secret-of-size"}} {
			for _, method := range []string{"GET", "POST", "DELETE", "PATCH", "HEAD"} {
				w := call(g, method, "/ondol/v1/status", "", header...)
				if w.Code != 401 || method == "GET" && (!strings.Contains(w.Body.String(), `"code":"unauthorized"`) || !strings.Contains(w.Body.String(), "remedy")) {
					t.Errorf("%s with %v: %d %s", method, header, w.Code, w.Body)
				}
			}
		}
		if len(seen) > 0 {
			t.Errorf("without the token the API saw %v", seen)
		}
		if w := call(g, "GET", "/ondol/v1/events?since=3", "", "Authorization: Bearer "+secret); w.Code != 204 {
			t.Errorf("with the token: %d %s", w.Code, w.Body)
		}
		if w := call(g, "POST", "/ondol/v1/folders", `{"path":"/x"}`, "Authorization: Bearer "+secret); w.Code != 204 {
			t.Errorf("with the token: %d %s", w.Code, w.Body)
		}
		if got := strings.Join(seen, "; "); got != `GET /ondol/v1/events?since=3 ; POST /ondol/v1/folders {"path":"/x"}` {
			t.Errorf("the API saw %s", got)
		}
		w := call(g, "GET", "/ondol/v1/status", "", "Authorization: Bearer "+secret, "Host: evil.test")
		if w.Code != 421 {
			t.Errorf("under another name: %d", w.Code)
		}
		w = call(g, "GET", "/ondol/v1/status", "", "Authorization: Bearer "+secret, "Origin: http://evil.test")
		if w.Code != 403 {
			t.Errorf("from another page: %d", w.Code)
		}
	}
	if w := call(setup(t, newDoor(), nil), "GET", "/ondol/v1/status", "", "Authorization: Bearer "+secret); w.Code != 404 {
		t.Errorf("without a control API: %d", w.Code)
	}
}

// So does MCP, whatever its method.
func TestMCPNeedsTheToken(t *testing.T) {
	var seen []string
	g := setup(t, newDoor(), func(c *gateway.Config) {
		c.Token = secret
		c.MCP = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			seen = append(seen, fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, body))
		})
	})
	for _, method := range []string{"GET", "POST", "DELETE"} {
		if w := call(g, method, "/mcp", ""); w.Code != 401 {
			t.Errorf("%s without the token: %d %s", method, w.Code, w.Body)
		}
		if w := call(g, method, "/mcp", "{}", "Authorization: Bearer "+secret); w.Code != 200 {
			t.Errorf("%s with the token: %d %s", method, w.Code, w.Body)
		}
	}
	for _, header := range []string{"Host: evil.test", "Origin: http://evil.test", "Content-Type: text/plain"} {
		if w := call(g, "POST", "/mcp", "{}", "Authorization: Bearer "+secret, header); w.Code < 400 {
			t.Errorf("with %s: %d", header, w.Code)
		}
	}
	if got := strings.Join(seen, "; "); got != "GET /mcp {}; POST /mcp {}; DELETE /mcp {}" {
		t.Errorf("it saw %s", got)
	}
	if w := call(setup(t, newDoor(), nil), "POST", "/mcp", "{}", "Authorization: Bearer "+secret); w.Code != 404 {
		t.Errorf("without MCP: %d", w.Code)
	}
}

func TestControlWithoutATokenIsRefused(t *testing.T) {
	c := gateway.Config{Embedder: newDoor(), Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler), Control: http.NotFoundHandler()}
	for _, token := range []string{"", "short"} {
		c.Token = token
		if _, err := gateway.New(c); err == nil {
			t.Errorf("a control API with the token %q was built", token)
		}
	}
}
