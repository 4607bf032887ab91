package remote_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/remote"
	"github.com/ondol-app/ondol/internal/upstream"
	"github.com/ondol-app/ondol/internal/vector"
)

// server answers in the recorded shapes of a dialect, with a fault on demand.
type server struct {
	*httptest.Server
	digest atomic.Pointer[string]

	mu    sync.Mutex
	fault http.HandlerFunc // guarded by mu; nil = answer right
	saw   []string         // guarded by mu; bodies of embedding requests
}

func (s *server) setFault(fault http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	digest := "d1"
	s.digest.Store(&digest)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/tags", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"models":[{"name":"nomic:latest","model":"nomic:latest","digest":%q,"details":{"family":"bert"}}]}`, *s.digest.Load())
	})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
	})
	embed := func(shape func([]string) string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			s.mu.Lock()
			fault := s.fault
			s.saw = append(s.saw, string(body))
			s.mu.Unlock()
			if fault != nil {
				fault(w, r)
				return
			}
			var request struct{ Input []string }
			json.Unmarshal(body, &request)
			io.WriteString(w, shape(request.Input))
		}
	}
	mux.HandleFunc("POST /api/embed", embed(func(in []string) string {
		return `{"model":"nomic","embeddings":[` + strings.Join(strings.Split(strings.Repeat("[0.6,0.8]", len(in)), "]["), "],[") +
			`],"total_duration":14143917,"load_duration":1019500,"prompt_eval_count":8}`
	}))
	mux.HandleFunc("POST /v1/embeddings", embed(func(in []string) string {
		var data []string
		for i := range in {
			data = append(data, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":[3,4]}`, i))
		}
		return `{"object":"list","data":[` + strings.Join(data, ",") + `],"usage":{"prompt_tokens":8,"total_tokens":8}}`
	}))
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *server) config(kind remote.Kind) remote.Config {
	model := map[remote.Kind]string{remote.KindOllama: "nomic", remote.KindOpenAI: "m"}[kind]
	return remote.Config{Role: upstream.RoleEmbed, Kind: kind, URL: s.URL, Model: model,
		Backoff: remote.Backoff{First: 20 * time.Millisecond, Max: 100 * time.Millisecond, Reset: time.Hour}}
}

func TestOllama(t *testing.T) {
	s := newServer(t)
	config := s.config(remote.KindOllama)
	config.Recheck = 20 * time.Millisecond
	e := watch(t, config)
	first := await(t, e, "ready", in(remote.Ready))
	if first.Dimension != 2 || first.Digest != "d1" {
		t.Errorf("status = %+v", first)
	}
	s.mu.Lock()
	if len(s.saw) != 1 || !strings.Contains(s.saw[0], `"truncate":false`) || !strings.Contains(s.saw[0], `"model":"nomic"`) {
		t.Errorf("requests: %q", s.saw)
	}
	s.mu.Unlock()
	instance, err := e.Current()
	if err != nil {
		t.Fatal(err)
	}
	reply, err := instance.Client.Embed(t.Context(), []string{"a", "b", "c"}, vector.Expect{Dim: 2, Normalized: true})
	if err != nil || len(reply.Vectors) != 3 || reply.PromptTokens != 8 {
		t.Errorf("Embed = %+v, %v", reply, err)
	}
	if _, err := instance.Client.CountTokens(t.Context(), []string{"a"}); !errors.Is(err, remote.ErrNoCount) {
		t.Errorf("CountTokens = %v", err)
	}
	// The same name, another model: the vectors are no longer comparable.
	other := "d2"
	s.digest.Store(&other)
	second := await(t, e, "the other model", func(s remote.Status) bool { return s.State == remote.Ready && s.Digest == "d2" })
	if second.Fingerprint == first.Fingerprint {
		t.Error("two models have one fingerprint")
	}
}

func TestInvalidReplies(t *testing.T) {
	for name, tt := range map[string]struct {
		kind   remote.Kind
		body   string
		reason vector.Reason
	}{
		"null in Ollama":     {remote.KindOllama, `{"embeddings":[[0.6,null]]}`, vector.ReasonNotFinite},
		"zeros in Ollama":    {remote.KindOllama, `{"embeddings":[[0,0]]}`, vector.ReasonZero},
		"too many in Ollama": {remote.KindOllama, `{"embeddings":[[0.6,0.8],[0.6,0.8]]}`, vector.ReasonCount},
		"none in Ollama":     {remote.KindOllama, `{}`, vector.ReasonCount},
		"text in Ollama":     {remote.KindOllama, `{"embeddings":["x"]}`, vector.ReasonMalformed},
		"dimension, Ollama":  {remote.KindOllama, `{"embeddings":[[0.6,0.8,0]]}`, vector.ReasonDimension},
		"no JSON, Ollama":    {remote.KindOllama, `<html>`, vector.ReasonMalformed},
		"null":               {remote.KindOpenAI, `{"data":[{"index":0,"embedding":[null,1]}]}`, vector.ReasonNotFinite},
		"NaN in base64": {remote.KindOpenAI, `{"data":[{"index":0,"embedding":"` +
			base64.StdEncoding.EncodeToString([]byte{0, 0, 0xc0, 0x7f, 0, 0, 0x80, 0x3f}) + `"}]}`, vector.ReasonNotFinite},
		"wrong index": {remote.KindOpenAI, `{"data":[{"index":1,"embedding":[3,4]}]}`, vector.ReasonIndex},
		"huge":        {remote.KindOpenAI, `{"data":"` + strings.Repeat("x", 4<<20) + `"}`, vector.ReasonMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			e := watch(t, s.config(tt.kind))
			await(t, e, "ready", in(remote.Ready))
			instance, err := e.Current()
			if err != nil {
				t.Fatal(err)
			}
			s.setFault(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, tt.body) })
			_, err = instance.Client.Embed(t.Context(), []string{"a"}, vector.Expect{Dim: 2})
			invalid, ok := errors.AsType[*vector.InvalidError](err)
			if !ok || invalid.Problems[0].Reason != tt.reason {
				t.Errorf("Embed = %v, want %s", err, tt.reason)
			}
		})
	}
}

