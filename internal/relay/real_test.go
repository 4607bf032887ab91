package relay_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/build/tools/tinymodels"
	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/relay"
	"github.com/ondol-app/ondol/internal/upstream"
)

const endless = `{"messages":[{"role":"user","content":"hi"}],"max_tokens":16000,"stream":true}`

// paced is long enough that its beginning is read before its end is made.
const paced = `{"messages":[{"role":"user","content":"hi"}],"max_tokens":3000,"stream":true}`

// readEvent returns the next event of a stream.
func readEvent(t *testing.T, lines *bufio.Scanner) string {
	t.Helper()
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			return data
		}
	}
	t.Fatalf("the stream ended: %v", lines.Err())
	return ""
}

func TestRealChat(t *testing.T) {
	engine := start(t, upstream.RoleChat, tinymodels.WriteTalker)
	r := newRelay(t, relay.Config{Engine: engine}, 1)

	t.Run("a stream comes in pieces", func(t *testing.T) {
		url, returned := endpoint(t, r, relay.ForwardRequest{Path: "/v1/chat/completions", Stream: true, Body: []byte(paced)})
		response, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		lines := bufio.NewScanner(response.Body)
		events, last := 1, readEvent(t, lines)
		if s := r.Stats(); s.Executing != 1 {
			t.Errorf("with the first event: %+v, want the exchange still executing", s)
		}
		for ; last != "[DONE]"; events++ {
			last = readEvent(t, lines)
		}
		if err := <-returned; err != nil {
			t.Fatal(err)
		}
		if events < 1000 {
			t.Errorf("%d events", events)
		}
		var names []string
		for name := range response.Header {
			if name != "Date" {
				names = append(names, name)
			}
		}
		if len(names) != 2 || response.Header.Get("Content-Type") != "text/event-stream" || response.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("header = %v", response.Header)
		}
		if s := r.Stats(); !idle(s) || s.Totals[admission.Served] != 1 {
			t.Errorf("stats = %+v", s)
		}
	})

	t.Run("leaving holds the permit until the slot is free", func(t *testing.T) {
		url, returned := endpoint(t, r, relay.ForwardRequest{Path: "/v1/chat/completions", Stream: true, Body: []byte(endless)})
		ctx, leave := context.WithCancel(t.Context())
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		readEvent(t, bufio.NewScanner(response.Body))
		instance, err := engine.Server.Current()
		if err != nil {
			t.Fatal(err)
		}
		if busy, err := instance.Client.Busy(t.Context()); err != nil || busy != 1 {
			t.Errorf("before leaving: %d slots busy, %v", busy, err)
		}
		leave()
		response.Body.Close()
		if err := <-returned; err == nil {
			t.Error("Forward returned no error")
		}
		until(t, r, "an idle gate", func(s admission.Stats) bool {
			if s.Executing != 0 {
				t.Fatalf("stats = %+v, want draining", s)
			}
			return idle(s)
		})
		if busy, err := instance.Client.Busy(t.Context()); err != nil || busy != 0 {
			t.Errorf("after the permit came back: %d slots busy, %v", busy, err)
		}
		if now, _ := engine.Server.Current(); now.Generation != instance.Generation {
			t.Error("the engine was replaced")
		}
		if n := r.Stats().Totals[admission.CancelledExecuting]; n != 1 {
			t.Errorf("cancelled while executing: %d", n)
		}
	})

	t.Run("errors have OpenAI's shape", func(t *testing.T) {
		for _, tt := range []struct {
			path, body string
			status     int
			code       string
		}{
			{"/v1/chat/completions", `{"messages":"no"}`, 400, "invalid_value"},
			{"/infill", `{"input_prefix":"a","input_suffix":"b"}`, 501, "not_implemented"},
			{"/v1/completions", `{"prompt":"` + strings.Repeat("x", 17000) + `"}`, 400, "context_length_exceeded"},
		} {
			recorder := httptest.NewRecorder()
			if err := r.Forward(t.Context(), recorder, relay.ForwardRequest{Path: tt.path, Body: []byte(tt.body)}); err != nil {
				t.Errorf("%s: %v", tt.path, err)
				continue
			}
			var reply struct {
				Error struct{ Message, Type, Code string }
			}
			if err := json.Unmarshal(recorder.Body.Bytes(), &reply); err != nil {
				t.Errorf("%s: %v", recorder.Body, err)
			}
			if recorder.Code != tt.status || reply.Error.Code != tt.code || reply.Error.Message == "" || reply.Error.Type == "" {
				t.Errorf("%s: %d %s", tt.path, recorder.Code, recorder.Body)
			}
		}
		if !idle(r.Stats()) {
			t.Errorf("stats = %+v", r.Stats())
		}
	})
}

// TestRealChatNeighbour leaves one of two streams: the other explains one busy slot and is not taken for the one that
// was left, nor harmed.
func TestRealChatNeighbour(t *testing.T) {
	engine := start(t, upstream.RoleChat, tinymodels.WriteTalker, "-np", "2", "-c", "65536")
	r := newRelay(t, relay.Config{Engine: engine}, 2)
	url, returned := endpoint(t, r, relay.ForwardRequest{Path: "/v1/chat/completions", Stream: true, Body: []byte(endless)})
	var lines [2]*bufio.Scanner
	var leave [2]context.CancelFunc
	for i := range lines {
		ctx, cancel := context.WithCancel(t.Context())
		leave[i] = cancel
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		lines[i] = bufio.NewScanner(response.Body)
		readEvent(t, lines[i])
	}
	leave[0]()
	<-returned
	until(t, r, "one permit back", func(s admission.Stats) bool { return s.Draining == 0 && s.Executing == 1 })
	instance, err := engine.Server.Current()
	if err != nil {
		t.Fatal(err)
	}
	if busy, err := instance.Client.Busy(t.Context()); err != nil || busy > 1 {
		t.Errorf("%d slots busy, %v", busy, err)
	}
	readEvent(t, lines[1])
	leave[1]()
	<-returned
	until(t, r, "an idle gate", idle)
}

func TestRealRerank(t *testing.T) {
	engine := start(t, upstream.RoleRerank, tinymodels.WriteReranker)
	r := newRelay(t, relay.Config{Role: upstream.RoleRerank, Engine: engine}, 1)
	documents := []string{"plain words", "bad bad bad", "good good good", "good and plain", "more plain"}
	for _, tt := range []struct {
		top  int
		want []int
	}{{0, []int{2, 3, 0, 4, 1}}, {2, []int{2, 3}}, {9, []int{2, 3, 0, 4, 1}}} {
		reply, err := r.Rerank(t.Context(), relay.RerankRequest{Query: "q", Documents: documents, TopN: tt.top})
		if err != nil {
			t.Fatal(err)
		}
		var order []int
		for i, result := range reply.Results {
			order = append(order, result.Index)
			if i > 0 && result.Score > reply.Results[i-1].Score {
				t.Errorf("scores rise: %+v", reply.Results)
			}
		}
		if diff := cmp.Diff(tt.want, order); diff != "" {
			t.Errorf("top %d (-want +got):\n%s", tt.top, diff)
		}
		if reply.Tokens == 0 || reply.Model != "tiny" {
			t.Errorf("reply = %+v", reply)
		}
	}
	if s := r.Stats(); !idle(s) || s.Totals[admission.Served] != 3 {
		t.Errorf("stats = %+v", s)
	}
}
