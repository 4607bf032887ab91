package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ollama/ollama/api"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/gateway"
)

var facts = gateway.ModelFacts{Architecture: "bert", SHA256: strings.Repeat("ab", 32), Bytes: 12345,
	Modified: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Parameters: "22M", Quantization: "F16"}

// ollamaClient is Ollama's own client in front of a running gateway.
func ollamaClient(t *testing.T, g *gateway.Gateway) *api.Client {
	t.Helper()
	address, _ := start(t, g)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return api.NewClient(&url.URL{Scheme: "http", Host: address}, &http.Client{Transport: transport})
}

func withFacts(c *gateway.Config) {
	c.Aliases = []string{"nomic-embed-text", "team/embedder:v1"}
	c.Model = func() gateway.ModelFacts { return facts }
}

func TestOllamaClient(t *testing.T) {
	door := newDoor()
	client := ollamaClient(t, setup(t, door, withFacts))
	ctx := t.Context()
	if err := client.Heartbeat(ctx); err != nil {
		t.Errorf("heartbeat: %v", err)
	}
	if version, err := client.Version(ctx); err != nil || version != "0.17.4" {
		t.Errorf("version = %q, %v", version, err)
	}
	details := api.ModelDetails{Format: "gguf", Family: "bert", Families: []string{"bert"}, ParameterSize: "22M", QuantizationLevel: "F16"}

	list, err := client.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var want []api.ListModelResponse
	for _, name := range []string{"starter:latest", "nomic-embed-text:latest", "team/embedder:v1"} {
		want = append(want, api.ListModelResponse{Name: name, Model: name, ModifiedAt: facts.Modified, Size: 12345, Digest: facts.SHA256, Details: details})
	}
	if diff := cmp.Diff(want, list.Models); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}

	running, err := client.ListRunning(ctx)
	if err != nil || len(running.Models) != 1 {
		t.Fatalf("ps = %+v, %v", running, err)
	}
	if m := running.Models[0]; m.Name != "starter:latest" || m.ContextLength != 8192 || m.SizeVRAM != 12345 || m.Digest != facts.SHA256 || time.Until(m.ExpiresAt) < 20*365*24*time.Hour {
		t.Errorf("ps = %+v", m)
	}

	show, err := client.Show(ctx, &api.ShowRequest{Model: "nomic-embed-text"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(details, show.Details); diff != "" || len(show.Capabilities) != 1 || show.Capabilities[0] != "embedding" ||
		show.ModelInfo["bert.embedding_length"] != float64(dim) || show.ModelInfo["bert.context_length"] != float64(8192) {
		t.Errorf("show = %+v %s", show, diff)
	}
}

func TestOllamaEmbed(t *testing.T) {
	door := newDoor()
	client := ollamaClient(t, setup(t, door, withFacts))
	no := false
	tests := []struct {
		name   string
		req    api.EmbedRequest
		inputs []string
		dim    int
	}{
		{"string", api.EmbedRequest{Model: "starter", Input: "hello"}, []string{"hello"}, dim},
		{"strings", api.EmbedRequest{Model: "starter:latest", Input: []string{"b", "온돌", "b"}}, []string{"b", "온돌", "b"}, dim},
		{"alias", api.EmbedRequest{Model: "nomic-embed-text:latest", Input: "x"}, []string{"x"}, dim},
		{"tagged alias", api.EmbedRequest{Model: "team/embedder:v1", Input: "x"}, []string{"x"}, dim},
		{"dimensions", api.EmbedRequest{Model: "starter", Input: "x", Dimensions: 3}, []string{"x"}, 3},
		{"options and keep_alive", api.EmbedRequest{Model: "starter", Input: "x", KeepAlive: &api.Duration{Duration: -1}, Options: map[string]any{"num_ctx": 512}}, []string{"x"}, dim},
		{"explicit no truncate", api.EmbedRequest{Model: "starter", Input: "x", Truncate: &no}, []string{"x"}, dim},
		{"nothing", api.EmbedRequest{Model: "starter"}, nil, 0},
		{"empty string", api.EmbedRequest{Model: "starter", Input: ""}, nil, 0},
		{"empty array", api.EmbedRequest{Model: "starter", Input: []string{}}, nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			door.seen = nil
			got, err := client.Embed(t.Context(), &tt.req)
			if err != nil {
				t.Fatal(err)
			}
			want := [][]float32{}
			for _, in := range tt.inputs {
				want = append(want, scaled(vectorOf(in)[:tt.dim]))
			}
			near := cmp.Comparer(func(a, b float32) bool { return math.Abs(float64(a-b)) < 1e-6 })
			if diff := cmp.Diff(want, got.Embeddings, near); diff != "" {
				t.Errorf("embeddings (-want +got):\n%s", diff)
			}
			if got.Model != tt.req.Model || got.TotalDuration <= 0 || got.TotalDuration > time.Minute || got.PromptEvalCount != 3*len(tt.inputs) {
				t.Errorf("around the embeddings: %+v", got)
			}
			var seen []embedding.Request
			if tt.inputs != nil {
				seen = []embedding.Request{{Lane: admission.LaneClient, Inputs: tt.inputs}}
			}
			if diff := cmp.Diff(seen, door.seen); diff != "" {
				t.Errorf("the door saw (-want +got):\n%s", diff)
			}
		})
	}
}