func TestFaultsOnTheWay(t *testing.T) {
	type check func(t *testing.T, err error)
	unavailable := func(state string, retry time.Duration) check {
		return func(t *testing.T, err error) {
			e, ok := errors.AsType[*upstream.UnavailableError](err)
			if !ok || e.State != state || e.RetryAfter != retry {
				t.Errorf("%v, want unavailable (%s, %v)", err, state, retry)
			}
		}
	}
	status := func(code int, says string) check {
		return func(t *testing.T, err error) {
			e, ok := errors.AsType[*upstream.StatusError](err)
			if !ok || e.Code != code || !strings.Contains(e.Message, says) {
				t.Errorf("%v, want status %d with %q", err, code, says)
			}
		}
	}
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("a request with %q came to another host", r.Header.Get("Authorization"))
	}))
	defer stranger.Close()
	for name, tt := range map[string]struct {
		fault http.HandlerFunc
		check check
		after remote.State // where the engine stands then; Ready = it was not told
	}{
		"overloaded": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "7")
			http.Error(w, `{"error":{"message":"slow down"}}`, http.StatusTooManyRequests)
		}, unavailable("busy", 7*time.Second), remote.Ready},
		"loading": {func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, `{"error":"loading"}`, http.StatusServiceUnavailable)
		}, unavailable("busy", time.Second), remote.Ready},
		"disconnect": {func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
			unavailable("unreachable", time.Second), remote.Unreachable},
		"half a reply": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, `{"embeddings":[[0.6`)
		}, unavailable("unreachable", time.Second), remote.Unreachable},
		"its own words": {func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, `{"error":"the input length exceeds the context length"}`, 400)
		}, status(400, "exceeds the context length"), remote.Ready},
		"another host": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, stranger.URL+r.URL.Path, http.StatusTemporaryRedirect)
		}, status(307, ""), remote.Ready},
		"silence": {func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, func(t *testing.T, err error) {
			if !errors.Is(err, upstream.ErrRead) {
				t.Errorf("%v, want %v", err, upstream.ErrRead)
			}
		}, remote.Ready},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			config := s.config(remote.KindOllama)
			config.Key = withKey(key)
			config.Limits = upstream.DefaultLimits()
			if name == "silence" {
				config.Limits.Read = 500 * time.Millisecond
			}
			e := watch(t, config)
			await(t, e, "ready", in(remote.Ready))
			instance, err := e.Current()
			if err != nil {
				t.Fatal(err)
			}
			s.setFault(tt.fault)
			_, err = instance.Client.Embed(t.Context(), []string{"a"}, vector.Expect{Dim: 2})
			tt.check(t, err)
			if err != nil && leaks(err.Error()) {
				t.Errorf("the error shows the key: %v", err)
			}
			await(t, e, string(tt.after), func(s remote.Status) bool { return s.State == tt.after })
		})
	}
}

func TestProbeRefusals(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*remote.Config)
		fault  http.HandlerFunc
		state  remote.State
		code   remote.Code
	}{
		"no such model": {func(c *remote.Config) { c.Model = "other" }, nil, remote.Refused, remote.CodeModel},
		"no key": {func(c *remote.Config) {
			c.Key = func(context.Context) (string, error) { return "", errors.New("keychain is locked") }
		}, nil, remote.Refused, remote.CodeKey},
		"zeros": {nil, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, `{"embeddings":[[0,0],[0,0]]}`) }, remote.Refused, remote.CodeInvalid},
		"slow": {func(c *remote.Config) { c.Probe = 50 * time.Millisecond }, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			remote.Unreachable, remote.CodeTimeout},
		"broken": {nil, func(w http.ResponseWriter, r *http.Request) { http.Error(w, "x", 500) }, remote.Unreachable, remote.CodeUnreachable},
		"moved":  {nil, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusPermanentRedirect) }, remote.Refused, remote.CodeRedirect},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.setFault(tt.fault)
			config := s.config(remote.KindOllama)
			if tt.change != nil {
				tt.change(&config)
			}
			e := watch(t, config)
			status := await(t, e, "a refusal", func(s remote.Status) bool { return s.LastError != nil })
			if status.State != tt.state && status.State != remote.Checking || status.LastError.Code != tt.code {
				t.Errorf("status = %+v, %v", status, status.LastError)
			}
			if tt.fault != nil {
				s.setFault(nil)
				if tt.change == nil {
					await(t, e, "recovery", in(remote.Ready))
				}
			}
		})
	}
}

