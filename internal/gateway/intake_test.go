package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/gateway"
	"github.com/ondol-app/ondol/internal/relay"
)

// Bodies count while their requests wait, and no longer.
func TestBodiesInFlightAreBounded(t *testing.T) {
	door := newDoor()
	began, finish := make(chan struct{}), make(chan struct{})
	inner := door.embed
	door.embed = func(ctx context.Context, req embedding.Request) (embedding.Result, error) {
		began <- struct{}{}
		<-finish
		return inner(ctx, req)
	}
	g := setup(t, door, func(c *gateway.Config) { c.MaxInFlight = 1000 })
	body := `{"input":"` + strings.Repeat("x", 388) + `"}` // 400 bytes
	var waiting sync.WaitGroup
	for range 2 {
		waiting.Go(func() {
			if w := call(g, "POST", "/v1/embeddings", body); w.Code != 200 {
				t.Errorf("within the limit: %d %s", w.Code, w.Body)
			}
		})
		<-began
	}
	for _, path := range []string{"/v1/embeddings", "/api/embed"} {
		w := call(g, "POST", path, body)
		if w.Code != 429 || w.Header().Get("Retry-After") != "1" || w.Header().Get("Connection") != "close" {
			t.Errorf("%s beyond the limit: %d %v", path, w.Code, w.Header())
		}
	}
	golden(t, "too_many_bytes", call(g, "POST", "/v1/embeddings", body))
	small := make(chan int)
	go func() { small <- call(g, "POST", "/v1/embeddings", `{"input":"x"}`).Code }()
	<-began
	close(finish)
	if code := <-small; code != 200 {
		t.Errorf("a small one beside them: %d", code)
	}
	waiting.Wait()
	go func() { <-began; <-began }()
	for range 2 { // everything was given back, by the refused as well
		if w := call(g, "POST", "/v1/embeddings", body); w.Code != 200 {
			t.Errorf("afterwards: %d %s", w.Code, w.Body)
		}
	}
}

// What clients send is nowhere in the log, whatever happens to it.
func TestBodiesAreNeverLogged(t *testing.T) {
	const canary = "canary-7c1e"
	var log bytes.Buffer
	var mu sync.Mutex
	logger := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return log.Write(p)
	}), &slog.HandlerOptions{Level: slog.LevelDebug}))
	doors := map[string]*fakeDoor{
		"served":  newDoor(),
		"refused": failing(&embedding.TooLongError{Index: 0, Tokens: 9, Limit: 8}),
		"failed":  failing(fmt.Errorf("engine said 500")),
		"panics":  newDoor(),
	}
	doors["panics"].embed = func(context.Context, embedding.Request) (embedding.Result, error) { panic("defect") }
	role := &fakeRole{
		rerank: func(relay.RerankRequest) (relay.RerankReply, error) {
			return relay.RerankReply{}, fmt.Errorf("engine said 500")
		},
		forward: func(context.Context, http.ResponseWriter, relay.ForwardRequest) error {
			return fmt.Errorf("engine said 500")
		},
	}
	requests := []struct{ path, body string }{
		{"/v1/embeddings", `{"input":"CANARY"}`},
		{"/v1/embeddings", `{"input":["CANARY",""]}`},
		{"/v1/embeddings", `{"input":CANARY}`},
		{"/v1/embeddings", `{"encoding_format":"CANARY"}`},
		{"/v1/embeddings", `{"input":"x","user":"CANARY"}`},
		{"/api/embed", `{"input":"CANARY"}`},
		{"/api/embed", `{"input":"CANARY","truncate":true}`},
		{"/api/embed", `{"input":{"CANARY":1}}`},
		{"/api/embed", `{"input":"x","keep_alive":"CANARY"}`},
		{"/api/embeddings", `{"prompt":"CANARY"}`},
		{"/api/show", `{"model":"starter","system":"CANARY"}`},
		{"/v1/rerank", `{"query":"CANARY","documents":["CANARY"]}`},
		{"/v1/chat/completions", `{"messages":["CANARY"]}`},
		{"/nowhere", `{"input":"CANARY"}`},
	}
	for name, door := range doors {
		g := setup(t, door, func(c *gateway.Config) { c.Logger, c.Chat, c.Reranker = logger, role, role })
		for _, r := range requests {
			w := call(g, "POST", r.path, strings.ReplaceAll(r.body, "CANARY", canary), "Authorization: Bearer "+canary)
			if w.Code == 0 {
				t.Errorf("%s %s was not answered", name, r.path)
			}
		}
	}
	if log.Len() == 0 {
		t.Error("nothing was logged: the test sees no log")
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, canary) {
			t.Errorf("logged: %s", line)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestMetricsRoute(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ondol_up 1\n") })
	g := setup(t, newDoor(), func(c *gateway.Config) { c.Metrics = page })
	if w := call(g, "GET", "/metrics", ""); w.Code != 200 || w.Body.String() != "ondol_up 1\n" {
		t.Errorf("got %d %q", w.Code, w.Body)
	}
	if w := call(g, "GET", "/metrics", "", "Host: rebound.example"); w.Code != 421 {
		t.Errorf("foreign host: %d", w.Code)
	}
	if w := call(setup(t, newDoor(), nil), "GET", "/metrics", ""); w.Code != 404 {
		t.Errorf("without metrics: %d", w.Code)
	}
}

// FuzzOllama sends any body to Ollama's routes: the answer is a reply or an
// error in their shape, and the door sees only texts that are not empty.
func FuzzOllama(f *testing.F) {
	for _, body := range []string{
		`{"model":"starter","input":"hello"}`, `{"model":"starter:latest","input":["a","b"],"truncate":true}`,
		`{"model":"starter","input":"x","dimensions":3,"options":{"num_ctx":1},"keep_alive":"5m"}`,
		`{"model":"starter","input":[1,2]}`, `{"model":"starter","input":{}}`, `{"model":"starter","input":["a",""]}`,
		`{"model":"starter","prompt":"온돌"}`, `{"model":"starter","prompt":""}`, `{"name":"starter"}`, `{"model":null,"input":null}`,
		`{"model":"starter","keep_alive":-1,"input":"x"}`, `{"model":"starter","keep_alive":{},"input":"x"}`,
		`{"model":"starter","input":"\ud800"}`, "{\"input\":\"\xff\"}", `[]`, `null`, ``, `{`, `{"input":"a","input":["b"]}`, `{"INPUT":"a"}`,
	} {
		for route := range 3 {
			f.Add(uint8(route), []byte(body))
		}
	}
	paths := []string{"/api/embed", "/api/embeddings", "/api/show"}
	f.Fuzz(func(t *testing.T, route uint8, body []byte) {
		door := newDoor()
		g, err := gateway.New(gateway.Config{Embedder: door, Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		path := paths[int(route)%len(paths)]
		r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
		r.Host = "localhost"
		w := httptest.NewRecorder()
		g.Handler().ServeHTTP(w, r)
		checkOllama(t, path, w)
		for _, req := range door.seen {
			for _, in := range req.Inputs {
				if in == "" {
					t.Errorf("%q: the door saw an empty input", body)
				}
			}
		}
	})
}
