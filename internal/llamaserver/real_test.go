package llamaserver_test

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/canary"
	"github.com/ondol-app/ondol/internal/enginetest"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/process"
	"github.com/ondol-app/ondol/internal/vector"
)

// realConfig runs the real program with a built-in profile.
func realConfig(t *testing.T, model, profile string) llamaserver.Config {
	t.Helper()
	p, err := llamaserver.ProfileByName(profile)
	if err != nil {
		t.Fatal(err)
	}
	return llamaserver.Config{
		Binary: enginetest.LlamaServer(t), Model: model, Profile: p,
		RunDir: runFolder(t), LogDir: t.TempDir(), HashCache: filepath.Join(t.TempDir(), "hashes.json"), Autostart: true,
	}
}

func parent(t *testing.T, pid int) int {
	t.Helper()
	out, err := exec.Command("ps", "-o", "ppid=", "-p", fmt.Sprint(pid)).Output()
	if err != nil {
		t.Fatal(err)
	}
	ppid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	return ppid
}

// TestStarterModel goes through the life of a real engine: ready, valid
// vectors, killed, guard killed, stopped.
func TestStarterModel(t *testing.T) {
	config := realConfig(t, enginetest.StarterModel(t), "starter")
	s := run(t, config)
	first := await(t, s, "ready", in(llamaserver.Ready))
	if first.Model.Dimension != 128 || first.Model.Architecture != "bert" || first.Model.MaxTokens != 8192 || first.Model.Name != "ondol-starter-en" {
		t.Errorf("model = %+v", first.Model)
	}
	if !slices.Equal(first.Flags[:len(config.Profile.Flags)], config.Profile.Flags) {
		t.Errorf("flags = %q, want the profile's first", first.Flags)
	}
	instance, err := s.Current()
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{"vehicle maintenance", "the automobile repair manual", "chocolate cake"}
	reply, err := instance.Client.Embed(t.Context(), texts, vector.Expect{Dim: instance.Dim, Normalized: instance.Normalized})
	if err != nil {
		t.Fatal(err)
	}
	if near, far := canary.Cosine(reply.Vectors[0], reply.Vectors[1]), canary.Cosine(reply.Vectors[0], reply.Vectors[2]); near <= far {
		t.Errorf("similarity to the manual %.2f, to the cake %.2f", near, far)
	}

	if err := syscall.Kill(first.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second := await(t, s, "ready after kill -9", func(s llamaserver.Status) bool {
		return s.State == llamaserver.Ready && s.Generation == 2
	})
	if second.Restarts != 1 || second.Fingerprint != first.Fingerprint {
		t.Errorf("after kill -9: %+v", second)
	}

	guard := process.Identify(parent(t, second.PID))
	if err := syscall.Kill(guard.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	third := await(t, s, "ready after kill -9 of the guard", func(s llamaserver.Status) bool {
		return s.State == llamaserver.Ready && s.Generation == 3
	})
	if process.Identify(second.PID).Alive() || !strings.Contains(third.LastError.Message, "guard lost") {
		t.Errorf("after kill -9 of the guard: %+v, %v", third, third.LastError)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if process.Identify(third.PID).Alive() {
		t.Error("Stop returned before the engine was gone")
	}
	lines, err := s.LogTail(1000)
	if err != nil || !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, "model loaded") }) {
		t.Errorf("log of %d lines, %v, lacks the engine's own words", len(lines), err)
	}
}

// TestReferenceFlags runs the reference profile on a model of the real one's
// shape, in another process that is then killed.
func TestReferenceFlags(t *testing.T) {
	config := realConfig(t, enginetest.Qwen3Shaped(t), "reference")
	s := run(t, config)
	status := await(t, s, "ready", in(llamaserver.Ready))
	if status.Model.Dimension != 2560 || status.Model.MaxTokens != 32768 || status.Model.Context != 32768 || !status.Probe.OK {
		t.Errorf("status = %+v", status)
	}
	if got := strings.Join(status.Flags, " "); !strings.HasPrefix(got, "--embeddings --pooling last -ngl 34 -c 131072 -b 32768 -ub 32768 -np 4 -m ") {
		t.Errorf("flags = %s", got)
	}
	instance, err := s.Current()
	if err != nil {
		t.Fatal(err)
	}
	if instance.Slots != 4 || instance.BatchTokens != 32768 {
		t.Errorf("instance = %+v", instance)
	}
	if _, err := instance.Client.Embed(t.Context(), []string{"따뜻한 바닥", "import os"}, vector.Expect{Dim: 2560, Normalized: true}); err != nil {
		t.Error(err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}

	app, engine := startApp(t, config)
	if !engine.Alive() {
		t.Fatal("no engine runs")
	}
	if err := app.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if !gone(engine, time.Second) {
		t.Error("llama-server was there 1 s after kill -9 of the app")
	}
}

// TestLongestInput shows that MaxTokens is what the engine really takes: last-token pooling over a cache computes an
// input in pieces of a physical batch, any other model has to have it in one.
func TestLongestInput(t *testing.T) {
	for _, test := range []struct {
		model, flags string
		max          int
		fits         int // tokens of an input that has to be taken
		text         func(tokens int) string
	}{
		{enginetest.Qwen3Shaped(t), "--embeddings --pooling last -ngl 34 -c 2048 -b 128 -ub 128 -np 2", 1024, 300,
			func(n int) string { return strings.Repeat("a", n-1) }}, // a token each, and one at the end
		{enginetest.StarterModel(t), "--embeddings -ngl 34 -c 4096 -b 512 -ub 512 -np 2", 512, 512,
			func(n int) string { return strings.Repeat("warm ", n-2) }}, // a token each, and one at each end
	} {
		config := realConfig(t, test.model, "starter")
		config.Profile = llamaserver.Profile{Name: "test", Flags: strings.Fields(test.flags)}
		s := run(t, config)
		await(t, s, "ready", in(llamaserver.Ready))
		instance, err := s.Current()
		if err != nil {
			t.Fatal(err)
		}
		if instance.MaxTokens != test.max {
			t.Errorf("%s: longest input = %d, want %d", instance.ModelName, instance.MaxTokens, test.max)
		}
		if _, err := instance.Client.Embed(t.Context(), []string{test.text(test.fits)}, vector.Expect{Normalized: true}); err != nil {
			t.Errorf("%s: %d tokens: %v", instance.ModelName, test.fits, err)
		}
		var tooLong *llamaclient.ContextError
		if _, err := instance.Client.Embed(t.Context(), []string{test.text(test.max + 1)}, vector.Expect{}); !errors.As(err, &tooLong) {
			t.Errorf("%s: %d tokens: %v, want a refusal", instance.ModelName, test.max+1, err)
		}
	}
}

func TestRealRefusals(t *testing.T) {
	for _, test := range []struct {
		flags string
		code  llamaserver.Code
	}{
		{"--embeddings --no-such-flag", llamaserver.CodeFlagsRejected},
		{"--embeddings -ngl many", llamaserver.CodeFlagsRejected},
	} {
		config := realConfig(t, enginetest.StarterModel(t), "starter")
		config.Profile.Flags = strings.Fields(test.flags)
		s := run(t, config)
		status := await(t, s, "failed", in(llamaserver.Failed))
		if status.LastError.Code != test.code || status.RetryAt != nil || len(status.LastError.Log) == 0 {
			t.Errorf("%s: %+v, %v", test.flags, status, status.LastError)
		}
	}
}
