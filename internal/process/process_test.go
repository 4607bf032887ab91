package process_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/process"
)

// roleVariable makes the test binary play another program.
const roleVariable = "ONDOL_TEST_ROLE"

func TestMain(m *testing.M) {
	process.GuardMain()
	switch os.Getenv(roleVariable) {
	case "app": // starts os.Args[1:] under a guard, tells the process ids, and waits to be killed
		playApp(os.Args[1], os.Args[2:])
	case "stubborn": // ignores everything that can be ignored
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		fmt.Println("ready")
		time.Sleep(time.Hour) // an empty select would be reported as a deadlock
	}
	os.Exit(m.Run())
}

type appReport struct{ Guard, Child int }

func playApp(path string, args []string) {
	var env []string
	if path == "stubborn" {
		path, env = os.Args[0], append(os.Environ(), roleVariable+"=stubborn")
	}
	ready := newLog()
	p, err := process.Start(context.Background(), process.Spec{Path: path, Args: args, Env: env, Log: ready})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ready.waitFor("ready")
	if err := json.NewEncoder(os.Stdout).Encode(appReport{Guard: p.GuardPID(), Child: p.PID()}); err != nil {
		os.Exit(1)
	}
	<-p.Done()
	os.Exit(0)
}

// log collects a child's output and lets a test wait for a word in it.
type log struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newLog() *log { return &log{changed: make(chan struct{}, 1)} }

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	select {
	case l.changed <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *log) waitFor(word string) bool {
	deadline := time.After(20 * time.Second)
	for !strings.Contains(l.String(), word) {
		select {
		case <-l.changed:
		case <-deadline:
			return false
		}
	}
	return true
}

func start(t *testing.T, spec process.Spec) *process.Process {
	t.Helper()
	p, err := process.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func shell(script string) process.Spec {
	return process.Spec{Path: "/bin/sh", Args: []string{"-c", script}}
}

// gone polls until no process of that identity runs, for as long as within.
func gone(id process.Identity, within time.Duration) bool {
	deadline := time.Now().Add(within)
	for id.Alive() {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(5 * time.Millisecond)
	}
	return true
}

func TestExitIsReported(t *testing.T) {
	for _, test := range []struct {
		name, script, want string
	}{
		{"success", "exit 0", "exit status 0"},
		{"status", "exit 7", "exit status 7"},
		{"signal", "kill -SEGV $$", "signal: segmentation fault"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := start(t, shell(test.script))
			if got := p.Exit().String(); !strings.HasPrefix(got, test.want) {
				t.Errorf("exit = %q, want %q", got, test.want)
			}
			if p.Exit().Err != nil || p.Exit().Lost {
				t.Errorf("exit = %+v, want neither an error nor a lost guard", p.Exit())
			}
		})
	}
}

func TestOutputReachesTheLog(t *testing.T) {
	out := newLog()
	spec := shell("echo to stdout; echo to stderr >&2; echo $VALUE; pwd")
	spec.Log, spec.Env, spec.Dir = out, []string{"VALUE=given"}, "/"
	start(t, spec).Exit()
	for _, want := range []string{"to stdout\n", "to stderr\n", "given\n", "\n/\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("log %q lacks %q", out, want)
		}
	}
}

func TestStopAsksFirst(t *testing.T) {
	out := newLog()
	spec := shell(`trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.02; done`)
	spec.Log = out
	p := start(t, spec)
	if !out.waitFor("ready") {
		t.Fatal("child did not get ready")
	}
	if err := p.Stop(20 * time.Second); err != nil {
		t.Fatal(err)
	}
	if got := p.Exit(); got.Code != 5 || !strings.Contains(out.String(), "bye") {
		t.Errorf("exit = %+v with log %q, want the child's own exit 5", got, out)
	}
}

func TestStopKillsTheStubborn(t *testing.T) {
	p := startStubborn(t, "")
	child := p.Identity()
	if err := p.Stop(50 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if got := p.Exit().Signal; got != "killed" {
		t.Errorf("signal = %q, want killed", got)
	}
	if child.Alive() {
		t.Error("Stop returned before the child was gone")
	}
}

func startStubborn(t *testing.T, record string) *process.Process {
	t.Helper()
	ready := newLog()
	p := start(t, process.Spec{
		Path: os.Args[0], Env: append(os.Environ(), roleVariable+"=stubborn"), Log: ready, Record: record,
	})
	if !ready.waitFor("ready") {
		t.Fatal("child did not get ready")
	}
	return p
}

func TestNothingOutlivesTheApp(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
	}{
		{"obedient child", []string{"/bin/sh", "-c", "echo ready; sleep 1000 & wait"}},
		{"child that ignores SIGTERM", []string{"stubborn"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			app := exec.Command(os.Args[0], test.args...)
			app.Env = append(os.Environ(), roleVariable+"=app")
			app.Stderr = os.Stderr
			out, err := app.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := app.Start(); err != nil {
				t.Fatal(err)
			}
			var ids appReport
			line, _ := bufio.NewReader(out).ReadBytes('\n')
			if err := json.Unmarshal(line, &ids); err != nil {
				t.Fatalf("app said %q: %v", line, err)
			}
			child, guard := process.Identify(ids.Child), process.Identify(ids.Guard)
			if !child.Alive() || !guard.Alive() {
				t.Fatalf("child %+v or guard %+v does not run", child, guard)
			}
			if err := app.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if !gone(child, time.Second) {
				t.Error("the child was there 1 s after kill -9 of the app")
			}
			if !gone(guard, 5*time.Second) {
				t.Error("the guard stayed")
			}
			_ = app.Wait() // killed
		})
	}
}

