package process

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// Identity names one process for good: a process id alone is given out again.
type Identity struct {
	PID        int    `json:"pid"`
	Start      string `json:"start"`      // opaque; equal only for the same process
	Executable string `json:"executable"` // path of the file it runs, links resolved
}

// Identify describes the process pid as it is now; Start is empty when it is
// gone, Executable when it cannot be seen (ended, or another user's).
func Identify(pid int) Identity {
	id := Identity{PID: pid}
	start, ended, err := startOf(pid)
	if err != nil {
		return id
	}
	id.Start = start
	if !ended {
		id.Executable = executableOf(pid)
	}
	return id
}

// Alive reports whether exactly this process still runs. One that ended and
// was not collected by its parent does not run.
func (id Identity) Alive() bool {
	if id.PID <= 1 || id.Start == "" {
		return false
	}
	start, ended, err := startOf(id.PID)
	if err != nil || ended || start != id.Start {
		return false
	}
	// Start time plus process id is already unique; the executable guards against a clock that was set back.
	return id.Executable == "" || executableOf(id.PID) == id.Executable
}

// destroy kills the process and its group, if it still is that process, and
// returns when it is gone. killed tells whether there was something to kill.
func (id Identity) destroy(within time.Duration) (killed bool, err error) {
	handle, err := os.FindProcess(id.PID) // on Linux a pidfd: what is checked below is what is killed
	if err != nil {
		return false, nil // no such process
	}
	defer func() { _ = handle.Release() }()
	if !id.Alive() {
		return false, nil
	}
	if group, err := syscall.Getpgid(id.PID); err == nil && group == id.PID {
		_ = syscall.Kill(-group, syscall.SIGKILL) // the leader is killed once more below
	}
	if err := handle.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return false, err
	}
	deadline := time.Now().Add(within)
	for id.Alive() { // not our child, so nobody tells us; it takes a few milliseconds
		if time.Now().After(deadline) {
			return true, &StillAliveError{PID: id.PID}
		}
		time.Sleep(2 * time.Millisecond)
	}
	return true, nil
}
