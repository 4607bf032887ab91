package app_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ondol-app/ondol/internal/enginetest"
	"github.com/ondol-app/ondol/internal/models/hubtest"
	"github.com/ondol-app/ondol/internal/models/pull"
)

const pulled = "hf:owner/repo:m.gguf"

// TestModelsPull pulls a model with the real app and the real command line from
// a hub on this machine: the app is killed in the middle, the command is
// interrupted, and the storage sees that every start goes on at the byte.
func TestModelsPull(t *testing.T) {
	model, err := os.ReadFile(enginetest.StarterModel(t))
	if err != nil {
		t.Fatal(err)
	}
	hub := hubtest.Start(t, "owner/repo", "m.gguf", model)
	hub.StopAt = 3_000_000
	h := newHome(t)
	h.env = append(h.env, "HF_ENDPOINT="+hub.URL, "HF_TOKEN=hf_mine")
	h.says(t, 4, "not running", "models", "pull", pulled)
	first := h.serve(t)

	h.says(t, 1, "--accept-licence", "models", "pull", pulled)
	h.says(t, 2, "Did you mean bge-m3?", "models", "pull", "bge-m4")
	h.says(t, 1, "has no other.gguf", "models", "pull", "hf:owner/repo:other.gguf")
	if len(hub.Ranges()) != 0 {
		t.Fatal("something was downloaded before the licence was accepted")
	}
	_, out, _ := h.ondol(t, "models", "catalog")
	if !strings.Contains(out, "qwen3-embedding-0.6b") || !strings.Contains(out, "639 MB") || !strings.Contains(out, "Apache-2.0") {
		t.Errorf("catalog:\n%s", out)
	}
	if _, out, _ = h.ondol(t, "models", "pull", pulled, "--accept-licence", "--no-wait"); !strings.Contains(out, "being downloaded") {
		t.Errorf("pull: %s", out)
	}
	h.pullAt(t, 3_000_000)
	first.kill()

	second := h.serve(t) // it goes on by itself
	h.pullAt(t, 6_000_000)
	h.says(t, 0, "paused", "models", "pulls", "pause", "1")
	h.untilPull(t, "paused at the byte", func(p pull.Pull) bool { return p.State == pull.Paused && p.Done == 6_000_000 })
	_, out, _ = h.ondol(t, "models", "pulls")
	if !strings.Contains(out, " % · 6.0 MB of ") {
		t.Errorf("pulls:\n%s", out)
	}
	second.kill()
	h.serve(t)
	h.pullState(t, pull.Paused)

	// Ctrl-C pauses, and the command says how to go on. No licence is asked for again.
	waits := h.start(t, "models", "pull", pulled)
	h.pullAt(t, 9_000_000)
	if err := waits.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-waits.done
	if text := waits.out.String(); waits.cmd.ProcessState.ExitCode() != 1 || !strings.Contains(text, "To go on where it stopped: ondol models pull "+pulled) {
		t.Errorf("interrupted: %d\n%s", waits.cmd.ProcessState.ExitCode(), text)
	}
	h.pullState(t, pull.Paused)
	hub.Release()
	code, out, errOut := h.ondol(t, "models", "pull", pulled)
	path := filepath.Join(h.dir, "data", "models", "owner", "repo", "m.gguf")
	if code != 0 || !strings.Contains(out, path) {
		t.Fatalf("%d\n%s%s", code, out, errOut)
	}
	text, err := os.ReadFile(path)
	if err != nil || hubtest.Sum(text) != hub.SHA256 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if want := []string{"", "bytes=3000000-", "bytes=6000000-", "bytes=9000000-"}; !slices.Equal(hub.Ranges(), want) {
		t.Errorf("the storage was asked for %q, want %q", hub.Ranges(), want)
	}
	if slices.ContainsFunc(hub.Tokens(), func(s string) bool { return s != "" }) {
		t.Errorf("the storage was shown %q", hub.Tokens())
	}

	h.says(t, 0, "owner/repo/m ", "models", "list")
	h.says(t, 0, path, "models", "use", "owner/repo/m", "--profile", "starter", "--next-start")

	// A file with a wrong hash never looks like a model.
	hub.Change(func(h *hubtest.Hub) { h.File, h.SHA256 = "wrong.gguf", strings.Repeat("0", 64) })
	h.says(t, 1, "thrown away", "models", "pull", "hf:owner/repo:wrong.gguf", "--accept-licence")
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
}

// says runs a command and expects an exit code and a sentence.
func (h *home) says(t *testing.T, want int, sentence string, args ...string) {
	t.Helper()
	code, out, errOut := h.ondol(t, args...)
	if code != want || !strings.Contains(out+errOut, sentence) {
		t.Errorf("%v: exit %d, want %d with %q\n%s%s", args, code, want, sentence, out, errOut)
	}
}

// pullAt waits until so many bytes lie on the disk.
func (h *home) pullAt(t *testing.T, bytes int64) {
	t.Helper()
	partial := filepath.Join(h.dir, "data", "models", "owner", "repo", "m.gguf.partial")
	within(t, patience, fmt.Sprint(bytes, " bytes"), func() error {
		info, err := os.Stat(partial)
		if err == nil && info.Size() != bytes {
			err = fmt.Errorf("the partial file has %d", info.Size())
		}
		return err
	})
}

// start runs a command that is not waited for.
func (h *home) start(t *testing.T, args ...string) *running {
	t.Helper()
	r := &running{t: t, cmd: exec.Command(os.Args[0], args...), done: make(chan struct{})}
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = h.env, &r.out, &r.out
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		r.err = r.cmd.Wait()
		close(r.done)
	}()
	t.Cleanup(r.kill)
	return r
}

func (h *home) pullState(t *testing.T, state pull.State) {
	t.Helper()
	h.untilPull(t, state.String(), func(p pull.Pull) bool { return p.State == state })
}

func (h *home) untilPull(t *testing.T, what string, ok func(pull.Pull) bool) {
	t.Helper()
	within(t, patience, what, func() error {
		pulls, err := h.client.Pulls(t.Context())
		if err != nil {
			return err
		}
		if len(pulls) != 1 || !ok(pulls[0]) {
			return fmt.Errorf("pulls are %+v", pulls)
		}
		return nil
	})
}
