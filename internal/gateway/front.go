package gateway

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/ondol-app/ondol/internal/openai"
)

// front is the one gate before the route table. It keeps web pages out: a
// name that was rebound to loopback arrives with a foreign Host, a page of
// another site or port with a foreign Origin or, where browsers send none,
// with Sec-Fetch-Site. Programs send none of these.
func (g *Gateway) front(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		maps.Copy(w.Header(), secure)
		if len(r.TransferEncoding) > 0 {
			// A length beside it was dropped by net/http: whoever sent both
			// saw another end of this request than we did (RFC 9112, 6.3).
			w.Header().Set("Connection", "close")
		}
		// That of the reply before on this connection has no say any more.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		beginBodyTime(w, r)
		defer g.rescue(w, r)
		if !loopbackHost(r.Host) {
			g.fail(w, r, failure{status: http.StatusMisdirectedRequest, body: openai.Error{
				Type: openai.TypePermission, Code: openai.CodeMisdirected,
				Message: "this endpoint answers only to loopback names, not to Host " + clip(r.Host) + "; use http://127.0.0.1 or http://localhost with its port"}})
			return
		}
		origin, foreign := g.judgeOrigin(r)
		if foreign {
			g.fail(w, r, failure{status: http.StatusForbidden, body: openai.Error{
				Type: openai.TypePermission, Code: openai.CodeForeignOrigin,
				Message: "web pages may not call this endpoint; if the origin is yours, add it to allowed_origins in the settings"}})
			return
		}
		if origin != "" {
			allowOrigin(w.Header(), origin)
			if preflight(w, r) {
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// secure is what every reply carries: nothing of it may be sniffed, framed,
// cached or read by another site. Its values are shared by all replies.
var secure = http.Header{
	"X-Content-Type-Options":       {"nosniff"},
	"X-Frame-Options":              {"DENY"},
	"Content-Security-Policy":      {"default-src 'none'; frame-ancestors 'none'"},
	"Cross-Origin-Resource-Policy": {"same-origin"},
	"Referrer-Policy":              {"no-referrer"},
	"Cache-Control":                {"no-store"},
}

// rescue turns a panic of a handler into a 500, so that one defect is one
// failed request with an answer.
func (g *Gateway) rescue(w http.ResponseWriter, r *http.Request) {
	cause := recover()
	if cause == nil {
		return
	}
	if cause == http.ErrAbortHandler {
		panic(cause)
	}
	g.log.Error("request panicked", "path", r.URL.Path, "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
	g.fail(w, r, failure{status: http.StatusInternalServerError, body: openai.Error{
		Type: openai.TypeServer, Code: openai.CodeInternal, Message: "internal error; the log has more"}})
}

// loopbackHost reports whether a Host header names this machine's loopback:
// an address of 127.0.0.0/8 or ::1, or localhost, with any port or none.
func loopbackHost(host string) bool {
	name := host
	if h, port, err := net.SplitHostPort(host); err == nil {
		if !digits(port) {
			return false
		}
		name = h
	} else if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		if !ok || !strings.Contains(inner, ":") {
			return false
		}
		name = inner
	} else if strings.Contains(host, ":") {
		return false // an address without brackets, or two ports
	}
	if strings.EqualFold(strings.TrimSuffix(name, "."), "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Zone() == "" && addr.IsLoopback() && !addr.Is4In6()
}

func digits(s string) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}

// judgeOrigin returns the allow-listed origin of a request (empty when CORS
// headers are not needed) and whether the request comes from a foreign page.
func (g *Gateway) judgeOrigin(r *http.Request) (origin string, foreign bool) {
	values := r.Header.Values("Origin")
	switch len(values) {
	case 0:
		// "same-site" is foreign too: another port of localhost is same-site.
		site := r.Header.Values("Sec-Fetch-Site")
		for _, s := range site {
			if s != "same-origin" && s != "none" {
				return "", true
			}
		}
		return "", false
	case 1:
		if g.welcome.Load().origins.allows(values[0]) {
			return values[0], false
		}
		return "", !ours(values[0], r.Host)
	}
	return "", true
}

// ours reports whether an origin is this very endpoint, under the name by
// which it was called.
func ours(origin, host string) bool {
	return strings.EqualFold(origin, "http://"+host)
}

// originList is the owner's allow-list: whole origins, and schemes of which
// every origin is allowed.
type originList struct {
	exact   map[string]bool
	schemes map[string]bool // "vscode-webview://"
}

func newOriginList(entries []string) (originList, error) {
	list := originList{exact: make(map[string]bool), schemes: make(map[string]bool)}
	for _, e := range entries {
		e = strings.ToLower(strings.TrimSuffix(e, "/"))
		scheme, rest, ok := strings.Cut(e, "://")
		if !ok || scheme == "" || rest == "" {
			return list, fmt.Errorf("%q is no origin; write it as app://obsidian.md or vscode-webview://*", e)
		}
		if rest == "*" {
			if scheme == "http" || scheme == "https" {
				return list, fmt.Errorf("%q would allow every web page; name the origins one by one", e)
			}
			list.schemes[scheme+"://"] = true
			continue
		}
		if u, err := url.Parse(e); err != nil || u.Scheme != scheme || u.Host != rest || strings.Contains(rest, "*") {
			return list, fmt.Errorf("%q is no origin; write scheme://host or scheme://host:port", e)
		}
		list.exact[e] = true
	}
	return list, nil
}

func (l originList) allows(origin string) bool {
	origin = strings.ToLower(origin)
	if l.exact[origin] {
		return true
	}
	scheme, rest, ok := strings.Cut(origin, "://")
	return ok && rest != "" && l.schemes[scheme+"://"]
}

// allowOrigin lets an allow-listed page read the reply.
func allowOrigin(h http.Header, origin string) {
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "Retry-After, retry-after-ms, x-should-retry, Mcp-Session-Id, "+truncatedHeader)
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.Add("Vary", "Origin")
}

// preflight answers the question a browser asks before a request of an
// allow-listed page; which headers SDKs send is open, so all are allowed.
func preflight(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE")
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
		h.Set("Access-Control-Allow-Headers", asked)
	}
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		h.Set("Access-Control-Allow-Private-Network", "true")
	}
	h.Set("Access-Control-Max-Age", "600")
	h.Add("Vary", "Access-Control-Request-Headers")
	w.WriteHeader(http.StatusNoContent)
	return true
}
