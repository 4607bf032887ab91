package relay_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/enginetest"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/process"
	"github.com/ondol-app/ondol/internal/relay"
	"github.com/ondol-app/ondol/internal/upstream"
)

func TestMain(m *testing.M) {
	process.GuardMain()
	os.Exit(m.Run())
}

// patience only matters when something is broken.
const patience = 90 * time.Second

// realEngine is a supervised llama-server as the app hands it to a relay.
type realEngine struct{ *llamaserver.Server }

func (e realEngine) Current() (relay.Instance, error) {
	now, err := e.Server.Current()
	if starting, ok := errors.AsType[*llamaserver.NotReadyError](err); ok {
		return relay.Instance{}, &upstream.UnavailableError{State: starting.State.String(), RetryAfter: starting.RetryAfter}
	}
	if err != nil {
		return relay.Instance{}, err
	}
	return relay.Instance{Generation: now.Generation, Client: now.Client, Model: now.ModelName}, nil
}

// start runs a real engine of the role and returns once it is ready.
func start(t *testing.T, role upstream.Role, write func(path string) error, flags ...string) realEngine {
	t.Helper()
	model := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := write(model); err != nil {
		t.Fatal(err)
	}
	profile, err := llamaserver.RoleProfile(role)
	if err != nil {
		t.Fatal(err)
	}
	profile.Flags = append(profile.Flags, flags...)
	dir, err := os.MkdirTemp("", "relay") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	server, err := llamaserver.New(llamaserver.Config{Binary: enginetest.LlamaServer(t), Model: model, Profile: profile,
		RunDir: filepath.Join(dir, "run"), LogDir: filepath.Join(dir, "log"), Autostart: true})
	if err != nil {
		t.Fatal(err)
	}
	background(t, server.Run)
	changed, stop := server.Changed()
	defer stop()
	for deadline := time.After(patience); ; {
		if server.Snapshot().State == llamaserver.Ready {
			return realEngine{server}
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("engine is not ready: %+v", server.Snapshot())
		}
	}
}

// background runs a part until the test ends.
func background(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("a part ended with %v", err)
		}
	})
}

func newRelay(t *testing.T, config relay.Config, executing int) *relay.Relay {
	t.Helper()
	limits := admission.DefaultLimits()
	limits.Executing, limits.Background = executing, 0
	gate, err := admission.NewGate(limits)
	if err != nil {
		t.Fatal(err)
	}
	config.Gate = gate
	if config.Role == "" {
		config.Role = upstream.RoleChat
	}
	r, err := relay.New(config)
	if err != nil {
		t.Fatal(err)
	}
	background(t, gate.Run)
	background(t, r.Run)
	return r
}

// endpoint serves the relay over TCP; what Forward returned arrives on the channel.
func endpoint(t *testing.T, r *relay.Relay, request relay.ForwardRequest) (string, <-chan error) {
	t.Helper()
	returned := make(chan error, 16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
		err := r.Forward(in.Context(), w, request)
		returned <- err
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, returned
}

// until polls the relay's own numbers.
func until(t *testing.T, r *relay.Relay, what string, ok func(admission.Stats) bool) admission.Stats {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.After(patience); ; {
		stats := r.Stats()
		if ok(stats) {
			return stats
		}
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("%s: waited in vain: %+v", what, stats)
		}
	}
}

func idle(s admission.Stats) bool { return s.Executing == 0 && s.Draining == 0 && s.Waiting == 0 }
