package gateway_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/gateway"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// dim is the fake model's number of dimensions.
const dim = 6

// fakeDoor answers with a vector made from the input, or with the fault it is given.
type fakeDoor struct {
	info    embedding.Info
	infoErr error
	embed   func(ctx context.Context, req embedding.Request) (embedding.Result, error)

	mu   sync.Mutex
	seen []embedding.Request
}

func newDoor() *fakeDoor {
	d := &fakeDoor{info: embedding.Info{Model: "starter", Dim: dim, MaxTokens: 8192, Fingerprint: "f1"}}
	d.embed = func(_ context.Context, req embedding.Request) (embedding.Result, error) {
		res := embedding.Result{Model: d.info.Model, Dim: dim, Tokens: 3 * len(req.Inputs), Fingerprint: "f1"}
		for _, in := range req.Inputs {
			res.Vectors = append(res.Vectors, vectorOf(in))
		}
		return res, nil
	}
	return d
}

func failing(err error) *fakeDoor {
	d := newDoor()
	d.embed = func(context.Context, embedding.Request) (embedding.Result, error) { return embedding.Result{}, err }
	return d
}

func (d *fakeDoor) Info() (embedding.Info, error) { return d.info, d.infoErr }

func (d *fakeDoor) Embed(ctx context.Context, req embedding.Request) (embedding.Result, error) {
	d.mu.Lock()
	d.seen = append(d.seen, req)
	d.mu.Unlock()
	return d.embed(ctx, req)
}

// vectorOf is a unit vector that depends on the text.
func vectorOf(text string) []float32 {
	v := make([]float32, dim)
	for i, c := range []byte(text) {
		v[i%dim] += float32(c) + float32(i)
	}
	v[dim-1]++
	return scaled(v)
}

func scaled(v []float32) []float32 {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(float64(x) / math.Sqrt(sum))
	}
	return out
}

// setup builds a gateway over door; change may adapt the configuration.
func setup(t testing.TB, door gateway.Embedder, change func(*gateway.Config)) *gateway.Gateway {
	t.Helper()
	cfg := gateway.Config{Embedder: door, Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	g, err := gateway.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// call sends one request through the whole handler. header holds "Name: value" lines.
func call(g *gateway.Gateway, method, path, body string, header ...string) *httptest.ResponseRecorder {
	var r *http.Request
	if body == "" {
		r = httptest.NewRequest(method, path, nil)
	} else {
		r = httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
	}
	r.Host = "127.0.0.1:7434"
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "Host":
			r.Host = value
		case "Content-Type":
			r.Header.Set(name, value)
		default:
			r.Header.Add(name, value)
		}
	}
	w := httptest.NewRecorder()
	g.Handler().ServeHTTP(w, r)
	return w
}

