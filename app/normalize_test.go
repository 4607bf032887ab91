package app_test

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ondol-app/ondol/internal/enginetest"
)

// An engine that was told not to normalise is found out at its start, and its
// vectors are served as they are.
func TestEngineThatDoesNotNormalise(t *testing.T) {
	h := newHome(t)
	write(t, filepath.Join(h.dir, "settings.toml"), "[engine]\nflags = [\"--embd-normalize\", \"-1\"]\n")
	h.serve(t)
	var base string
	for _, v := range h.env {
		if address, ok := strings.CutPrefix(v, "ONDOL_LISTEN="); ok {
			base = "http://" + address
		}
	}
	const text = "the river flooded the village"
	alone, err := startEngine(t, enginetest.StarterModel(t), []string{"--embeddings", "--embd-normalize", "-1"}).embed(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(base+"/v1/embeddings", "application/json", bytes.NewBufferString(`{"input":"`+text+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var reply struct {
		Data []struct{ Embedding []float64 }
	}
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil || len(reply.Data) != 1 || len(reply.Data[0].Embedding) != len(alone) {
		t.Fatalf("%s, %d vectors: %v", resp.Status, len(reply.Data), err)
	}
	var square float64
	for i, x := range reply.Data[0].Embedding {
		square += x * x
		if math.Abs(x-alone[i]) > 1e-5 {
			t.Fatalf("component %d: %v, the engine has %v", i, x, alone[i])
		}
	}
	if norm := math.Sqrt(square); math.Abs(norm-1) < 0.1 {
		t.Errorf("the norm is %v: this engine does normalise, and nothing was shown", norm)
	}
}
