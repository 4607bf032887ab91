package process

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// maxOutput bounds what Output keeps of a talkative program, in bytes.
const maxOutput = 1 << 20

// Output runs a short-lived program to its end and returns what it wrote to
// standard output and error together, at most 1 MiB. When ctx ends first, the
// program's group is killed. The error carries the first line that was written.
func Output(ctx context.Context, path string, args ...string) (string, error) {
	var out limited
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	text := out.kept.String()
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	switch {
	case err == nil:
		return text, nil
	case first == "":
		return text, fmt.Errorf("run %s: %w", path, err)
	default:
		return text, fmt.Errorf("run %s: %w (%s)", path, err, first)
	}
}

// LookPath finds a program in the folders of PATH.
func LookPath(name string) (string, error) { return exec.LookPath(name) }

// limited keeps the first maxOutput bytes and takes the rest without keeping it.
type limited struct{ kept bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	room := max(maxOutput-l.kept.Len(), 0)
	l.kept.Write(p[:min(room, len(p))])
	return len(p), nil
}
