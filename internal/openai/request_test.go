package openai_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/openai"
)

func TestParseEmbeddingsAccepts(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat(`"x",`, openai.MaxInputs), ",")
	tests := []struct {
		name, body string
		want       openai.EmbeddingRequest
	}{
		{"string", `{"model":"m","input":"hello"}`,
			openai.EmbeddingRequest{Model: "m", Inputs: []string{"hello"}, Encoding: "float"}},
		{"array in order", `{"input":["b","a","b"],"model":"m"}`,
			openai.EmbeddingRequest{Model: "m", Inputs: []string{"b", "a", "b"}, Encoding: "float"}},
		{"base64 and dimensions", `{"model":"m","input":"x","encoding_format":"base64","dimensions":64}`,
			openai.EmbeddingRequest{Model: "m", Inputs: []string{"x"}, Encoding: "base64", Dimensions: 64}},
		{"null is absent", `{"model":null,"input":"x","encoding_format":null,"dimensions":null,"user":null}`,
			openai.EmbeddingRequest{Inputs: []string{"x"}, Encoding: "float"}},
		{"unknown fields", `{"truncate":true,"input":"x","input_type":"query","options":{"a":[1,{"b":null}]},"user":7}`,
			openai.EmbeddingRequest{Inputs: []string{"x"}, Encoding: "float"}},
		{"names are exact", `{"Input":["other"],"input":"x","MODEL":3}`,
			openai.EmbeddingRequest{Inputs: []string{"x"}, Encoding: "float"}},
		{"unknown field twice", `{"a":1,"a":2,"input":"x"}`,
			openai.EmbeddingRequest{Inputs: []string{"x"}, Encoding: "float"}},
		{"escapes and Korean", `{"input":"온돌\n\"\ud83d\ude00\u0000"}`,
			openai.EmbeddingRequest{Inputs: []string{"온돌\n\"😀\x00"}, Encoding: "float"}},
		{"lone surrogate", `{"input":"cut \ud83d"}`,
			openai.EmbeddingRequest{Inputs: []string{"cut \ufffd"}, Encoding: "float"}},
		{"blank around", " \r\n\t{ \"input\" : [ \"x\" ] } \n",
			openai.EmbeddingRequest{Inputs: []string{"x"}, Encoding: "float"}},
		{"a blank is text", `{"input":" "}`,
			openai.EmbeddingRequest{Inputs: []string{" "}, Encoding: "float"}},
		{"the largest batch", `{"input":[` + many + `]}`,
			openai.EmbeddingRequest{Inputs: strings.Split(strings.Repeat("x", openai.MaxInputs), ""), Encoding: "float"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := openai.ParseEmbeddings([]byte(tt.body), nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseEmbeddingsRefuses(t *testing.T) {
	tooMany := strings.TrimSuffix(strings.Repeat(`"x",`, openai.MaxInputs+1), ",")
	deep := strings.Repeat("[", 20000) + strings.Repeat("]", 20000)
	tests := []struct{ name, body, param, code, says string }{
		{"nothing", ``, "", "invalid_json", "ends too early"},
		{"blank", "  \n", "", "invalid_json", "ends too early"},
		{"cut", `{"input":"x"`, "", "invalid_json", "ends too early"},
		{"cut in a string", `{"input":"x`, "", "invalid_json", "ends too early"},
		{"not JSON", `input=x`, "", "invalid_json", "near byte"},
		{"single quotes", `{'input':'x'}`, "", "invalid_json", "near byte"},
		{"trailing comma", `{"input":"x",}`, "", "invalid_json", "not valid JSON"},
		{"array comma", `{"input":["x",]}`, "", "invalid_json", "not valid JSON"},
		{"no colon", `{"input" "x"}`, "", "invalid_json", "not valid JSON"},
		{"bare value", `"x"`, "", "invalid_json", "JSON object"},
		{"bare array", `["x"]`, "", "invalid_json", "JSON object"},
		{"null", `null`, "", "invalid_json", "JSON object"},
		{"two objects", `{"input":"x"}{"input":"y"}`, "", "invalid_json", "exactly one"},
		{"garbage after", `{"input":"x"} trailing`, "", "invalid_json", "exactly one"},
		{"closing brace after", `{"input":"x"}}`, "", "invalid_json", "exactly one"},
		{"raw bytes", "{\"input\":\"\xff\xfe\"}", "", "invalid_json", "UTF-8"},
		{"raw bytes elsewhere", "{\"input\":\"x\",\"user\":\"\xc3\"}", "", "invalid_json", "UTF-8"},
		{"control character", "{\"input\":\"a\nb\"}", "", "invalid_json", "not valid JSON"},
		{"nested too deep", `{"input":"x","options":` + deep + `}`, "", "invalid_json", "depth"},
		{"deep input", `{"input":` + deep + `}`, "input", "token_ids_unsupported", "check_embedding_ctx_length=False"},
		{"no input", `{"model":"m"}`, "input", "missing_required_parameter", "input is missing"},
		{"null input", `{"input":null}`, "input", "missing_required_parameter", "input is missing"},
		{"input twice", `{"input":"a","input":"b"}`, "input", "duplicate_field", "twice"},
		{"input twice through an escape", `{"input":"a","\u0069nput":"b"}`, "input", "duplicate_field", "twice"},
		{"null then input", `{"model":null,"model":"b","input":"x"}`, "model", "duplicate_field", "twice"},
		{"empty string", `{"input":""}`, "input", "invalid_value", "empty string"},
		{"empty array", `{"input":[]}`, "input", "invalid_value", "empty array"},
		{"empty among", `{"input":["a","b",""]}`, "input", "invalid_value", "input[2]"},
		{"null among", `{"input":["a",null]}`, "input", "invalid_value", "input[1]"},
		{"object among", `{"input":["a",{}]}`, "input", "invalid_value", "input[1]"},
		{"bool among", `{"input":[true]}`, "input", "invalid_value", "input[0]"},
		{"number", `{"input":7}`, "input", "invalid_value", "string or an array"},
		{"object", `{"input":{"text":"x"}}`, "input", "invalid_value", "string or an array"},
		{"token ids", `{"input":[1,2,3]}`, "input", "token_ids_unsupported", "check_embedding_ctx_length=False"},
		{"lists of token ids", `{"input":[[1,2],[3]]}`, "input", "token_ids_unsupported", "check_embedding_ctx_length=False"},
		{"text then ids", `{"input":["a",2]}`, "input", "token_ids_unsupported", "check_embedding_ctx_length=False"},
		{"too many", `{"input":[` + tooMany + `]}`, "input", "invalid_value", "2048"},
		{"model is a number", `{"input":"x","model":3}`, "model", "invalid_value", "GET /v1/models"},
		{"model is a list", `{"input":"x","model":["m"]}`, "model", "invalid_value", "GET /v1/models"},
		{"encoding", `{"input":"x","encoding_format":"int8"}`, "encoding_format", "invalid_value", `"float" or "base64"`},
		{"encoding case", `{"input":"x","encoding_format":"Base64"}`, "encoding_format", "invalid_value", `"float" or "base64"`},
		{"encoding type", `{"input":"x","encoding_format":1}`, "encoding_format", "invalid_value", `"float" or "base64"`},
		{"encoding empty", `{"input":"x","encoding_format":""}`, "encoding_format", "invalid_value", `"float" or "base64"`},
		{"dimensions 0", `{"input":"x","dimensions":0}`, "dimensions", "invalid_value", "at least 1"},
		{"dimensions -1", `{"input":"x","dimensions":-1}`, "dimensions", "invalid_value", "at least 1"},
		{"dimensions 1.5", `{"input":"x","dimensions":1.5}`, "dimensions", "invalid_value", "whole number"},
		{"dimensions huge", `{"input":"x","dimensions":99999999999999999999}`, "dimensions", "invalid_value", "whole number"},
		{"dimensions text", `{"input":"x","dimensions":"64"}`, "dimensions", "invalid_value", "whole number"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := openai.ParseEmbeddings([]byte(tt.body), nil)
			var got *openai.Error
			if !errors.As(err, &got) {
				t.Fatalf("error = %v, want *openai.Error", err)
			}
			if got.Type != openai.TypeInvalidRequest || got.Param != tt.param || got.Code != tt.code || !strings.Contains(got.Message, tt.says) {
				t.Errorf("error = %+v, want param %q, code %q, a message with %q", got, tt.param, tt.code, tt.says)
			}
		})
	}
}

// Whatever is accepted is valid JSON, keeps the promises of EmbeddingRequest
// and agrees with encoding/json; whatever is refused names a code.
func FuzzParseEmbeddings(f *testing.F) {
	for _, s := range []string{
		`{"model":"m","input":"hello"}`,
		`{"input":["a","b"],"encoding_format":"base64","dimensions":12}`,
		`{"input":[1,2]}`, `{"input":[[1],[2]]}`, `{"input":["a",null]}`,
		`{"input":"a","input":"b"}`, `{"input":"\ud800"}`, `{"input":"a"} x`,
		`{"a":{"b":[[[{}]]]},"input":"온돌"}`, "{\"input\":\"\xff\"}", `{"dimensions":1e3,"input":"a"}`,
		`[]`, `null`, ``, `{`, `{"`, `{"input":`, `{"input":[`, `{"input":["`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := openai.ParseEmbeddings(body, nil)
		if err != nil {
			var e *openai.Error
			if !errors.As(err, &e) || e.Code == "" || e.Message == "" || !json.Valid(e.Envelope()) {
				t.Fatalf("refusal %v of %q is no usable *Error", err, body)
			}
			return
		}
		if !json.Valid(body) {
			t.Fatalf("accepted invalid JSON %q", body)
		}
		if n := len(req.Inputs); n < 1 || n > openai.MaxInputs || req.Dimensions < 0 {
			t.Fatalf("accepted %q as %+v", body, req)
		}
		for _, s := range req.Inputs {
			if s == "" || !utf8.ValidString(s) {
				t.Fatalf("input %q of %q", s, body)
			}
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(body, &fields); err != nil {
			t.Fatal(err)
		}
		var one string
		var list []string
		if json.Unmarshal(fields["input"], &one) == nil {
			list = []string{one}
		} else if err := json.Unmarshal(fields["input"], &list); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(list, req.Inputs); diff != "" {
			t.Fatalf("inputs of %q (-encoding/json +got):\n%s", body, diff)
		}
	})
}

func BenchmarkParseEmbeddings(b *testing.B) {
	text := strings.Repeat("The floor keeps its warmth for hours. ", 50)
	for _, n := range []int{1, 100} {
		body, err := json.Marshal(map[string]any{"model": "m", "input": strings.Split(strings.Repeat(text+"\n", n-1)+text, "\n"), "encoding_format": "base64"})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("inputs=%d", n), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := openai.ParseEmbeddings(body, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