// The examples of Ollama's manual leave the type to curl.
func TestOllamaTakesCurlsType(t *testing.T) {
	g := setup(t, newDoor(), nil)
	form := "Content-Type: application/x-www-form-urlencoded"
	if w := call(g, http.MethodPost, "/api/embed", `{"model":"starter","input":"x"}`, form); w.Code != 200 {
		t.Errorf("JSON: %d %s", w.Code, w.Body)
	}
	if w := call(g, http.MethodPost, "/api/embed", `%7B%22input%22%3A%22x%22%7D=`, form); w.Code != 400 {
		t.Errorf("a form: %d %s", w.Code, w.Body)
	}
	if w := call(g, http.MethodPost, "/api/embed", `{"input":"x"}`, form, "Origin: https://example.com"); w.Code != 403 {
		t.Errorf("a page: %d %s", w.Code, w.Body)
	}
}

// Older clients name the model in name.
func TestOllamaShowByName(t *testing.T) {
	g := setup(t, newDoor(), withFacts)
	for body, status := range map[string]int{`{"name":"starter:latest"}`: 200, `{"name":"llama3"}`: 404, `{"model":"starter","name":"llama3"}`: 200} {
		if w := call(g, http.MethodPost, "/api/show", body); w.Code != status {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
}

// An empty list is a list: clients that iterate would fail on null.
func TestOllamaEmptyIsAList(t *testing.T) {
	g := setup(t, newDoor(), nil)
	for path, body := range map[string]string{"/api/embed": `{"model":"starter","input":[]}`, "/api/embeddings": `{"model":"starter","prompt":""}`} {
		w := call(g, http.MethodPost, path, body)
		if w.Code != 200 || !strings.Contains(w.Body.String(), "[]") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestOllamaEmbeddings(t *testing.T) {
	client := ollamaClient(t, setup(t, newDoor(), nil))
	got, err := client.Embeddings(t.Context(), &api.EmbeddingRequest{Model: "starter", Prompt: "온돌"})
	if err != nil {
		t.Fatal(err)
	}
	want := vectorOf("온돌")
	if len(got.Embedding) != len(want) {
		t.Fatalf("%d components", len(got.Embedding))
	}
	for i, x := range got.Embedding {
		if float32(x) != want[i] {
			t.Errorf("component %d = %v, want %v", i, x, want[i])
		}
	}
}

// Explicit truncate reaches the door; what it cut is told.
func TestOllamaTruncate(t *testing.T) {
	door := newDoor()
	inner := door.embed
	door.embed = func(ctx context.Context, req embedding.Request) (embedding.Result, error) {
		res, err := inner(ctx, req)
		if req.Truncate {
			res.Truncated = []int{0, 3}
		}
		return res, err
	}
	g := setup(t, door, nil)
	for body, want := range map[string]string{
		`{"model":"starter","input":["a","b","c","d"],"truncate":true}`:  "0,3",
		`{"model":"starter","input":["a","b","c","d"],"truncate":false}`: "",
		`{"model":"starter","input":["a","b","c","d"],"truncate":null}`:  "",
		`{"model":"starter","input":["a","b","c","d"]}`:                  "",
	} {
		w := call(g, http.MethodPost, "/api/embed", body)
		if w.Code != 200 || w.Header().Get("x-ondol-truncated") != want {
			t.Errorf("%s: %d %v, want %q", body, w.Code, w.Header(), want)
		}
	}
}

func TestOllamaErrors(t *testing.T) {
	long := failing(&embedding.TooLongError{Index: 3, Tokens: 9001, Limit: 8192})
	full := failing(&admission.RejectedError{Reason: "queue_full", RetryAfter: time.Second})
	loading := newDoor()
	loading.infoErr = &embedding.UnavailableError{State: "loading", RetryAfter: 2500 * time.Millisecond}
	fine := newDoor()
	tests := []struct {
		name, method, path, body string
		door                     *fakeDoor
		header                   []string
		status                   int
	}{
		{"ollama_unknown_model", "POST", "/api/embed", `{"model":"llama3","input":"x"}`, fine, nil, 404},
		{"ollama_unknown_model_show", "POST", "/api/show", `{"model":"llama3"}`, fine, nil, 404},
		{"ollama_unknown_model_load", "POST", "/api/embed", `{"model":"llama3"}`, fine, nil, 404},
		{"ollama_other_tag", "POST", "/api/embed", `{"model":"starter:7b","input":"x"}`, fine, nil, 404},
		{"ollama_too_long", "POST", "/api/embed", `{"model":"starter","input":["a","b","c","d"]}`, long, nil, 400},
		{"ollama_too_long_prompt", "POST", "/api/embeddings", `{"model":"starter","prompt":"a"}`, long, nil, 400},
		{"ollama_queue_full", "POST", "/api/embed", `{"model":"starter","input":"x"}`, full, nil, 429},
		{"ollama_loading", "POST", "/api/embed", `{"model":"starter","input":"x"}`, loading, nil, 503},
		{"ollama_loading_tags", "GET", "/api/tags", ``, loading, nil, 503},
		{"ollama_input_number", "POST", "/api/embed", `{"model":"starter","input":7}`, fine, nil, 400},
		{"ollama_input_ids", "POST", "/api/embed", `{"model":"starter","input":[1,2]}`, fine, nil, 400},
		{"ollama_input_empty_item", "POST", "/api/embed", `{"model":"starter","input":["a",""]}`, fine, nil, 400},
		{"ollama_dimensions", "POST", "/api/embed", `{"model":"starter","input":"a","dimensions":-1}`, fine, nil, 400},
		{"ollama_dimensions_large", "POST", "/api/embed", `{"model":"starter","input":"a","dimensions":7}`, fine, nil, 400},
		{"ollama_field_type", "POST", "/api/embed", `{"model":3,"input":"a"}`, fine, nil, 400},
		{"ollama_not_json", "POST", "/api/embed", `nonsense`, fine, nil, 400},
		{"ollama_form", "POST", "/api/embed", `{}`, fine, []string{"Content-Type: text/plain"}, 415},
		{"ollama_method", "GET", "/api/embed", ``, fine, nil, 405},
		{"ollama_unknown_path", "GET", "/api/nothing", ``, fine, nil, 404},
		{"ollama_host", "GET", "/api/tags", ``, fine, []string{"Host: rebound.example"}, 421},
		{"ollama_origin", "POST", "/api/embed", `{}`, fine, []string{"Origin: https://example.com"}, 403},
		{"ollama_chat", "POST", "/api/chat", `{"model":"starter"}`, fine, nil, 501},
		{"ollama_generate", "POST", "/api/generate", `{"model":"starter"}`, fine, nil, 501},
		{"ollama_pull", "POST", "/api/pull", `{"model":"starter"}`, fine, nil, 501},
		{"ollama_push", "POST", "/api/push", `{"model":"starter"}`, fine, nil, 501},
		{"ollama_create", "POST", "/api/create", `{"model":"starter"}`, fine, nil, 501},
		{"ollama_copy", "POST", "/api/copy", `{"source":"a","destination":"b"}`, fine, nil, 501},
		{"ollama_delete", "DELETE", "/api/delete", `{"model":"starter"}`, fine, nil, 501},
		{"ollama_blobs", "HEAD", "/api/blobs/sha256:abc", ``, fine, nil, 501},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fine.seen = nil
			w := call(setup(t, tt.door, nil), tt.method, tt.path, tt.body, tt.header...)
			if w.Code != tt.status {
				t.Errorf("status = %d, want %d", w.Code, tt.status)
			}
			var body map[string]string
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || len(body) != 1 || body["error"] == "" {
				t.Errorf("%q is no Ollama error (%v)", w.Body, err)
			}
			if len(fine.seen) != 0 {
				t.Errorf("the door saw %v", fine.seen)
			}
			golden(t, tt.name, w)
		})
	}
}

// Ollama's own client gets our message and status.
func TestOllamaClientSeesTheError(t *testing.T) {
	client := ollamaClient(t, setup(t, newDoor(), nil))
	_, err := client.Embed(t.Context(), &api.EmbedRequest{Model: "llama3", Input: "x"})
	status, ok := errors.AsType[api.StatusError](err)
	if !ok || status.StatusCode != 404 || !strings.Contains(status.ErrorMessage, "starter") {
		t.Errorf("error = %#v", err)
	}
}

// While the engine loads nothing runs; that is no error.
func TestOllamaNothingRuns(t *testing.T) {
	door := newDoor()
	door.infoErr = &embedding.UnavailableError{State: "loading"}
	w := call(setup(t, door, nil), http.MethodGet, "/api/ps", "")
	if w.Code != 200 || strings.TrimSpace(w.Body.String()) != `{"models":[]}` {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestOllamaRoot(t *testing.T) {
	g := setup(t, newDoor(), nil)
	w := call(g, http.MethodGet, "/", "")
	if w.Code != 200 || w.Body.String() != "Ollama is running" || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Errorf("GET /: %d %q %v", w.Code, w.Body, w.Header())
	}
	if w := call(g, http.MethodHead, "/", ""); w.Code != 200 {
		t.Errorf("HEAD /: %d", w.Code)
	}
	if w := call(g, http.MethodPost, "/", "{}"); w.Code != 405 {
		t.Errorf("POST /: %d", w.Code)
	}
}

// Without facts the digest still has the length that clients cut.
func TestOllamaWithoutFacts(t *testing.T) {
	w := call(setup(t, newDoor(), nil), http.MethodGet, "/api/tags", "")
	var list api.ListResponse
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list.Models) != 1 || len(list.Models[0].Digest) != 64 {
		t.Errorf("tags = %s, %v", w.Body, err)
	}
}

// The version told is that of the types in use.
func TestOllamaVersionIsTheModules(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	w := call(setup(t, newDoor(), nil), http.MethodGet, "/api/version", "")
	var said struct{ Version string }
	if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil || !strings.Contains(string(mod), "github.com/ollama/ollama v"+said.Version+"\n") &&
		!strings.Contains(string(mod), "github.com/ollama/ollama v"+said.Version+" ") {
		t.Errorf("version %q, %v; go.mod has another", said.Version, err)
	}
}

// checkOllama checks that w is a whole answer in Ollama's shape.
func checkOllama(t *testing.T, path string, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code != 200 {
		var body struct{ Error string }
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.Error == "" || w.Code < 400 || w.Code >= 500 {
			t.Errorf("%s: %d %q (%v)", path, w.Code, w.Body, err)
		}
		return
	}
	var reply any
	switch path {
	case "/api/embed":
		reply = new(api.EmbedResponse)
	case "/api/embeddings":
		reply = new(api.EmbeddingResponse)
	default:
		reply = new(api.ShowResponse)
	}
	if err := json.Unmarshal(w.Body.Bytes(), reply); err != nil {
		t.Errorf("%s: %q: %v", path, w.Body, err)
	}
	if embed, ok := reply.(*api.EmbedResponse); ok && embed.Embeddings == nil {
		t.Errorf("embeddings are null: %s", w.Body)
	}
}
