package trial_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/trial"
	"github.com/ondol-app/ondol/internal/vector"
)

func TestEndpoint(t *testing.T) {
	v := embed("x")
	answer := func(w http.ResponseWriter, encoded string) {
		fmt.Fprintf(w, `{"data":[{"index":0,"embedding":%s}],"usage":{"prompt_tokens":3}}`, encoded)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Model    string
			Input    []string
			Encoding string `json:"encoding_format"`
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || r.URL.Path != "/v1/embeddings" ||
			r.Header.Get("Authorization") != "Bearer secret" || asked.Model != "m" || asked.Encoding != "base64" {
			t.Errorf("%s: %v, %+v, %v", r.URL.Path, err, asked, r.Header)
		}
		switch asked.Input[0] {
		case "fine":
			answer(w, `"`+base64Of(v)+`"`)
		case "null":
			answer(w, `[1,null,0]`)
		case "full":
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, `{"error":{"message":"full","type":"rate_limit_error","param":null,"code":"queue_full"}}`)
		case "proxy":
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(w, `<html>`)
		}
	}))
	defer server.Close()
	endpoint := trial.NewEndpoint(server.URL+"/v1", "secret", "m", dim)
	defer endpoint.Close()
	got, err := endpoint.Embed(t.Context(), []string{"fine"})
	if diff := cmp.Diff([][]float32{v}, got); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
	if _, err := endpoint.Embed(t.Context(), []string{"null"}); !invalid(err, vector.ReasonNotFinite) {
		t.Errorf("null: %v", err)
	}
	for text, code := range map[string]string{"full": "queue_full", "proxy": "http_502"} {
		_, err := endpoint.Embed(t.Context(), []string{text})
		if refused, ok := errors.AsType[*trial.RefusedError](err); !ok || refused.Code() != code {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func invalid(err error, reason vector.Reason) bool {
	bad, ok := errors.AsType[*vector.InvalidError](err)
	return ok && bad.Problems[0].Reason == reason
}

// base64Of is v as encoding_format "base64" has it: little-endian single floats.
func base64Of(v []float32) string {
	raw, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		panic(err) // a slice of floats has a size
	}
	return base64.StdEncoding.EncodeToString(raw)
}
