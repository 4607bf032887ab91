package llamaclient_test

import (
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/vector"
)

func TestStream(t *testing.T) {
	next := make(chan struct{})
	client := newClient(t, llamaclient.Config{APIKey: "k", Socket: serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/v1/completions" || string(body) != `{"a":1}` || r.Header.Get("Authorization") != "Bearer k" {
			t.Errorf("%s %q %v", r.URL, body, r.Header)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, piece := range []string{"one", "two"} {
			io.WriteString(w, piece)
			http.NewResponseController(w).Flush()
			<-next
		}
	})})
	response, err := client.Stream(t.Context(), "/v1/completions", []byte(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	buffer := make([]byte, 100)
	for _, want := range []string{"one", "two"} { // the second is written only once the first was read
		n, err := response.Body.Read(buffer)
		if err != nil || string(buffer[:n]) != want {
			t.Fatalf("read %q, %v; want %q", buffer[:n], err, want)
		}
		next <- struct{}{}
	}
	if _, err := response.Body.Read(buffer); err != io.EOF {
		t.Errorf("end: %v", err)
	}
}

func TestStreamIdleLimit(t *testing.T) {
	limits := longLimits()
	limits.Read = 50 * time.Millisecond
	client := newClient(t, llamaclient.Config{Limits: limits, Socket: serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "one")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})})
	response, err := client.Stream(t.Context(), "/v1/completions", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	_, err = io.ReadAll(response.Body)
	wantOnly(t, err, llamaclient.ErrRead)
}

// A stream holds one of the connections until its body is closed.
func TestStreamHoldsItsConnection(t *testing.T) {
	limits := longLimits()
	limits.MaxConns, limits.MaxIdle, limits.PoolWait = 1, 1, 20*time.Millisecond
	client := newClient(t, llamaclient.Config{Limits: limits, Socket: serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "{}")
	})})
	response, err := client.Stream(t.Context(), "/v1/completions", nil)
	if err != nil {
		t.Fatal(err)
	}
	wantOnly(t, client.Health(t.Context()), llamaclient.ErrPoolWait)
	response.Body.Close()
	if err := client.Health(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestErrorWords(t *testing.T) {
	for body, want := range map[string]llamaclient.StatusError{
		`{"error":{"code":400,"message":"m","type":"t"}}`:           {Code: 418, Message: "m", Type: "t"},
		`{"error":{"code":"bad","message":"m","param":null}}`:       {Code: 418, Message: "m"},
		`{"error":"the input length exceeds the context length"}`:   {Code: 418, Message: "the input length exceeds the context length"},
		`{"object":"error","message":"m"}`:                          {Code: 418, Message: "m"},
		`<html>`:                                                    {Code: 418, Message: "I'm a teapot"},
		`{"error":{"message":"` + strings.Repeat("x", 9000) + `"}}`: {Code: 418, Message: strings.Repeat("x", 2048) + "…"},
	} {
		client := newClient(t, llamaclient.Config{Socket: serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(http.StatusTeapot)
			io.WriteString(w, body)
		})})
		_, err := client.Stream(t.Context(), "/x", nil)
		got, ok := errors.AsType[*llamaclient.StatusError](err)
		if !ok {
			t.Errorf("%s: %v", body, err)
			continue
		}
		want.RetryAfter = 3 * time.Second
		if diff := cmp.Diff(want, *got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	}
}

func TestParseRerank(t *testing.T) {
	const good = `{"results":[{"index":1,"relevance_score":-2.5},{"index":0,"relevance_score":1e3}],"usage":{"total_tokens":7}}`
	reply, err := llamaclient.ParseRerank([]byte(good), 2)
	if diff := cmp.Diff(llamaclient.RerankReply{Scores: []float64{1000, -2.5}, Tokens: 7}, reply); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for body, want := range map[string]vector.Problem{
		`{"results":[{"index":0,"relevance_score":1}]}`:                                     {Index: vector.WholeReply, Reason: vector.ReasonCount},
		`{"results":[{"index":0,"relevance_score":1},{"index":0,"relevance_score":1}]}`:     {Index: 0, Reason: vector.ReasonIndex},
		`{"results":[{"index":0,"relevance_score":1},{"index":2,"relevance_score":1}]}`:     {Index: 1, Reason: vector.ReasonIndex},
		`{"results":[{"index":0,"relevance_score":1},{"relevance_score":1}]}`:               {Index: 1, Reason: vector.ReasonIndex},
		`{"results":[{"index":0,"relevance_score":1},{"index":1,"relevance_score":null}]}`:  {Index: 1, Reason: vector.ReasonNotFinite},
		`{"results":[{"index":0,"relevance_score":1},{"index":1}]}`:                         {Index: 1, Reason: vector.ReasonNotFinite},
		`{"results":[{"index":0,"relevance_score":"1"},{"index":1,"relevance_score":1}]}`:   {Index: 0, Reason: vector.ReasonNotFinite},
		`{"results":[{"index":0,"relevance_score":1e999},{"index":1,"relevance_score":1}]}`: {Index: 0, Reason: vector.ReasonNotFinite},
		`{"results":`: {Index: vector.WholeReply, Reason: vector.ReasonMalformed},
	} {
		reply, err := llamaclient.ParseRerank([]byte(body), 2)
		invalid, ok := errors.AsType[*vector.InvalidError](err)
		if !ok || len(invalid.Problems) == 0 || invalid.Problems[0] != want {
			t.Errorf("%s: %v, want %v", body, err, want)
		}
		for _, score := range reply.Scores {
			if math.IsNaN(score) {
				t.Errorf("%s: a score came out", body)
			}
		}
	}
}
