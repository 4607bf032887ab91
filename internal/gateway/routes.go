package gateway

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ondol-app/ondol/internal/openai"
)

// route is one row of the table. A path ending in "/*" matches one or more
// further segments.
type route struct {
	path    string
	method  string // GET answers HEAD too; empty = any
	handler http.HandlerFunc
	open    bool // answers without the key, where one is required
}

// routes is every path the gateway knows.
func (g *Gateway) routes() []route {
	chat := func(path string) http.HandlerFunc {
		if g.chat == nil {
			return g.unimplemented(noChat)
		}
		return g.forward(path)
	}
	rerank := g.unimplemented(noReranker)
	if g.reranker != nil {
		rerank = g.rerank
	}
	rows := []route{
		{path: "/v1/embeddings", method: http.MethodPost, handler: g.embeddings},
		{path: "/embeddings", method: http.MethodPost, handler: g.embeddings},
		{path: "/v1/models", method: http.MethodGet, handler: g.models},
		{path: "/v1/models/*", method: http.MethodGet, handler: g.model},
		{path: "/healthz", method: http.MethodGet, handler: g.healthz, open: true},
		{path: "/readyz", method: http.MethodGet, handler: g.readyz, open: true},
		{path: "/v1/chat/completions", method: http.MethodPost, handler: chat("/v1/chat/completions")},
		{path: "/v1/completions", method: http.MethodPost, handler: chat("/v1/completions")},
		{path: "/infill", method: http.MethodPost, handler: chat("/infill")},
		{path: "/v1/rerank", method: http.MethodPost, handler: rerank},
		{path: "/rerank", method: http.MethodPost, handler: rerank},
	}
	if g.metrics != nil {
		rows = append(rows, route{path: "/metrics", method: http.MethodGet, handler: g.measured, open: true})
	}
	rows = append(rows, g.controlRoutes()...)
	return append(rows, g.ollamaRoutes()...)
}

func (g *Gateway) ollamaRoutes() []route {
	chat := g.unimplemented("chat is not served in Ollama's dialect: use POST /v1/chat/completions here, which answers when a chat engine is configured, or point this client's chat model at Ollama")
	manage := g.unimplemented("models are not managed in Ollama's dialect: `ondol models` lists and changes them; the one served now is in GET /api/tags")
	return []route{
		{path: "/", method: http.MethodGet, handler: g.ollamaRoot, open: true},
		{path: "/api/version", method: http.MethodGet, handler: g.ollamaVersion, open: true},
		{path: "/api/tags", method: http.MethodGet, handler: g.ollamaTags},
		{path: "/api/ps", method: http.MethodGet, handler: g.ollamaProcesses},
		{path: "/api/show", method: http.MethodPost, handler: g.ollamaShow},
		{path: "/api/embed", method: http.MethodPost, handler: g.ollamaEmbed},
		{path: "/api/embeddings", method: http.MethodPost, handler: g.ollamaEmbeddings},
		{path: "/api/generate", handler: chat},
		{path: "/api/chat", handler: chat},
		{path: "/api/pull", handler: manage},
		{path: "/api/push", handler: manage},
		{path: "/api/create", handler: manage},
		{path: "/api/copy", handler: manage},
		{path: "/api/delete", handler: manage},
		{path: "/api/blobs/*", handler: manage},
	}
}

func index(routes []route) map[string]route {
	table := make(map[string]route, len(routes))
	for _, r := range routes {
		table[r.path] = r
	}
	return table
}

// find returns the row of a tidy path: its own, or that of a "/*" above it.
func (g *Gateway) find(path string) (route, bool) {
	row, ok := g.table[path]
	for at := len(path); !ok && at > 0; {
		if at = strings.LastIndexByte(path[:at], '/'); at > 0 {
			row, ok = g.table[path[:at]+"/*"]
		}
	}
	return row, ok
}

// route finds the row for a request. Doubled and trailing slashes are
// forgiven without a redirect, which would turn a POST into a GET in many
// clients: a base URL that ends in "/" is the commonest slip.
func (g *Gateway) route(w http.ResponseWriter, r *http.Request) {
	path := tidy(r.URL.Path)
	row, ok := g.find(path)
	if !row.open && !g.keys.admits(r.Header) {
		g.fail(w, r, unauthorized())
		return
	}
	if !ok {
		g.fail(w, r, failure{status: http.StatusNotFound, body: openai.Error{
			Type: openai.TypeNotFound, Code: openai.CodeUnknownURL,
			Message: "unknown URL " + r.Method + " " + clip(r.URL.Path) + "; embeddings are at POST /v1/embeddings or, in Ollama's dialect, POST /api/embed; the models at GET /v1/models"}})
		return
	}
	if row.method != "" && r.Method != row.method && (r.Method != http.MethodHead || row.method != http.MethodGet) {
		allow := row.method
		if row.method == http.MethodGet {
			allow = "GET, HEAD"
		}
		g.fail(w, r, failure{status: http.StatusMethodNotAllowed, allow: allow, body: openai.Error{
			Type: openai.TypeInvalidRequest, Code: openai.CodeMethodNotAllowed,
			Message: clip(r.Method) + " is not possible here; use " + row.method + " " + path}})
		return
	}
	row.handler(w, r)
}

// tidy drops empty segments: "//v1/models/" becomes "/v1/models".
func tidy(path string) string {
	if !strings.Contains(path, "//") && (path == "/" || !strings.HasSuffix(path, "/")) {
		return path
	}
	segments := slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" })
	return "/" + strings.Join(segments, "/")
}

// unimplemented answers for a part that has no engine. Retrying is pointless
// and said so, because SDKs repeat every 5xx.
func (g *Gateway) unimplemented(message string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		g.fail(w, r, failure{status: http.StatusNotImplemented, noRetry: true, body: openai.Error{
			Type: openai.TypeServer, Code: openai.CodeNotImplemented, Message: message}})
	}
}

// measured serves the metrics page. It has no retry and no error of ours.
func (g *Gateway) measured(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime))
	g.metrics.ServeHTTP(w, r)
}
