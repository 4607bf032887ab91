package remote_test

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ondol-app/ondol/build/tools/tinymodels"
	"github.com/ondol-app/ondol/internal/canary"
	"github.com/ondol-app/ondol/internal/enginetest"
	"github.com/ondol-app/ondol/internal/remote"
	"github.com/ondol-app/ondol/internal/upstream"
	"github.com/ondol-app/ondol/internal/vector"
)

// TestRealEmbed goes through the life of a real remote: found, used, gone, back.
func TestRealEmbed(t *testing.T) {
	flags := []string{"--embeddings", "-c", "2048", "-b", "512", "-ub", "512", "-np", "4"}
	server := startServer(t, "", enginetest.StarterModel(t), flags...)
	config := remote.Config{Role: upstream.RoleEmbed, Kind: remote.KindOpenAI, URL: "http://" + server.address, Model: "starter", Key: withKey(key),
		Backoff: remote.Backoff{First: 50 * time.Millisecond, Max: 200 * time.Millisecond, Reset: time.Hour}}
	e := watch(t, config)
	first := await(t, e, "ready", in(remote.Ready))
	if first.Dimension != 128 || first.Outside || first.Plain || len(first.Fingerprint) != 32 || first.URL != config.URL+"/v1" {
		t.Errorf("status = %+v", first)
	}
	instance, err := e.Current()
	if err != nil {
		t.Fatal(err)
	}
	if instance.Unnormalized || instance.Model != "starter" {
		t.Errorf("instance = %+v", instance)
	}
	want := vector.Expect{Dim: instance.Dim, Normalized: true}
	texts := []string{"vehicle maintenance", "the automobile repair manual", "chocolate cake"}
	reply, err := instance.Client.Embed(t.Context(), texts, want)
	if err != nil {
		t.Fatal(err)
	}
	if near, far := canary.Cosine(reply.Vectors[0], reply.Vectors[1]), canary.Cosine(reply.Vectors[0], reply.Vectors[2]); near <= far {
		t.Errorf("similarity to the manual %.2f, to the cake %.2f", near, far)
	}
	counts, err := instance.Client.CountTokens(t.Context(), texts)
	if err != nil || counts[0]+counts[1]+counts[2] != reply.PromptTokens {
		t.Errorf("counts %v, %v; the engine embedded %d tokens", counts, err, reply.PromptTokens)
	}
	_, err = instance.Client.Embed(t.Context(), []string{strings.Repeat("water ", 700)}, want)
	if long, ok := errors.AsType[*upstream.ContextError](err); !ok || long.Limit != 512 {
		t.Errorf("too long an input: %v", err)
	}

	server.stop()
	_, err = instance.Client.Embed(t.Context(), texts, want)
	if gone, ok := errors.AsType[*upstream.UnavailableError](err); !ok || gone.State != "unreachable" || gone.RetryAfter <= 0 {
		t.Errorf("after its end: %v", err)
	}
	lost := await(t, e, "unreachable", in(remote.Unreachable))
	if lost.LastError.Code != remote.CodeUnreachable || lost.RetryAt == nil {
		t.Errorf("status = %+v, %v", lost, lost.LastError)
	}
	if _, err := e.Current(); err == nil {
		t.Error("an unreachable engine is current")
	}
	startServer(t, server.address, enginetest.StarterModel(t), flags...)
	second := await(t, e, "ready again", in(remote.Ready))
	if second.Fingerprint != first.Fingerprint || second.Generation != 2 {
		t.Errorf("status = %+v", second)
	}
	if err := e.Replace(t.Context(), second.Generation, "it does not answer"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Current(); err == nil && e.Snapshot().Generation == 2 {
		t.Error("current after Replace without a new probe")
	}
	await(t, e, "a third generation", func(s remote.Status) bool { return s.State == remote.Ready && s.Generation == 3 })
	if err := e.Replace(t.Context(), 2, "long gone"); err != nil || e.Snapshot().Generation != 3 {
		t.Errorf("Replace of an old generation: %v, %+v", err, e.Snapshot())
	}
}

func TestRealWrongKey(t *testing.T) {
	server := startServer(t, "", enginetest.StarterModel(t), "--embeddings", "-c", "512")
	e := watch(t, remote.Config{Role: upstream.RoleEmbed, Kind: remote.KindOpenAI, URL: "http://" + server.address + "/v1", Model: "starter",
		Key: withKey(key + " but wrong")})
	status := await(t, e, "refused", in(remote.Refused))
	if status.LastError.Code != remote.CodeUnauthorized || leaks(fmt.Sprintf("%+v %v", status, status.LastError)) {
		t.Errorf("status = %+v, %v", status, status.LastError)
	}
}

func TestRealRerank(t *testing.T) {
	model := filepath.Join(t.TempDir(), "reranker.gguf")
	if err := tinymodels.WriteReranker(model); err != nil {
		t.Fatal(err)
	}
	server := startServer(t, "", model, "--rerank", "-c", "512", "-b", "512", "-ub", "512", "-np", "1")
	e := watch(t, remote.Config{Role: upstream.RoleRerank, Kind: remote.KindOpenAI, URL: "http://" + server.address, Model: "r", Key: withKey(key)})
	await(t, e, "ready", in(remote.Ready))
	instance, err := e.Current()
	if err != nil {
		t.Fatal(err)
	}
	reply, err := instance.Client.Rerank(t.Context(), "q", []string{"bad", "good", "plain"})
	if err != nil {
		t.Fatal(err)
	}
	if s := reply.Scores; s[1] <= s[2] || s[2] <= s[0] {
		t.Errorf("scores = %v", s)
	}
}

func TestRealChat(t *testing.T) {
	model := filepath.Join(t.TempDir(), "talker.gguf")
	if err := tinymodels.WriteTalker(model); err != nil {
		t.Fatal(err)
	}
	server := startServer(t, "", model, "-c", "4096", "-np", "1", "--alias", "talker")
	e := watch(t, remote.Config{Role: upstream.RoleChat, Kind: remote.KindOpenAI, URL: "http://" + server.address, Model: "talker", Key: withKey(key)})
	await(t, e, "ready", in(remote.Ready))
	instance, err := e.Current()
	if err != nil {
		t.Fatal(err)
	}
	response, err := instance.Client.Stream(t.Context(), "/v1/chat/completions",
		[]byte(`{"model":"gpt-4o","messages":[{"role":"user","content":"x"}],"max_tokens":5,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if text := string(body); err != nil || !strings.Contains(text, `"model":"talker"`) || !strings.HasSuffix(strings.TrimSpace(text), "data: [DONE]") {
		t.Errorf("stream = %s, %v", body, err)
	}
	_, err = instance.Client.Stream(t.Context(), "/infill", []byte(`{"input_prefix":"a"}`))
	if status, ok := errors.AsType[*upstream.StatusError](err); !ok || status.Code != 501 {
		t.Errorf("infill: %v", err)
	}
}
