package app_test

import (
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ondol-app/ondol/internal/models/hubtest"
)

// On a terminal the licence is shown and asked for; only a yes downloads.
func TestLicenceIsAskedForOnATerminal(t *testing.T) {
	hub := hubtest.Start(t, "owner/repo", "m.gguf", hubtest.Model(2, 100_000))
	h := newHome(t)
	h.env = append(h.env, "HF_ENDPOINT="+hub.URL, "HF_TOKEN=", "TERM=xterm")
	h.serve(t)
	for _, answer := range []string{"\n", "no\n"} {
		screen, code := h.onTerminal(t, answer, "models", "pull", pulled)
		if code != 1 || !strings.Contains(screen, "Its licence is apache-2.0: "+hub.URL+"/owner/repo") || !strings.Contains(screen, "nothing was downloaded") {
			t.Errorf("answer %q: exit %d\n%s", answer, code, screen)
		}
	}
	if len(hub.Ranges()) != 0 {
		t.Error("something was downloaded")
	}
	screen, code := h.onTerminal(t, "y\n", "models", "pull", pulled)
	if code != 0 || !strings.Contains(screen, "m.gguf") || len(hub.Ranges()) != 1 {
		t.Errorf("exit %d\n%s", code, screen)
	}
}

// onTerminal runs a command on a terminal of its own on which somebody typed
// input, and returns what was on the screen.
func (h *home) onTerminal(t *testing.T, input string, args ...string) (screen string, code int) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = h.env, terminal, terminal, terminal
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	terminal.Close()
	if _, err := io.WriteString(master, input); err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(master) // ends with EIO when the command does
	_ = cmd.Wait()                // its exit code is what counts
	return string(text), cmd.ProcessState.ExitCode()
}