// errorCode reads the code of an envelope and fails when the body is none.
func errorCode(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var env struct {
		Error *struct {
			Message string  `json:"message"`
			Type    string  `json:"type"`
			Param   *string `json:"param"`
			Code    *string `json:"code"`
		} `json:"error"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &env); err != nil || env.Error == nil || env.Error.Code == nil || env.Error.Message == "" || env.Error.Type == "" {
		t.Fatalf("status %d: %q is no OpenAI error", w.Code, w.Body)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type = %q", got)
	}
	return *env.Error.Code
}

// golden compares a whole reply (status, the headers that matter, body) with a file.
func golden(t *testing.T, name string, w *httptest.ResponseRecorder) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n", w.Code)
	names := []string{"Allow", "Content-Length", "Content-Type", "Retry-After", "retry-after-ms", "x-should-retry", "Connection"}
	slices.Sort(names)
	for _, n := range names {
		if v := w.Header().Get(n); v != "" {
			fmt.Fprintf(&b, "%s: %s\n", n, v)
		}
	}
	fmt.Fprintf(&b, "\n%s\n", w.Body)
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with -update to write it)", err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

type wireReply struct {
	Object string
	Data   []struct {
		Object    string
		Index     int
		Embedding json.RawMessage
	}
	Model string
	Usage struct {
		PromptTokens int `json:"prompt_tokens"`
		TotalTokens  int `json:"total_tokens"`
	}
}

// vectors reads a reply and checks everything around the vectors.
func vectors(t *testing.T, w *httptest.ResponseRecorder) [][]float32 {
	t.Helper()
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	if got, want := w.Header().Get("Content-Length"), fmt.Sprint(w.Body.Len()); got != want {
		t.Errorf("Content-Length = %s, want %s", got, want)
	}
	var reply wireReply
	if err := json.Unmarshal(w.Body.Bytes(), &reply); err != nil {
		t.Fatal(err)
	}
	if reply.Object != "list" || reply.Model != "starter" || reply.Usage.PromptTokens != 3*len(reply.Data) || reply.Usage.TotalTokens != 3*len(reply.Data) {
		t.Errorf("reply around the data = %+v", reply)
	}
	var out [][]float32
	for i, item := range reply.Data {
		if item.Object != "embedding" || item.Index != i {
			t.Errorf("item %d = %+v", i, item)
		}
		var text string
		var v []float32
		if json.Unmarshal(item.Embedding, &text) == nil {
			raw, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			for len(raw) >= 4 {
				v = append(v, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
				raw = raw[4:]
			}
		} else if err := json.Unmarshal(item.Embedding, &v); err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

func TestEmbeddings(t *testing.T) {
	long := strings.Repeat("방바닥이 따뜻하다. ", 60000) // 1.6 MB: no limit by input bytes
	bodyOf := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	tests := []struct {
		name, path, body string
		header           []string
		inputs           []string
		isBase64         bool
		dim              int
	}{
		{name: "one string", body: `{"model":"starter","input":"hello"}`, inputs: []string{"hello"}},
		{name: "array in order", body: `{"model":"starter","input":["b","a","b"]}`, inputs: []string{"b", "a", "b"}},
		{name: "base64", body: `{"model":"starter","input":["a","온돌"],"encoding_format":"base64"}`, inputs: []string{"a", "온돌"}, isBase64: true},
		{name: "other path", path: "/embeddings", body: `{"model":"starter","input":"x"}`, inputs: []string{"x"}},
		{name: "slashes from a base URL", path: "/v1//embeddings/", body: `{"model":"starter","input":"x"}`, inputs: []string{"x"}},
		{name: "query string", path: "/v1/embeddings?api-version=1", body: `{"model":"starter","input":"x"}`, inputs: []string{"x"}},
		{name: "no model", body: `{"input":"x"}`, inputs: []string{"x"}},
		{name: "empty model", body: `{"model":"","input":"x"}`, inputs: []string{"x"}},
		{name: "alias", body: `{"model":"text-embedding-3-small","input":"x"}`, inputs: []string{"x"}},
		{name: "user and unknown fields", body: `{"user":"u","truncate":true,"input_type":"query","input":"x"}`, inputs: []string{"x"}},
		{name: "any key", body: `{"input":"x"}`, header: []string{"Authorization: Bearer default-key", "api-key: k"}, inputs: []string{"x"}},
		{name: "empty key", body: `{"input":"x"}`, header: []string{"Authorization: Bearer "}, inputs: []string{"x"}},
		{name: "dimensions", body: `{"input":["x","y"],"dimensions":4}`, inputs: []string{"x", "y"}, dim: 4},
		{name: "dimensions and base64", body: `{"input":"x","dimensions":1,"encoding_format":"base64"}`, inputs: []string{"x"}, dim: 1, isBase64: true},
		{name: "dimensions of the model", body: `{"input":"x","dimensions":6}`, inputs: []string{"x"}, dim: 6},
		{name: "charset", body: `{"input":"x"}`, header: []string{"Content-Type: application/json; charset=UTF-8"}, inputs: []string{"x"}},
		{name: "no content type", body: `{"input":"x"}`, header: []string{"Content-Type: "}, inputs: []string{"x"}},
		{name: "long input", body: bodyOf(map[string]any{"input": long}), inputs: []string{long}},
		{name: "many inputs", body: bodyOf(map[string]any{"input": strings.Split(strings.Repeat("x", 2048), "")}), inputs: strings.Split(strings.Repeat("x", 2048), "")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			door := newDoor()
			g := setup(t, door, func(c *gateway.Config) { c.Aliases = []string{"text-embedding-3-small"} })
			path := tt.path
			if path == "" {
				path = "/v1/embeddings"
			}
			w := call(g, http.MethodPost, path, tt.body, tt.header...)
			var want [][]float32
			for _, in := range tt.inputs {
				v := vectorOf(in)
				if tt.dim > 0 {
					v = scaled(v[:tt.dim])
				}
				want = append(want, v)
			}
			if diff := cmp.Diff(want, vectors(t, w)); diff != "" {
				t.Errorf("vectors (-want +got):\n%s", diff)
			}
			if strings.Contains(w.Body.String(), `"embedding":"`) != tt.isBase64 {
				t.Errorf("wrong encoding: %.120s", w.Body)
			}
			wantSeen := []embedding.Request{{Lane: admission.LaneClient, Inputs: tt.inputs}}
			if diff := cmp.Diff(wantSeen, door.seen); diff != "" {
				t.Errorf("the door saw (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCutLeavesTheDoorsVectorsAlone(t *testing.T) {
	shared := vectorOf("shared")
	door := newDoor()
	door.embed = func(context.Context, embedding.Request) (embedding.Result, error) {
		return embedding.Result{Model: "starter", Dim: dim, Tokens: 3, Vectors: [][]float32{shared}}, nil
	}
	vectors(t, call(setup(t, door, nil), http.MethodPost, "/v1/embeddings", `{"input":"shared","dimensions":2}`))
	if diff := cmp.Diff(vectorOf("shared"), shared); diff != "" {
		t.Errorf("shared vector changed (-before +after):\n%s", diff)
	}
}

func TestModels(t *testing.T) {
	g := setup(t, newDoor(), func(c *gateway.Config) { c.Aliases = []string{"text-embedding-3-small", "Qwen/Qwen3", "starter"} })
	type model struct {
		ID, Object  string
		OwnedBy     string `json:"owned_by"`
		Created     int64
		Root        string
		MaxModelLen int `json:"max_model_len"`
		Dimensions  int
	}
	read := func(path string, into any) {
		t.Helper()
		w := call(g, http.MethodGet, path, "")
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			t.Fatal(err)
		}
	}
	var list struct {
		Object string
		Data   []model
	}
	read("/v1/models", &list)
	var ids []string
	for _, m := range list.Data {
		ids = append(ids, m.ID)
		if m.Object != "model" || m.OwnedBy != "ondol" || m.Created == 0 || m.Root != "starter" || m.MaxModelLen != 8192 || m.Dimensions != dim {
			t.Errorf("model = %+v", m)
		}
	}
	if diff := cmp.Diff([]string{"starter", "text-embedding-3-small", "Qwen/Qwen3"}, ids); diff != "" || list.Object != "list" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
	for _, id := range ids {
		var one model
		read("/v1/models/"+id, &one)
		if one.ID != id || one.Root != "starter" {
			t.Errorf("model %s = %+v", id, one)
		}
	}
}

func TestNew(t *testing.T) {
	tests := []struct {
		name   string
		change func(*gateway.Config)
		says   string
	}{
		{"no embedder", func(c *gateway.Config) { c.Embedder = nil }, "Embedder"},
		{"no logger", func(c *gateway.Config) { c.Logger = nil }, "Logger"},
		{"all addresses", func(c *gateway.Config) { c.Listen = "0.0.0.0:7434" }, "127.0.0.1:7434"},
		{"no host", func(c *gateway.Config) { c.Listen = ":7434" }, "127.0.0.1:7434"},
		{"outside address", func(c *gateway.Config) { c.Listen = "192.168.1.5:7434" }, "not a loopback address"},
		{"mapped address", func(c *gateway.Config) { c.Listen = "[::ffff:127.0.0.1]:7434" }, "not a loopback address"},
		{"name", func(c *gateway.Config) { c.Listen = "example.com:7434" }, "not a loopback address"},
		{"no port", func(c *gateway.Config) { c.Listen = "127.0.0.1" }, "ONDOL_LISTEN"},
		{"bad port", func(c *gateway.Config) { c.Listen = "127.0.0.1:70000" }, "0 to 65535"},
		{"origin of all pages", func(c *gateway.Config) { c.AllowedOrigins = []string{"https://*"} }, "every web page"},
		{"star origin", func(c *gateway.Config) { c.AllowedOrigins = []string{"*"} }, "no origin"},
		{"origin with a path", func(c *gateway.Config) { c.AllowedOrigins = []string{"https://a.example/x"} }, "no origin"},
		{"origin with a star", func(c *gateway.Config) { c.AllowedOrigins = []string{"https://*.example"} }, "no origin"},
		{"null origin", func(c *gateway.Config) { c.AllowedOrigins = []string{"null"} }, "no origin"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := gateway.Config{Embedder: newDoor(), Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)}
			tt.change(&cfg)
			if _, err := gateway.New(cfg); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error = %v, want one with %q", err, tt.says)
			}
		})
	}
	for _, listen := range []string{"127.0.0.1:7434", "localhost:7434", "[::1]:7434", "127.0.0.2:0"} {
		setup(t, newDoor(), func(c *gateway.Config) { c.Listen = listen })
	}
}
