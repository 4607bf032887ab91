package llamaclient_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/vector"
)

func base64Of(v ...float32) string {
	var raw []byte
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return `"` + base64.StdEncoding.EncodeToString(raw) + `"`
}

func item(index, embedding string) string {
	return fmt.Sprintf(`{"index":%s,"embedding":%s,"object":"embedding"}`, index, embedding)
}

func reply(items ...string) string {
	return `{"model":"m","data":[` + strings.Join(items, ",") + `],"usage":{"prompt_tokens":7,"total_tokens":7}}`
}

func TestEmbedJudgesReplies(t *testing.T) {
	a, b := base64Of(.6, .8), base64Of(.8, -.6)
	whole := func(r vector.Reason) []vector.Problem { return []vector.Problem{{Index: vector.WholeReply, Reason: r}} }
	at := func(i int, r vector.Reason) []vector.Problem { return []vector.Problem{{Index: i, Reason: r}} }
	tests := []struct {
		name  string
		reply string
		want  []vector.Problem // nil = valid
	}{
		{"base64", reply(item("0", a), item("1", b)), nil},
		{"out of order", reply(item("1", b), item("0", a)), nil},
		{"floats", reply(item("0", "[0.6,0.8]"), item("1", "[0.8,-0.6]")), nil},
		{"escaped slash", reply(item("0", a), item("1", strings.ReplaceAll(b, "/", `\/`))), nil},
		{"null component", reply(item("0", a), item("1", "[null,0.5]")), at(1, vector.ReasonNotFinite)},
		{"all null", reply(item("0", "[null,null]"), item("1", b)), at(0, vector.ReasonNotFinite)},
		{"string component", reply(item("0", a), item("1", `["0.8","-0.6"]`)), at(1, vector.ReasonNotFinite)},
		{"infinite component", reply(item("0", a), item("1", `[1e60,0.1]`)), at(1, vector.ReasonNotFinite)},
		{"nan bits", reply(item("0", a), item("1", `"AADAf83MTD4="`)), at(1, vector.ReasonNotFinite)},
		{"infinite bits", reply(item("0", a), item("1", `"AACAf83MTD4="`)), at(1, vector.ReasonNotFinite)},
		{"zero", reply(item("0", base64Of(0, 0)), item("1", b)), at(0, vector.ReasonZero)},
		{"norm", reply(item("0", base64Of(3, 4)), item("1", b)), at(0, vector.ReasonNorm)},
		{"constant", reply(item("0", base64Of(.70710678, .70710678)), item("1", b)), at(0, vector.ReasonConstant)},
		{"dimension", reply(item("0", a), item("1", base64Of(.6, .8, 0))), at(1, vector.ReasonDimension)},
		{"empty vector", reply(item("0", a), item("1", `[]`)), at(1, vector.ReasonDimension)},
		{"too few", reply(item("0", a)), whole(vector.ReasonCount)},
		{"too many", reply(item("0", a), item("1", b), item("2", b)), whole(vector.ReasonCount)},
		{"no data", `{"usage":{}}`, whole(vector.ReasonCount)},
		{"index twice", reply(item("0", a), item("0", b)),
			[]vector.Problem{{Index: 0, Reason: vector.ReasonIndex}, {Index: 1, Reason: vector.ReasonIndex}}},
		{"index out of range", reply(item("0", a), item("2", b)), at(1, vector.ReasonIndex)},
		{"index negative", reply(item("-1", a), item("1", b)), at(0, vector.ReasonIndex)},
		{"index missing", reply(item("0", a), `{"embedding":`+b+`}`), at(1, vector.ReasonIndex)},
		{"index null", reply(item("0", a), item("null", b)), at(1, vector.ReasonIndex)},
		{"index no number", reply(item("0", a), item(`"1"`, b)), whole(vector.ReasonMalformed)},
		{"bad base64", reply(item("0", a), item("1", `"@@@"`)), at(1, vector.ReasonMalformed)},
		{"vector null", reply(item("0", a), item("1", "null")), at(1, vector.ReasonMalformed)},
		{"vector missing", reply(item("0", a), `{"index":1}`), at(1, vector.ReasonDimension)},
		{"vector a number", reply(item("0", a), item("1", "3")), at(1, vector.ReasonMalformed)},
		{"bare NaN", reply(item("0", a), item("1", "[NaN,1]")), whole(vector.ReasonMalformed)},
		{"not JSON", "<html>", whole(vector.ReasonMalformed)},
		{"empty body", "", whole(vector.ReasonMalformed)},
		{"endless", strings.Repeat(" ", 2<<20), whole(vector.ReasonMalformed)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := serve(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, tt.reply) })
			client := newClient(t, llamaclient.Config{Socket: path})
			got, err := client.Embed(t.Context(), []string{"x", "y"}, vector.Expect{Dim: 2, Normalized: true})
			if tt.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				want := llamaclient.Reply{Vectors: [][]float32{{.6, .8}, {.8, -.6}}, PromptTokens: 7}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("reply (-want +got):\n%s", diff)
				}
				return
			}
			var invalid *vector.InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("Embed = %v, want *vector.InvalidError", err)
			}
			if diff := cmp.Diff(tt.want, invalid.Problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if got.Vectors != nil {
				t.Errorf("vectors came with the error: %v", got.Vectors)
			}
		})
	}
}

