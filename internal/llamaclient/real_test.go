package llamaclient_test

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/canary"
	"github.com/ondol-app/ondol/internal/enginetest"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/vector"
)

const realKey = "test-key"

// startReal runs the real llama-server and returns a client once it is ready.
func startReal(t testing.TB, model string, flags ...string) *llamaclient.Client {
	t.Helper()
	socket := socketPath(t) + ".sock"
	args := append([]string{"-m", model, "--host", socket, "--api-key", realKey, "--embeddings", "-ngl", "34"}, flags...)
	command := exec.Command(enginetest.LlamaServer(t), args...)
	log, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatalf("start llama-server: %v", err)
	}
	exited := make(chan struct{})
	go func() {
		command.Wait()
		close(exited)
	}()
	t.Cleanup(func() {
		command.Process.Kill()
		<-exited
		log.Close()
	})
	client := newClient(t, llamaclient.Config{Socket: socket, APIKey: realKey})
	deadline := time.After(2 * time.Minute)
	for client.Health(t.Context()) != nil {
		select {
		case <-exited:
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("llama-server ended:\n%s", said)
		case <-deadline:
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("llama-server is not ready:\n%s", said)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return client
}

func TestRealStarter(t *testing.T) {
	client := startReal(t, enginetest.StarterModel(t), "-c", "2048", "-b", "512", "-ub", "512", "-np", "4")
	ctx := t.Context()

	props, err := client.Props(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if props.Slots != 4 || props.ContextPerSlot != 512 || !strings.HasSuffix(props.Model, ".gguf") || props.Build == "" {
		t.Errorf("Props = %+v", props)
	}
	meta, err := client.ModelMeta(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if meta.Dim != 128 || meta.Size == 0 || meta.Params == 0 {
		t.Errorf("ModelMeta = %+v", meta)
	}

	inputs := []string{"the river flooded the village", "water rose over the houses", "quarterly tax report"}
	want := vector.Expect{Dim: meta.Dim, Normalized: true}
	got, err := client.Embed(ctx, inputs, want)
	if err != nil {
		t.Fatal(err)
	}
	near, far := canary.Cosine(got.Vectors[0], got.Vectors[1]), canary.Cosine(got.Vectors[0], got.Vectors[2])
	if near <= far {
		t.Errorf("cosine of the related pair %v, of the unrelated %v", near, far)
	}
	counts, err := client.CountTokens(ctx, inputs)
	if err != nil {
		t.Fatal(err)
	}
	if sum := counts[0] + counts[1] + counts[2]; sum != got.PromptTokens {
		t.Errorf("counted %d tokens, the engine embedded %d", sum, got.PromptTokens)
	}
	// Together and one by one is the same, and in the same order.
	for i, input := range inputs {
		alone, err := client.Embed(ctx, []string{input}, want)
		if err != nil {
			t.Fatal(err)
		}
		if cosine := canary.Cosine(alone.Vectors[0], got.Vectors[i]); math.Abs(cosine-1) > 1e-3 {
			t.Errorf("input %d alone and together: cosine %v", i, cosine)
		}
	}

	var long *llamaclient.ContextError
	_, err = client.Embed(ctx, []string{"short", strings.Repeat("water ", 700)}, want)
	if !errors.As(err, &long) || long.Tokens < 700 || long.Limit != 512 {
		t.Errorf("too long: %v, want *ContextError over a limit of 512", err)
	}
	var invalid *vector.InvalidError
	if _, err := client.Embed(ctx, inputs, vector.Expect{Dim: 127}); !errors.As(err, &invalid) || len(invalid.Problems) != 3 {
		t.Errorf("another dimension than expected: %v", err)
	}
}

func TestRealQwen3Shaped(t *testing.T) {
	client := startReal(t, enginetest.Qwen3Shaped(t), "--pooling", "last", "-c", "2048", "-b", "512", "-ub", "512", "-np", "2")
	reply, err := client.Embed(t.Context(), []string{"import os", "온돌"}, vector.Expect{Dim: 2560, Normalized: true})
	if err != nil {
		t.Fatal(err)
	}
	counts, err := client.CountTokens(t.Context(), []string{"import os", "온돌"})
	if err != nil {
		t.Fatal(err)
	}
	// Byte vocabulary and an end token.
	if diff := cmp.Diff([]int{10, 7}, counts); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
	if reply.PromptTokens != 17 {
		t.Errorf("PromptTokens = %d, want 17", reply.PromptTokens)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = client.Embed(ctx, []string{strings.Repeat("long ", 200)}, vector.Expect{})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("1 ms for 1000 tokens: %v", err)
	}
}

func TestRealWrongKey(t *testing.T) {
	socket := socketPath(t) + ".sock"
	command := exec.Command(enginetest.LlamaServer(t), "-m", enginetest.StarterModel(t), "--host", socket, "--api-key", realKey, "--embeddings", "-c", "512")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
	})
	client := newClient(t, llamaclient.Config{Socket: socket, APIKey: "wrong"})
	deadline := time.After(time.Minute)
	for client.Health(t.Context()) != nil {
		select {
		case <-deadline:
			t.Fatal("llama-server is not ready")
		case <-time.After(50 * time.Millisecond):
		}
	}
	var status *llamaclient.StatusError
	if _, err := client.Embed(t.Context(), []string{"x"}, vector.Expect{}); !errors.As(err, &status) || status.Code != 401 {
		t.Errorf("wrong key: %v, want 401", err)
	}
}

func BenchmarkEmbedFake2560(b *testing.B) {
	v := make([]float32, 2560)
	for i := range v {
		v[i] = float32(i%13) - 5.7
	}
	if err := vector.Normalize(v); err != nil {
		b.Fatal(err)
	}
	answer := []byte(reply(item("0", base64Of(v...))))
	path := serve(b, answerWith(answer))
	client := newClient(b, llamaclient.Config{Socket: path})
	for b.Loop() {
		if _, err := client.Embed(b.Context(), []string{"x"}, vector.Expect{Dim: 2560, Normalized: true}); err != nil {
			b.Fatal(err)
		}
	}
}
