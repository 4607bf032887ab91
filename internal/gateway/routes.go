package gateway

import (
	"net/http"
	"slices"
	"strings"

	"github.com/ondol-app/ondol/internal/openai"
)

// route is one row of the table. A path ending in "/*" matches one or more
// further segments.
type route struct {
	path    string
	method  string // GET answers HEAD too
	handler http.HandlerFunc
}

// routes is every path the gateway knows.
func (g *Gateway) routes() []route {
	const (
		chat   = "no chat engine is configured, Ondol serves embeddings: point this client's chat model at another server and its embedding model at /v1/embeddings here"
		rerank = "no reranker is configured: turn reranking off in this client, or point it at another server"
	)
	return []route{
		{"/v1/embeddings", http.MethodPost, g.embeddings},
		{"/embeddings", http.MethodPost, g.embeddings},
		{"/v1/models", http.MethodGet, g.models},
		{"/v1/models/*", http.MethodGet, g.model},
		{"/healthz", http.MethodGet, g.healthz},
		{"/readyz", http.MethodGet, g.readyz},
		{"/v1/chat/completions", http.MethodPost, g.unimplemented(chat)},
		{"/v1/completions", http.MethodPost, g.unimplemented(chat)},
		{"/infill", http.MethodPost, g.unimplemented(chat)},
		{"/v1/rerank", http.MethodPost, g.unimplemented(rerank)},
		{"/rerank", http.MethodPost, g.unimplemented(rerank)},
	}
}

func index(routes []route) map[string]route {
	table := make(map[string]route, len(routes))
	for _, r := range routes {
		table[r.path] = r
	}
	return table
}

// route finds the row for a request. Doubled and trailing slashes are
// forgiven without a redirect, which would turn a POST into a GET in many
// clients: a base URL that ends in "/" is the commonest slip.
func (g *Gateway) route(w http.ResponseWriter, r *http.Request) {
	path := tidy(r.URL.Path)
	row, ok := g.table[path]
	if !ok {
		if rest, found := strings.CutPrefix(path, modelsPrefix); found && rest != "" {
			row, ok = g.table[modelsPrefix+"*"]
		}
	}
	if !ok {
		g.fail(w, r, failure{status: http.StatusNotFound, body: openai.Error{
			Type: openai.TypeNotFound, Code: openai.CodeUnknownURL,
			Message: "unknown URL " + r.Method + " " + clip(r.URL.Path) + "; embeddings are at POST /v1/embeddings, the models at GET /v1/models"}})
		return
	}
	if r.Method != row.method && (r.Method != http.MethodHead || row.method != http.MethodGet) {
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