func TestEmbedRequest(t *testing.T) {
	path := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Input    []string `json:"input"`
			Encoding string   `json:"encoding_format"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Errorf("request body: %v", err)
		}
		if diff := cmp.Diff([]string{"<a> & 한국어", ""}, body.Input); diff != "" {
			t.Errorf("input (-want +got):\n%s", diff)
		}
		if body.Encoding != "base64" {
			t.Errorf("encoding_format = %q, want base64", body.Encoding)
		}
		if got := r.Header.Get("Authorization"); got != "Bearer secret" {
			t.Errorf("Authorization = %q", got)
		}
		if r.URL.Path != "/v1/embeddings" || r.Method != http.MethodPost {
			t.Errorf("%s %s", r.Method, r.URL.Path)
		}
		io.WriteString(w, reply(item("0", base64Of(.6, .8)), item("1", base64Of(.8, .6))))
	})
	client := newClient(t, llamaclient.Config{Socket: path, APIKey: "secret"})
	if _, err := client.Embed(t.Context(), []string{"<a> & 한국어", ""}, vector.Expect{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Embed(t.Context(), nil, vector.Expect{}); err == nil {
		t.Error("no input: accepted")
	}
}

func TestEngineErrors(t *testing.T) {
	tests := []struct {
		name string
		code int
		body string
		want error
	}{
		{"loading", 503, `{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`,
			&llamaclient.StatusError{Code: 503, Message: "Loading model", Type: "unavailable_error"}},
		{"context", 400, `{"error":{"code":400,"message":"request (33001 tokens) exceeds","type":"exceed_context_size_error","n_prompt_tokens":33001,"n_ctx":32768}}`,
			&llamaclient.ContextError{Tokens: 33001, Limit: 32768}},
		{"batch", 500, `{"error":{"code":500,"message":"input (700 tokens) is too large to process. increase the physical batch size (current batch size: 512)","type":"server_error"}}`,
			&llamaclient.ContextError{Tokens: 700, Limit: 512}},
		{"no body", 500, "", &llamaclient.StatusError{Code: 500, Message: "Internal Server Error"}},
		{"endless body", 500, strings.Repeat("x", 1<<20), &llamaclient.StatusError{Code: 500, Message: "Internal Server Error"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(tt.code)
				io.WriteString(w, tt.body)
			})
			client := newClient(t, llamaclient.Config{Socket: path})
			_, err := client.Embed(t.Context(), []string{"x"}, vector.Expect{})
			var status *llamaclient.StatusError
			var context *llamaclient.ContextError
			var got error
			switch {
			case errors.As(err, &status):
				got = status
			case errors.As(err, &context):
				got = context
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("error %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func FuzzReply(f *testing.F) {
	f.Add(reply(item("0", base64Of(.6, .8)), item("1", "[null,1]")))
	f.Add(reply(item("0", "null"), item("null", `""`)))
	var body string
	path := serve(f, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, body) })
	client := newClient(f, llamaclient.Config{Socket: path})
	f.Fuzz(func(t *testing.T, answer string) {
		body = answer
		want := vector.Expect{Count: 2, Dim: 2, Normalized: true}
		got, err := client.Embed(t.Context(), []string{"x", "y"}, want)
		if err != nil {
			return
		}
		if err := vector.Check(got.Vectors, want); err != nil {
			t.Fatalf("%q came out of Embed: %v", answer, err)
		}
	})
}

func answerWith(body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { w.Write(body) }
}
