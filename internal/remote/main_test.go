package remote_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/enginetest"
	"github.com/ondol-app/ondol/internal/remote"
)

// patience only matters when something is broken.
const patience = 90 * time.Second

const key = "the key of this test"

func withKey(secret string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return secret, nil }
}

// watch runs an engine until the test ends.
func watch(t *testing.T, config remote.Config) *remote.Engine {
	t.Helper()
	e, err := remote.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
		if s := e.Snapshot().State; s != remote.Stopped {
			t.Errorf("state after Run = %s", s)
		}
	})
	return e
}

// await returns the first status that is as wanted.
func await(t *testing.T, e *remote.Engine, what string, ok func(remote.Status) bool) remote.Status {
	t.Helper()
	changed, stop := e.Changed()
	defer stop()
	for deadline := time.After(patience); ; {
		status := e.Snapshot()
		if ok(status) {
			return status
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("waited for %s in vain: %+v (last error %v)", what, status, status.LastError)
		}
	}
}

func in(state remote.State) func(remote.Status) bool {
	return func(s remote.Status) bool { return s.State == state }
}

// llamaServer is a real llama-server on a TCP port: somebody else's machine.
type llamaServer struct {
	address string
	stop    func()
}

func startServer(t *testing.T, address, model string, flags ...string) llamaServer {
	t.Helper()
	if address == "" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address = l.Addr().String()
		l.Close()
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-m", model, "--host", host, "--port", port, "--api-key", key}, flags...)
	cmd := exec.Command(enginetest.LlamaServer(t), args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	stop := func() {
		_ = cmd.Process.Kill()
		<-exited
	}
	t.Cleanup(func() {
		stop()
		log.Close()
	})
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(patience); ; {
		select {
		case <-tick.C:
		case <-exited:
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("llama-server ended:\n%s", text)
		case <-deadline:
			t.Fatal("llama-server is not ready")
		}
		reply, err := http.Get("http://" + address + "/health")
		if err != nil {
			continue
		}
		reply.Body.Close()
		if reply.StatusCode == http.StatusOK {
			return llamaServer{address, stop}
		}
	}
}

// leaks reports where the key shows.
func leaks(texts ...string) bool { return strings.Contains(strings.Join(texts, " "), key) }
