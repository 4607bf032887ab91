package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/gateway"
	"github.com/ondol-app/ondol/internal/upstream"
	"github.com/ondol-app/ondol/internal/vector"
)

// Each error of the door, as a client sees it: contract sections 1 and 2.
func TestDoorErrors(t *testing.T) {
	many := &vector.InvalidError{}
	for i := range 40 {
		many.Problems = append(many.Problems, vector.Problem{Index: i, Reason: vector.ReasonNotFinite})
	}
	tests := []struct {
		name   string
		err    error
		status int
		header map[string]string // "" = must not be there
	}{
		{"queue_full", &admission.RejectedError{Reason: "queue_full", RetryAfter: 2345 * time.Millisecond}, 429,
			map[string]string{"Retry-After": "1", "retry-after-ms": "2345", "x-should-retry": ""}},
		{"queue_timeout", &admission.RejectedError{Reason: "queue_timeout", RetryAfter: 5 * time.Hour}, 429,
			map[string]string{"Retry-After": "1", "retry-after-ms": "60000"}},
		{"queue_full_no_estimate", &admission.RejectedError{Reason: "queue_full"}, 429,
			map[string]string{"Retry-After": "1", "retry-after-ms": "1"}},
		{"upstream_timeout", &embedding.TimeoutError{After: 5 * time.Minute}, 504,
			map[string]string{"Retry-After": ""}},
		{"engine_loading", &embedding.UnavailableError{State: "loading", RetryAfter: 3100 * time.Millisecond}, 503,
			map[string]string{"Retry-After": "4", "x-should-retry": ""}},
		{"engine_failed", &embedding.UnavailableError{State: "failed"}, 503,
			map[string]string{"Retry-After": "5"}},
		{"engine_stopped", &embedding.UnavailableError{State: "stopped"}, 503,
			map[string]string{"Retry-After": "5"}},
		{"engine_broke_off", &embedding.UnavailableError{State: upstream.StateLost, RetryAfter: time.Second, Err: fmt.Errorf("read: %w", upstream.ErrBroken)}, 503,
			map[string]string{"Retry-After": "1", "x-should-retry": ""}},
		{"engine_unreachable", &embedding.UnavailableError{State: upstream.StateLost, RetryAfter: time.Second, Err: upstream.ErrConnect}, 503,
			map[string]string{"Retry-After": "1"}},
		{"invalid_vector", &vector.InvalidError{Problems: []vector.Problem{{Index: 0, Reason: vector.ReasonNotFinite}, {Index: 7, Reason: vector.ReasonZero}}}, 502,
			map[string]string{"x-should-retry": "false", "Retry-After": ""}},
		{"invalid_vector_count", &vector.InvalidError{Problems: []vector.Problem{{Index: vector.WholeReply, Reason: vector.ReasonCount}}}, 502,
			map[string]string{"x-should-retry": "false"}},
		{"invalid_vector_many", many, 502,
			map[string]string{"x-should-retry": "false"}},
		{"context_length_exceeded", &embedding.TooLongError{Index: 3, Tokens: 9001, Limit: 8192}, 400,
			map[string]string{"Retry-After": ""}},
		{"stopping", admission.ErrClosed, 503,
			map[string]string{"Retry-After": "5"}},
		{"engine_refused", &upstream.StatusError{Code: 422, Message: "the input length exceeds the context length"}, 400,
			map[string]string{"Retry-After": ""}},
		{"engine_key_wrong", &upstream.StatusError{Code: 401, Message: "Invalid API Key"}, 502,
			map[string]string{"Retry-After": ""}},
		{"upstream_error", errors.New("engine said 500"), 502,
			map[string]string{"Retry-After": ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// Wrapped, as errors travel.
			g := setup(t, failing(fmt.Errorf("embed: %w", tt.err)), nil)
			w := call(g, http.MethodPost, "/v1/embeddings", `{"model":"starter","input":"x"}`)
			if w.Code != tt.status {
				t.Errorf("status = %d, want %d", w.Code, tt.status)
			}
			errorCode(t, w)
			for name, want := range tt.header {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s = %q, want %q", name, got, want)
				}
			}
			golden(t, tt.name, w)
		})
	}
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		name, method, path, body string
		header                   []string
		status                   int
		code                     string
	}{
		{"unknown_model", "POST", "/v1/embeddings", `{"model":"gpt-4","input":"x"}`, nil, 404, "model_not_found"},
		{"unknown_model_card", "GET", "/v1/models/gpt-4", ``, nil, 404, "model_not_found"},
		{"dimensions_too_large", "POST", "/v1/embeddings", `{"input":"x","dimensions":7}`, nil, 400, "invalid_value"},
		{"dimensions_zero", "POST", "/v1/embeddings", `{"input":"x","dimensions":0}`, nil, 400, "invalid_value"},
		{"token_ids", "POST", "/v1/embeddings", `{"input":[[1,2],[3]]}`, nil, 400, "token_ids_unsupported"},
		{"empty_string", "POST", "/v1/embeddings", `{"input":""}`, nil, 400, "invalid_value"},
		{"empty_array", "POST", "/v1/embeddings", `{"input":[]}`, nil, 400, "invalid_value"},
		{"encoding_format", "POST", "/v1/embeddings", `{"input":"x","encoding_format":"int8"}`, nil, 400, "invalid_value"},
		{"not_json", "POST", "/v1/embeddings", `input=x`, nil, 400, "invalid_json"},
		{"no_body", "POST", "/v1/embeddings", ``, nil, 400, "invalid_json"},
		{"form", "POST", "/v1/embeddings", `{"input":"x"}`, []string{"Content-Type: application/x-www-form-urlencoded"}, 415, "unsupported_media_type"},
		{"plain_text", "POST", "/v1/embeddings", `{"input":"x"}`, []string{"Content-Type: text/plain"}, 415, "unsupported_media_type"},
		{"charset", "POST", "/v1/embeddings", `{"input":"x"}`, []string{"Content-Type: application/json; charset=euc-kr"}, 415, "unsupported_media_type"},
		{"compressed", "POST", "/v1/embeddings", `{"input":"x"}`, []string{"Content-Encoding: gzip"}, 415, "unsupported_media_type"},
		{"too_large", "POST", "/v1/embeddings", `{"input":"` + strings.Repeat("x", 2000) + `"}`, nil, 413, "request_too_large"},
		{"method_get", "GET", "/v1/embeddings", ``, nil, 405, "method_not_allowed"},
		{"method_post", "POST", "/v1/models", `{}`, nil, 405, "method_not_allowed"},
		{"options", "OPTIONS", "/v1/embeddings", ``, nil, 405, "method_not_allowed"},
		{"unknown_path", "GET", "/v1/audio/speech", ``, nil, 404, "unknown_url"},
		{"odd_model_id", "GET", "/v1/models/*/..", ``, nil, 404, "model_not_found"},
		{"chat", "POST", "/v1/chat/completions", `{}`, nil, 501, "not_implemented"},
		{"completions", "POST", "/v1/completions", `{}`, nil, 501, "not_implemented"},
		{"infill", "POST", "/infill", `{}`, nil, 501, "not_implemented"},
		{"rerank", "POST", "/v1/rerank", `{}`, nil, 501, "not_implemented"},
		{"rerank_short", "POST", "/rerank", `{}`, nil, 501, "not_implemented"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			door := newDoor()
			g := setup(t, door, func(c *gateway.Config) { c.MaxBody = 1000 })
			w := call(g, tt.method, tt.path, tt.body, tt.header...)
			if got := errorCode(t, w); w.Code != tt.status || got != tt.code {
				t.Errorf("got %d %s, want %d %s", w.Code, got, tt.status, tt.code)
			}
			if len(door.seen) != 0 {
				t.Errorf("the door saw %v", door.seen)
			}
			golden(t, tt.name, w)
		})
	}
}