func TestLostGuard(t *testing.T) {
	record := filepath.Join(t.TempDir(), "child.json")
	p := startStubborn(t, record)
	child := p.Identity()
	if err := syscall.Kill(p.GuardPID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	exit := p.Exit()
	if !exit.Lost || exit.Err != nil {
		t.Errorf("exit = %+v, want a lost guard and no error", exit)
	}
	if child.Alive() {
		t.Error("the child outlived its guard")
	}
	if _, err := os.Stat(record); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("record after the end: %v, want none", err)
	}
}

func TestGuardShrugsOffTheTerminal(t *testing.T) {
	out := newLog()
	spec := shell(`trap 'echo interrupted' INT HUP; echo ready; while :; do sleep 0.02; done`)
	spec.Log = out
	p := start(t, spec)
	if !out.waitFor("ready") {
		t.Fatal("child did not get ready")
	}
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		if err := syscall.Kill(p.GuardPID(), s); err != nil {
			t.Fatal(err)
		}
	}
	// The child still has the default (here: its own) handling, so it hears a signal meant for it.
	if err := syscall.Kill(p.PID(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if !out.waitFor("interrupted") || !p.Identity().Alive() {
		t.Errorf("child ended or heard nothing: %q", out)
	}
	if err := syscall.Kill(p.GuardPID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := p.Exit(); got.Lost {
		t.Errorf("exit after SIGTERM to the guard = %+v, want an orderly end", got)
	}
}

func TestChildInheritsNoPipe(t *testing.T) {
	out := newLog()
	spec := shell(`for fd in 3 4 5 6 7 8 9; do if (: <&$fd) 2>/dev/null; then echo open $fd; fi; done; echo checked`)
	spec.Log = out
	start(t, spec).Exit()
	if got := out.String(); got != "checked\n" {
		t.Errorf("child sees %q, want no open descriptor beyond 2", got)
	}
}

func TestGroupDiesWithItsLeader(t *testing.T) {
	out := newLog()
	spec := shell(`sleep 1000 >/dev/null 2>&1 & echo pid $!; exit 0`)
	spec.Log = out
	start(t, spec).Exit()
	var pid int
	if _, err := fmt.Sscanf(out.String(), "pid %d", &pid); err != nil {
		t.Fatal(err)
	}
	if !gone(process.Identify(pid), 5*time.Second) {
		t.Errorf("process %d of the group outlived the leader", pid)
	}
}

func TestStartErrors(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := process.Start(t.Context(), process.Spec{Path: missing}); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("error = %v, want one that names %s", err, missing)
	}
	spec := shell("sleep 1000")
	spec.Record = filepath.Join(missing, "record.json")
	if _, err := process.Start(t.Context(), spec); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error without a place for the record = %v, want not exist", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := process.Start(ctx, shell("sleep 1000")); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want context canceled", err)
	}
}

func TestKillTwiceAndAfterTheEnd(t *testing.T) {
	p := start(t, shell("exit 0"))
	p.Exit()
	for range 2 {
		if err := p.Stop(time.Second); err != nil {
			t.Error(err)
		}
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	}
}

func TestOutput(t *testing.T) {
	text, err := process.Output(t.Context(), "/bin/sh", "-c", "echo version 1 >&2; echo more")
	if err != nil || text != "version 1\nmore\n" {
		t.Errorf("output = %q, %v", text, err)
	}
	if _, err := process.Output(t.Context(), "/bin/sh", "-c", "echo no such flag; exit 1"); err == nil || !strings.Contains(err.Error(), "no such flag") {
		t.Errorf("error = %v, want the program's first line in it", err)
	}
	text, err = process.Output(t.Context(), "/bin/sh", "-c", "head -c 3000000 /dev/zero")
	if err != nil || len(text) != 1<<20 {
		t.Errorf("%d bytes, %v, want 1 MiB of the 3 MB", len(text), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := process.Output(ctx, "/bin/sh", "-c", "sleep 1000 & wait"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v, want deadline exceeded", err)
	}
}