// A server that does not know base64 is asked for floats; one whose vectors have any length is believed at its own.
func TestFallbacks(t *testing.T) {
	s := newServer(t)
	var strict atomic.Int32
	s.setFault(nil)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "encoding_format") {
			strict.Add(1)
			http.Error(w, `{"message":"encoding_format is not supported"}`, http.StatusUnprocessableEntity)
			return
		}
		request, _ := http.NewRequest(r.Method, s.URL+r.URL.Path, strings.NewReader(string(body)))
		reply, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Error(err)
			return
		}
		defer reply.Body.Close()
		w.WriteHeader(reply.StatusCode)
		io.Copy(w, reply.Body)
	}))
	defer front.Close()
	config := s.config(remote.KindOpenAI)
	config.URL = front.URL
	e := watch(t, config)
	await(t, e, "ready", in(remote.Ready))
	instance, err := e.Current()
	if err != nil {
		t.Fatal(err)
	}
	if !instance.Unnormalized || instance.Dim != 2 {
		t.Errorf("instance = %+v", instance)
	}
	if _, err := instance.Client.Embed(t.Context(), []string{"a"}, vector.Expect{Dim: 2}); err != nil || strict.Load() != 1 {
		t.Errorf("Embed = %v, refused %d times", err, strict.Load())
	}
}

func TestTEIReranks(t *testing.T) {
	var answer atomic.Value
	answer.Store(`[{"index":1,"score":0.9},{"index":0,"score":0.1}]`)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /rerank", func(w http.ResponseWriter, r *http.Request) {
		var request struct{ Texts []string }
		json.NewDecoder(r.Body).Decode(&request)
		if len(request.Texts) != 2 {
			http.Error(w, `{"error":"no texts","error_type":"validation"}`, http.StatusUnprocessableEntity)
			return
		}
		io.WriteString(w, answer.Load().(string))
	})
	tei := httptest.NewServer(mux)
	defer tei.Close()
	e := watch(t, remote.Config{Role: upstream.RoleRerank, Kind: remote.KindOpenAI, URL: tei.URL, Model: "bge"})
	await(t, e, "ready", in(remote.Ready))
	instance, err := e.Current()
	if err != nil {
		t.Fatal(err)
	}
	for body, valid := range map[string]bool{
		`[{"index":0,"score":0.5},{"index":1,"score":0.25}]`: true,
		`[{"index":0,"score":null},{"index":1,"score":1}]`:   false,
		`[{"index":0,"score":1}]`:                            false,
		`[{"index":0,"score":1},{"index":0,"score":2}]`:      false,
		`[{"index":0,"score":"1"},{"index":1,"score":2}]`:    false,
		`[{"index":0},{"index":1,"score":2}]`:                false,
	} {
		answer.Store(body)
		reply, err := instance.Client.Rerank(t.Context(), "q", []string{"a", "b"})
		if invalid, ok := errors.AsType[*vector.InvalidError](err); ok == valid || valid && reply.Scores[0] != 0.5 {
			t.Errorf("%s: %+v, %v", body, reply, invalid)
		}
	}
}

func TestConfigsThatAreRefused(t *testing.T) {
	for name, config := range map[string]remote.Config{
		"clear text to another machine": {Role: upstream.RoleEmbed, Kind: remote.KindOpenAI, URL: "http://192.168.0.9:8080", Model: "m"},
		"no model":                      {Role: upstream.RoleEmbed, Kind: remote.KindOpenAI, URL: "https://host"},
		"no role":                       {Kind: remote.KindOpenAI, URL: "https://host", Model: "m"},
		"no kind":                       {Role: upstream.RoleEmbed, URL: "https://host", Model: "m"},
		"Ollama does not rerank":        {Role: upstream.RoleRerank, Kind: remote.KindOllama, URL: "https://host", Model: "m"},
		"a password in the address":     {Role: upstream.RoleEmbed, Kind: remote.KindOpenAI, URL: "https://a:" + key + "@host", Model: "m"},
	} {
		if _, err := remote.New(config); err == nil || leaks(err.Error()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	e, err := remote.New(remote.Config{Role: upstream.RoleEmbed, Kind: remote.KindOpenAI, URL: "http://192.168.0.9:8080", Model: "m", PlainHTTP: true})
	if err != nil {
		t.Fatal(err)
	}
	if s := e.Snapshot(); !s.Outside || !s.Plain {
		t.Errorf("status = %+v, want it to say that texts leave, unencrypted", s)
	}
}