func TestTooLargeWithoutLength(t *testing.T) {
	g := setup(t, newDoor(), func(c *gateway.Config) { c.MaxBody = 1000 })
	r := httptest.NewRequest(http.MethodPost, "/v1/embeddings", strings.NewReader(`{"input":"`+strings.Repeat("x", 2000)+`"}`))
	r.Host, r.ContentLength = "localhost", -1
	w := httptest.NewRecorder()
	g.Handler().ServeHTTP(w, r)
	if got := errorCode(t, w); w.Code != 413 || got != "request_too_large" {
		t.Errorf("got %d %s, want 413 request_too_large", w.Code, got)
	}
}

// Nothing that is no number leaves, even when the door lets it pass.
func TestNotFiniteIsNeverServed(t *testing.T) {
	door := newDoor()
	door.embed = func(context.Context, embedding.Request) (embedding.Result, error) {
		return embedding.Result{Model: "starter", Dim: 2, Vectors: [][]float32{{1, float32(math.NaN())}}}, nil
	}
	for _, body := range []string{`{"input":"x"}`, `{"input":"x","encoding_format":"base64"}`, `{"input":"x","dimensions":2}`} {
		w := call(setup(t, door, nil), http.MethodPost, "/v1/embeddings", body)
		if got := errorCode(t, w); w.Code != 502 || got != "invalid_vector" || w.Header().Get("x-should-retry") != "false" {
			t.Errorf("%s: got %d %s %v", body, w.Code, got, w.Header())
		}
	}
}

