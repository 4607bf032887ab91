package process_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ondol-app/ondol/internal/process"
)

// stray is a process that nobody guards, as an orphan is.
func stray(t *testing.T) process.Identity {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the sweep may have done it
		_ = cmd.Wait()
	})
	return process.Identify(cmd.Process.Pid)
}

// ended is the identity of a process that no longer runs.
func ended(t *testing.T) process.Identity {
	t.Helper()
	p := start(t, shell("sleep 1000"))
	id := p.Identity()
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestSweep(t *testing.T) {
	for _, test := range []struct {
		name   string
		forge  func(r *process.Record) // makes the record differ from the truth
		killed bool
		owned  bool
	}{
		{"orphan", func(*process.Record) {}, true, false},
		// The process id was given to a stranger after the orphan ended by itself.
		{"other start time", func(r *process.Record) { r.Child.Start += "0" }, false, false},
		{"other executable", func(r *process.Record) { r.Child.Executable = "/opt/other" }, false, false},
		{"no start time", func(r *process.Record) { r.Child.Start = "" }, false, false},
		{"our own child", func(r *process.Record) { r.Owner = process.Identify(os.Getpid()) }, true, false},
		{"child of a living app", func(r *process.Record) { r.Owner = process.Identify(os.Getppid()) }, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			child := stray(t)
			record := process.Record{Child: child, Owner: ended(t)}
			test.forge(&record)
			path := filepath.Join(t.TempDir(), "child.json")
			raw, err := json.Marshal(record)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, raw, 0o600); err != nil {
				t.Fatal(err)
			}

			swept, err := process.Sweep(path)
			var owned *process.OwnedError
			if errors.As(err, &owned) != test.owned || (err != nil) != test.owned {
				t.Fatalf("error = %v, want owned = %v", err, test.owned)
			}
			if swept.Killed != test.killed || child.Alive() == test.killed {
				t.Errorf("swept = %+v, child alive = %v, want killed = %v", swept, child.Alive(), test.killed)
			}
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) == test.owned {
				t.Errorf("record: %v, want it kept only for a living app", err)
			}
		})
	}
}

func TestSweepWithoutAUsableRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "child.json")
	if swept, err := process.Sweep(path); err != nil || swept != (process.Swept{}) {
		t.Errorf("no record: %+v, %v", swept, err)
	}
	if err := os.WriteFile(path, []byte(`{"child":{"pid":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if swept, err := process.Sweep(path); err != nil || swept.Killed {
		t.Errorf("half a record: %+v, %v", swept, err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half a record stayed: %v", err)
	}
}

func TestRecordFollowsTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "child.json")
	out := newLog()
	// A script that becomes another program, as a packaged llama-server may be.
	spec := shell("echo ready; read line </dev/null; exec /bin/sleep 1000")
	spec.Log, spec.Record = out, path
	p := start(t, spec)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("record %v, %v, want mode 0600", info, err)
	}
	sleep, err := filepath.EvalSymlinks("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	for process.Identify(p.PID()).Executable != sleep {
		if !p.Identity().Alive() && !process.Identify(p.PID()).Alive() {
			t.Fatal("the child ended")
		}
	}
	if err := p.Confirm(); err != nil {
		t.Fatal(err)
	}
	var record process.Record
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &record); err != nil {
		t.Fatal(err)
	}
	if record.Child.Executable != sleep || record.Child.PID != p.PID() || record.Owner.PID != os.Getpid() {
		t.Errorf("record = %+v, want %s as %d started by %d", record, sleep, p.PID(), os.Getpid())
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("record after the end: %v, want none", err)
	}
}
