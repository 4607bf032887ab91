package enginetest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/enginetest"
)

// engine is a running llama-server on a unix socket.
type engine struct {
	client *http.Client
	log    string
}

const key = "a key of this test"

// start runs llama-server with the model and flags and returns when it is ready; it ends with the test.
func start(t *testing.T, model string, flags ...string) engine {
	t.Helper()
	dir, err := os.MkdirTemp("", "e") // t.TempDir may be too long for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "e.sock")
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-m", model, "--host", socket, "--api-key", key}, flags...)
	cmd := exec.CommandContext(t.Context(), enginetest.LlamaServer(t), args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("start llama-server: %v", err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		cmd.Wait()
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-exited
		log.Close()
	})
	e := engine{log: log.Name(), client: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(3 * time.Minute); ; {
		select {
		case <-tick.C:
		case <-exited:
			t.Fatalf("llama-server ended before it was ready:\n%s", e.tail())
		case <-deadline:
			t.Fatalf("llama-server is not ready after three minutes:\n%s", e.tail())
		}
		reply, err := e.client.Get("http://engine/health")
		if err != nil {
			continue // the socket is not there yet
		}
		reply.Body.Close()
		if reply.StatusCode == http.StatusOK {
			return e
		}
	}
}

func (e engine) tail() string {
	text, err := os.ReadFile(e.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-3000):])
}

// embed returns one vector a text, checked: all finite, norm 1.
func (e engine) embed(t *testing.T, texts ...string) [][]float64 {
	t.Helper()
	body, err := json.Marshal(map[string]any{"input": texts})
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://engine/v1/embeddings", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	reply, err := e.client.Do(request)
	if err != nil {
		t.Fatalf("embed: %v\n%s", err, e.tail())
	}
	defer reply.Body.Close()
	var parsed struct {
		Data []struct {
			Index     int
			Embedding []*float64 // a NaN arrives as null
		}
	}
	if err := json.NewDecoder(reply.Body).Decode(&parsed); err != nil || reply.StatusCode != http.StatusOK {
		t.Fatalf("embed: status %d, %v\n%s", reply.StatusCode, err, e.tail())
	}
	if len(parsed.Data) != len(texts) {
		t.Fatalf("%d vectors for %d texts", len(parsed.Data), len(texts))
	}
	vectors := make([][]float64, len(texts))
	for _, d := range parsed.Data {
		for i, x := range d.Embedding {
			if x == nil {
				t.Fatalf("component %d of vector %d is null", i, d.Index)
			}
			vectors[d.Index] = append(vectors[d.Index], *x)
		}
		if norm := math.Sqrt(dot(vectors[d.Index], vectors[d.Index])); math.Abs(norm-1) > 1e-4 {
			t.Fatalf("vector %d has norm %g", d.Index, norm)
		}
	}
	return vectors
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// The starter model finds by meaning: no query shares a word with its document.
func TestStarterModelRanksByMeaning(t *testing.T) {
	e := start(t, enginetest.StarterModel(t), "--embeddings", "-ngl", "34", "-c", "32768", "-b", "8192", "-ub", "8192", "-np", "4")
	documents := []string{
		"The automobile repair manual explains how to change the oil and the brake pads.",
		"Cardiac patients should consult their physician before they exercise.",
		"Mix flour, cocoa and eggs, then bake the chocolate cake for forty minutes.",
		"Parliament passed the new budget law after a long debate.",
	}
	queries := []string{"vehicle maintenance", "heart disease doctor", "dessert cooking", "taxes and legislation"}
	ds, qs := e.embed(t, documents...), e.embed(t, queries...)
	for i, q := range qs {
		if len(q) != 128 {
			t.Fatalf("%d dimensions, want 128", len(q))
		}
		own := dot(q, ds[i])
		if own < 0.5 {
			t.Errorf("%q is similar to its document by %.2f, want 0.5 or more", queries[i], own)
		}
		for j, d := range ds {
			if other := dot(q, d); j != i && other > own-0.25 {
				t.Errorf("%q: its document has %.2f, %q has %.2f: too close", queries[i], own, documents[j], other)
			}
		}
	}

	// Words the model does not know weigh nothing, and case and accents do not matter.
	same := e.embed(t, "chocolate cake", "CHOCOLATE 초콜릿 câke")
	if got := dot(same[0], same[1]); got < 0.99 {
		t.Errorf("the same words in another guise are similar by %.3f", got)
	}
}

// The fixture takes the flags of the reference profile and answers in the real model's dimension.
func TestQwen3ShapedTakesTheReferenceFlags(t *testing.T) {
	e := start(t, enginetest.Qwen3Shaped(t),
		"--embeddings", "--pooling", "last", "-ngl", "34", "-c", "131072", "-b", "32768", "-ub", "32768", "-np", "4")
	texts := []string{"import os", "온돌은 따뜻하다", "import os", ""}
	vectors := e.embed(t, texts...)
	for i, v := range vectors {
		if len(v) != 2560 {
			t.Fatalf("%q has %d dimensions, want 2560", texts[i], len(v))
		}
	}
	if got := dot(vectors[0], vectors[2]); got < 0.999 {
		t.Errorf("the same text twice is similar by %g", got)
	}
	if got := dot(vectors[0], vectors[1]); got > 0.999 {
		t.Errorf("two texts have the same vector (similarity %g)", got)
	}
}

// fatal stands in for a test and keeps what it was told.
type fatal struct {
	testing.TB
	said string
}

func (f *fatal) Helper() {}
func (f *fatal) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	panic(f)
}

func TestWhatIsMissingNamesTheRemedy(t *testing.T) {
	t.Setenv("ONDOL_LLAMA_SERVER", filepath.Join(t.TempDir(), "nothing"))
	f := &fatal{TB: t}
	func() {
		defer func() {
			if stopped := recover(); stopped != f {
				t.Errorf("LlamaServer ended with %v instead of Fatalf", stopped)
			}
		}()
		enginetest.LlamaServer(f)
	}()
	if !bytes.Contains([]byte(f.said), []byte("make setup")) {
		t.Errorf("it says %q", f.said)
	}
}
