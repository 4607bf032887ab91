package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/gateway"
	"github.com/ondol-app/ondol/internal/relay"
	"github.com/ondol-app/ondol/internal/upstream"
	"github.com/ondol-app/ondol/internal/vector"
)

// fakeRole is the door of a role beside embedding.
type fakeRole struct {
	name    string
	rerank  func(relay.RerankRequest) (relay.RerankReply, error)
	forward func(context.Context, http.ResponseWriter, relay.ForwardRequest) error
}

func (f *fakeRole) Model() (string, error) { return f.name, nil }

func (f *fakeRole) Rerank(_ context.Context, req relay.RerankRequest) (relay.RerankReply, error) {
	return f.rerank(req)
}

func (f *fakeRole) Forward(ctx context.Context, w http.ResponseWriter, req relay.ForwardRequest) error {
	return f.forward(ctx, w, req)
}

// byLength ranks longer documents first.
func byLength(req relay.RerankRequest) (relay.RerankReply, error) {
	reply := relay.RerankReply{Model: "reranker", Tokens: 42}
	for i, d := range req.Documents {
		reply.Results = append(reply.Results, relay.RerankResult{Index: i, Score: float64(len(d)) / 10})
	}
	slices.SortStableFunc(reply.Results, func(a, b relay.RerankResult) int { return int(math.Copysign(1, b.Score-a.Score)) })
	if req.TopN > 0 {
		reply.Results = reply.Results[:min(req.TopN, len(reply.Results))]
	}
	return reply, nil
}

