package app_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ondol-app/ondol/app"
	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/enginetest"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/llamaserver/fakellama"
	"github.com/ondol-app/ondol/internal/locations"
	"github.com/ondol-app/ondol/internal/process"
)

// actAsApp makes this test binary the app itself.
const actAsApp = "ONDOL_TEST_ACT_AS_APP"

func TestMain(m *testing.M) {
	process.GuardMain()
	fakellama.Main()
	if os.Getenv(actAsApp) != "" {
		app.MainOn(scriptedGPU)
	}
	os.Exit(m.Run())
}

// patience is how long the real parts get for what has no deadline of its own;
// it only matters when something is broken.
const patience = 6 * time.Minute

// home is one ONDOL_HOME and the app in it.
type home struct {
	t      *testing.T // the whole test: what is started lives as long
	dir    string
	socket string // of the control API
	env    []string
	client *control.Client
}

func newHome(t *testing.T) *home {
	t.Helper()
	return newHomeAt(t, t.TempDir())
}

func newHomeAt(t *testing.T, dir string) *home {
	t.Helper()
	env := locations.Environment{GOOS: "linux", UID: os.Getuid(), Getenv: func(k string) string {
		return map[string]string{"ONDOL_HOME": dir}[k]
	}}
	paths, err := locations.Resolve(env)
	if err != nil {
		t.Fatal(err)
	}
	if paths.Run != filepath.Join(dir, "run") {
		t.Cleanup(func() { os.RemoveAll(paths.Run) }) // too deep for sockets: it lies elsewhere
	}
	h := &home{t: t, dir: dir, socket: paths.ControlSocket(), client: control.NewClient(paths.ControlSocket())}
	h.env = append(os.Environ(), actAsApp+"=1", "ONDOL_HOME="+dir, "ONDOL_LANG=en", "ONDOL_LOG=debug",
		"ONDOL_LISTEN="+freeAddress(t), "ONDOL_LLAMA_SERVER="+enginetest.LlamaServer(t),
		"ONDOL_MODEL="+enginetest.StarterModel(t), "ONDOL_PROFILE=starter",
		"GORACE=atexit_sleep_ms=0") // or each command of a race build waits a second before it ends
	t.Cleanup(h.client.Close)
	return h
}

// freeAddress is an address nobody listens on now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// running is the app as a process.
type running struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  lockedBuffer
	done chan struct{}
	err  error // of Wait; valid once done is closed
}

// lockedBuffer takes the output of a process while a test may read it.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// serve starts the app and returns when it answers and its engine is ready.
func (h *home) serve(t *testing.T) *running {
	t.Helper()
	r := &running{t: t, cmd: exec.Command(os.Args[0], "serve"), done: make(chan struct{})}
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = h.env, &r.out, &r.out
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		r.err = r.cmd.Wait()
		close(r.done)
	}()
	h.t.Cleanup(func() {
		r.kill()
		if h.t.Failed() {
			h.t.Logf("output of the app:\n%s", tail(r.out.String(), 12000))
		}
	})
	h.waitReady(t, r)
	return r
}

// waitReady waits for an engine whose vectors may be used.
func (h *home) waitReady(t *testing.T, r *running) llamaserver.Status {
	t.Helper()
	var last llamaserver.Status
	within(t, patience, "a ready engine", func() error {
		select {
		case <-r.done:
			t.Fatalf("the app ended: %v\n%s", r.err, tail(r.out.String(), 8000))
		default:
		}
		var err error
		if last, err = h.client.Engine(t.Context()); err != nil {
			return err
		}
		if last.State != llamaserver.Ready {
			return fmt.Errorf("engine is %s (%v)", last.State, last.LastError)
		}
		return nil
	})
	return last
}

// stop ends the app as a person would, and returns how it ended.
func (r *running) stop() error {
	r.t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	select {
	case <-r.done:
		return r.err
	case <-time.After(patience):
		r.t.Fatal("the app does not end")
		return nil
	}
}

// kill ends the app without a word.
func (r *running) kill() {
	_ = r.cmd.Process.Kill() // it may have ended already
	<-r.done
}

// ondol runs a command of the command line to its end.
func (h *home) ondol(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	var stdout, stderr bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = h.env, &stdout, &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), stdout.String(), stderr.String()
	}
	if err != nil {
		t.Fatalf("ondol %s: %v", strings.Join(args, " "), err)
	}
	return 0, stdout.String(), stderr.String()
}

// within asks again and again until try succeeds, and fails when it never
// does. It returns how long that took.
func within(t *testing.T, limit time.Duration, what string, try func() error) time.Duration {
	t.Helper()
	began := time.Now()
	ticker := time.NewTicker(25 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := try()
		took := time.Since(began)
		if err == nil {
			return took
		}
		if took > limit {
			t.Fatalf("%s: not within %v: %v", what, limit, err)
		}
		<-ticker.C
	}
}

// gone waits for a process to end.
func gone(t *testing.T, limit time.Duration, id process.Identity) {
	t.Helper()
	within(t, limit, fmt.Sprintf("the end of process %d", id.PID), func() error {
		if id.Alive() {
			return errors.New("it is still there")
		}
		return nil
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}