func TestCutWithoutDirection(t *testing.T) {
	door := newDoor()
	door.embed = func(context.Context, embedding.Request) (embedding.Result, error) {
		return embedding.Result{Model: "starter", Dim: 3, Vectors: [][]float32{{1, 0, 0}, {0, 0, 1}}}, nil
	}
	w := call(setup(t, door, nil), http.MethodPost, "/v1/embeddings", `{"input":["a","b"],"dimensions":2}`)
	if got := errorCode(t, w); w.Code != 502 || got != "invalid_vector" || !strings.Contains(w.Body.String(), "input[1]") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// The engine was replaced by one with a smaller model between the two looks.
func TestDimensionsOfAReplacedEngine(t *testing.T) {
	door := newDoor()
	door.embed = func(context.Context, embedding.Request) (embedding.Result, error) {
		return embedding.Result{Model: "small", Dim: 2, Vectors: [][]float32{{1, 0}}}, nil
	}
	w := call(setup(t, door, nil), http.MethodPost, "/v1/embeddings", `{"input":"a","dimensions":4}`)
	if got := errorCode(t, w); w.Code != 400 || got != "invalid_value" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestEngineNotReady(t *testing.T) {
	door := newDoor()
	door.infoErr = &embedding.UnavailableError{State: "loading", RetryAfter: 2500 * time.Millisecond}
	g := setup(t, door, nil)
	for _, path := range []string{"/v1/models", "/v1/models/starter"} {
		w := call(g, http.MethodGet, path, "")
		if got := errorCode(t, w); w.Code != 503 || got != "engine_unavailable" || w.Header().Get("Retry-After") != "3" {
			t.Errorf("%s: got %d %s %v", path, w.Code, got, w.Header())
		}
	}
	w := call(g, http.MethodPost, "/v1/embeddings", `{"input":"x"}`)
	if got := errorCode(t, w); w.Code != 503 || got != "engine_unavailable" || w.Header().Get("Retry-After") != "3" {
		t.Errorf("embeddings: got %d %s %v", w.Code, got, w.Header())
	}
	golden(t, "readyz_loading", call(g, http.MethodGet, "/readyz", ""))
	golden(t, "healthz", call(g, http.MethodGet, "/healthz", ""))
	if len(door.seen) != 0 {
		t.Errorf("the door saw %v", door.seen)
	}
	golden(t, "readyz", call(setup(t, newDoor(), nil), http.MethodGet, "/readyz", ""))
}

func TestPanicIsOneFailedRequest(t *testing.T) {
	door := newDoor()
	door.embed = func(context.Context, embedding.Request) (embedding.Result, error) { panic("defect") }
	w := call(setup(t, door, nil), http.MethodPost, "/v1/embeddings", `{"input":"secret text"}`)
	if got := errorCode(t, w); w.Code != 500 || got != "internal_error" || strings.Contains(w.Body.String(), "defect") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}