func TestRerank(t *testing.T) {
	g := setup(t, newDoor(), func(c *gateway.Config) { c.Reranker = &fakeRole{name: "reranker", rerank: byLength} })
	const docs = `"documents":["a",{"text":"ccc"},"bb"]`
	tests := []struct{ name, path, body, want string }{
		{"all", "/v1/rerank", `{"model":"m","query":"q",` + docs + `}`,
			`{"model":"reranker","object":"list","usage":{"prompt_tokens":42,"total_tokens":42},"results":[{"index":1,"relevance_score":0.3},{"index":2,"relevance_score":0.2},{"index":0,"relevance_score":0.1}]}`},
		{"top", "/rerank", `{"query":"q","top_n":1,"return_documents":true,` + docs + `}`,
			`{"model":"reranker","object":"list","usage":{"prompt_tokens":42,"total_tokens":42},"results":[{"index":1,"relevance_score":0.3,"document":{"text":"ccc"}}]}`},
		{"more than there are", "/v1/rerank", `{"query":"q","top_n":9,"max_chunks_per_doc":3,"documents":["a"],"model":null}`,
			`{"model":"reranker","object":"list","usage":{"prompt_tokens":42,"total_tokens":42},"results":[{"index":0,"relevance_score":0.1}]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := call(g, "POST", tt.path, tt.body)
			if w.Code != 200 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			if diff := cmp.Diff(tt.want, strings.TrimSpace(w.Body.String())); diff != "" {
				t.Errorf("reply (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRerankRefuses(t *testing.T) {
	g := setup(t, newDoor(), func(c *gateway.Config) {
		c.Reranker = &fakeRole{name: "reranker", rerank: func(relay.RerankRequest) (relay.RerankReply, error) {
			t.Error("the role was asked")
			return relay.RerankReply{}, nil
		}}
	})
	many := strings.TrimSuffix(strings.Repeat(`"x",`, 2049), ",")
	for body, param := range map[string]string{
		`{"documents":["a"]}`:                         "query",
		`{"query":"","documents":["a"]}`:              "query",
		`{"query":7,"documents":["a"]}`:               "query",
		`{"query":"q"}`:                               "documents",
		`{"query":"q","documents":[]}`:                "documents",
		`{"query":"q","documents":"a"}`:               "documents",
		`{"query":"q","documents":["a",""]}`:          "documents",
		`{"query":"q","documents":["a",null]}`:        "documents",
		`{"query":"q","documents":["a",{}]}`:          "documents",
		`{"query":"q","documents":[{"text":3}]}`:      "documents",
		`{"query":"q","documents":[[1]]}`:             "documents",
		`{"query":"q","documents":[` + many + `]}`:    "documents",
		`{"query":"q","documents":["a"],"top_n":0}`:   "top_n",
		`{"query":"q","documents":["a"],"top_n":1.5}`: "top_n",
		`{"query":"q","documents":["a"],"model":{}}`:  "model",
		`[]`:                                "",
		`{"query":"q","documents":["a"]} x`: "",
		"{\"query\":\"\xff\",\"documents\":[\"a\"]}":      "",
		`{"query":"q","documents":["a"],"top_n":1,"x":[}`: "",
	} {
		w := call(g, "POST", "/v1/rerank", body)
		errorCode(t, w)
		var env struct{ Error struct{ Param *string } }
		if err := json.Unmarshal(w.Body.Bytes(), &env); err != nil {
			t.Fatal(err)
		}
		got := ""
		if env.Error.Param != nil {
			got = *env.Error.Param
		}
		if w.Code != 400 || got != param {
			t.Errorf("%.80s: %d param %q, want 400 %q: %s", body, w.Code, got, param, w.Body)
		}
	}
}

func TestRoleErrors(t *testing.T) {
	tests := []struct {
		name   string
		err    error
		status int
		code   string
	}{
		{"full", &admission.RejectedError{Reason: "queue_full", RetryAfter: time.Second}, 429, "queue_full"},
		{"away", &upstream.UnavailableError{State: "loading", RetryAfter: time.Second}, 503, "engine_unavailable"},
		{"late", &upstream.TimeoutError{After: time.Minute}, 504, "upstream_timeout"},
		{"long", &upstream.ContextError{Tokens: 9, Limit: 8}, 400, "context_length_exceeded"},
		{"failed", &upstream.StatusError{Code: 500, Message: "boom"}, 502, "upstream_error"},
		{"no score", &vector.InvalidError{Problems: []vector.Problem{{Index: 1, Reason: vector.ReasonNotFinite}}}, 502, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			role := &fakeRole{
				rerank:  func(relay.RerankRequest) (relay.RerankReply, error) { return relay.RerankReply{}, tt.err },
				forward: func(context.Context, http.ResponseWriter, relay.ForwardRequest) error { return tt.err },
			}
			g := setup(t, newDoor(), func(c *gateway.Config) { c.Reranker, c.Chat = role, role })
			code := map[string]string{"/v1/rerank": tt.code, "/v1/chat/completions": tt.code}
			if tt.code == "" {
				code = map[string]string{"/v1/rerank": "invalid_score"}
			}
			for path, want := range code {
				w := call(g, "POST", path, `{"query":"q","documents":["a","b"]}`)
				if got := errorCode(t, w); w.Code != tt.status || got != want {
					t.Errorf("%s: %d %s, want %d %s", path, w.Code, got, tt.status, want)
				}
			}
		})
	}
}

func TestForward(t *testing.T) {
	var seen relay.ForwardRequest
	role := &fakeRole{name: "chatter", forward: func(_ context.Context, w http.ResponseWriter, req relay.ForwardRequest) error {
		seen = relay.ForwardRequest{Path: req.Path, Body: slices.Clone(req.Body), Stream: req.Stream}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, piece := range []string{"data: a\n\n", "data: b\n\n"} {
			if _, err := io.WriteString(w, piece); err != nil {
				return err
			}
			if err := http.NewResponseController(w).Flush(); err != nil {
				return err
			}
		}
		return nil
	}}
	address, _ := start(t, setup(t, newDoor(), func(c *gateway.Config) { c.Chat = role }))
	for path, engine := range map[string]string{"/v1/chat/completions": "/v1/chat/completions", "/v1//completions/": "/v1/completions", "/infill": "/infill"} {
		for body, stream := range map[string]bool{`{"stream":true,"messages":[]}`: true, `{"messages":[ ]}`: false, `{"stream":null}`: false} {
			resp, err := http.Post("http://"+address+path, "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != 200 || string(got) != "data: a\n\ndata: b\n\n" || resp.Header.Get("Content-Type") != "text/event-stream" {
				t.Errorf("%s: %d %q %v", path, resp.StatusCode, got, err)
			}
			if diff := cmp.Diff(relay.ForwardRequest{Path: engine, Body: []byte(body), Stream: stream}, seen); diff != "" {
				t.Errorf("%s (-want +got):\n%s", path, diff)
			}
		}
	}
	for _, body := range []string{``, `[]`, `{"stream":1}`, `{"a":}`, `{} {}`} {
		w := call(setup(t, newDoor(), func(c *gateway.Config) { c.Chat = role }), "POST", "/v1/chat/completions", body)
		if errorCode(t, w); w.Code != 400 {
			t.Errorf("%q: %d", body, w.Code)
		}
	}
}

// A reply that breaks off must not look whole.
func TestForwardBreaksOff(t *testing.T) {
	role := &fakeRole{forward: func(_ context.Context, w http.ResponseWriter, _ relay.ForwardRequest) error {
		_, err := io.WriteString(w, "data: half")
		return errors.Join(err, http.NewResponseController(w).Flush(), upstream.ErrBroken)
	}}
	address, _ := start(t, setup(t, newDoor(), func(c *gateway.Config) { c.Chat = role }))
	resp, err := http.Post("http://"+address+"/v1/chat/completions", "application/json", strings.NewReader(`{"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if got, err := io.ReadAll(resp.Body); err == nil || string(got) != "data: half" {
		t.Errorf("read %q, %v; want the half and an error", got, err)
	}
}

func TestModelsOfAllRoles(t *testing.T) {
	g := setup(t, newDoor(), func(c *gateway.Config) {
		c.Reranker, c.Chat = &fakeRole{name: "reranker"}, &fakeRole{name: "chatter"}
	})
	var list struct{ Data []struct{ ID string } }
	if err := json.Unmarshal(call(g, "GET", "/v1/models", "").Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range list.Data {
		ids = append(ids, m.ID)
	}
	if diff := cmp.Diff([]string{"starter", "reranker", "chatter"}, ids); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
	if w := call(g, "GET", "/v1/models/chatter", ""); w.Code != 200 || strings.Contains(w.Body.String(), "dimensions") {
		t.Errorf("chatter: %d %s", w.Code, w.Body)
	}
}
