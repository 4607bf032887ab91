package llamaserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/enginetest"
	news "github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/gguf"
)

func TestProfilesAreTheContracts(t *testing.T) {
	want := map[string]string{
		"reference": "--embeddings --pooling last -ngl 34 -c 131072 -b 32768 -ub 32768 -np 4",
		"standard":  "--embeddings --pooling last -ngl 34 -c 65536 -b 8192 -ub 8192 -np 4",
		"small":     "--embeddings --pooling last -ngl 34 -c 16384 -b 4096 -ub 4096 -np 2",
		"starter":   "--embeddings -ngl 34 -c 32768 -b 8192 -ub 8192 -np 4",
	}
	got := map[string]string{}
	for _, p := range Profiles() {
		got[p.Name] = strings.Join(p.Flags, " ")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := ProfileByName("huge"); err == nil || !strings.Contains(err.Error(), "starter") {
		t.Errorf("error = %v, want one that lists the names", err)
	}
}

func TestReservedFlags(t *testing.T) {
	for _, flag := range []string{"--host", "--api-key", "-m", "--alias"} {
		if err := checkFlags([]string{"--embeddings", flag, "x"}); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v, want a refusal that names it", flag, err)
		}
	}
	if err := checkFlags([]string{"--embeddings", "-ngl", "34", "--no-op-offload"}); err != nil {
		t.Error(err)
	}
}

func TestPlaces(t *testing.T) {
	before, _ := places("/Applications/Ondol.app/Contents/MacOS/ondol", "darwin", "/brew")
	want := []string{
		"/Applications/Ondol.app/Contents/Helpers/llama-server",
		"/Applications/Ondol.app/Contents/Resources/llama/llama-server",
		"/Applications/Ondol.app/Contents/MacOS/llama-server",
		"/brew/bin/llama-server", "/opt/homebrew/bin/llama-server", "/usr/local/bin/llama-server",
	}
	if diff := cmp.Diff(want, before); diff != "" {
		t.Error(diff)
	}
	_, after := places("/src/ondol/build/bin/ondol", "linux", "")
	if diff := cmp.Diff([]string{"/src/ondol/build/deps/llama/llama-server"}, after); diff != "" {
		t.Error(diff)
	}
}

func TestLocateTheSetting(t *testing.T) {
	dir := t.TempDir()
	good, plain := filepath.Join(dir, "good"), filepath.Join(dir, "plain")
	for path, mode := range map[string]fs.FileMode{good: 0o755, plain: 0o644} {
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := Locate(good); err != nil || got != good {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{plain, dir, filepath.Join(dir, "none")} {
		if _, err := Locate(bad); err == nil || !strings.Contains(err.Error(), "engine.server") {
			t.Errorf("%s: %v, want an error that names the setting", bad, err)
		}
	}
}

func TestInspectTheRealProgram(t *testing.T) {
	b, err := inspect(t.Context(), enginetest.LlamaServer(t))
	if err != nil {
		t.Fatal(err)
	}
	if b.version == "" || !b.knows["-ngl"] || !b.knows["--api-key-file"] || !b.knows["--pooling"] || b.knows["--no-such-flag"] {
		t.Errorf("version %q, %d flags", b.version, len(b.knows))
	}
	args := strings.Join(b.arguments([]string{"-ngl", "34"}, "/m.gguf", "m", "/run/l.sock", "/run/key"), " ")
	if !strings.HasPrefix(args, "-ngl 34 -m /m.gguf --host /run/l.sock --api-key-file /run/key") {
		t.Errorf("arguments: %s", args)
	}
	if _, err := inspect(t.Context(), "/bin/echo"); err == nil {
		t.Error("echo passes for a llama-server")
	}
}

func TestSplits(t *testing.T) {
	for _, test := range []struct {
		path, flags string
		want        bool
	}{
		{enginetest.StarterModel(t), "", false},
		{enginetest.StarterModel(t), "--pooling last", false},
		{enginetest.Qwen3Shaped(t), "", true},
		{enginetest.Qwen3Shaped(t), "--pooling mean", false},
	} {
		if got := splits(readModel(t, test.path), strings.Fields(test.flags)); got != test.want {
			t.Errorf("%s with %q splits = %v", test.path, test.flags, got)
		}
	}
}

func readModel(t *testing.T, path string) *gguf.Header {
	t.Helper()
	h, err := gguf.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestMaxTokens(t *testing.T) {
	qwen, bert := readModel(t, enginetest.Qwen3Shaped(t)), readModel(t, enginetest.StarterModel(t))
	for _, test := range []struct {
		h               *gguf.Header
		perSlot, ubatch int
		want            int
	}{
		{qwen, 32768, 512, 32768}, // computed in pieces
		{qwen, 65536, 512, 40960}, // more than it was made for
		{bert, 8192, 2048, 2048},  // in one piece
		{bert, 4096, 8192, 4096},
	} {
		if got := maxTokens(test.h, nil, test.perSlot, test.ubatch); got != test.want {
			t.Errorf("%s, %d a slot, batch %d: %d tokens, want %d", test.h.Architecture(), test.perSlot, test.ubatch, got, test.want)
		}
	}
}

func TestCalledBy(t *testing.T) {
	h := readModel(t, enginetest.Qwen3Shaped(t))
	for path, want := range map[string]string{"/m/one.gguf": "one", "/blobs/sha256-0f": "Qwen3-shaped-fixture"} {
		if got := calledBy(path, h); got != want {
			t.Errorf("%s is called %s, want %s", path, got, want)
		}
	}
}

func TestHashCache(t *testing.T) {
	dir := t.TempDir()
	model, cache := filepath.Join(dir, "m.gguf"), hashCache{filepath.Join(dir, "cache", "hashes.json")}
	sum := func() string {
		t.Helper()
		s, err := cache.sum(t.Context(), model)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	write := func(text string, at time.Time) {
		t.Helper()
		if err := errors.Join(os.WriteFile(model, []byte(text), 0o600), os.Chtimes(model, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // FIPS 180-2, B.1
	write("abc", began)
	if got := sum(); got != abc {
		t.Errorf("sum = %s, want %s", got, abc)
	}
	write("abd", began) // same size and time: the cache is believed, which shows that it is used
	if got := sum(); got != abc {
		t.Errorf("sum = %s, want the remembered one", got)
	}
	write("abd", began.Add(time.Second))
	if got := sum(); got == abc {
		t.Error("a changed file has the old sum")
	}
	if err := os.WriteFile(cache.path, []byte("{half"), 0o600); err != nil {
		t.Fatal(err)
	}
	write("abc", began.Add(time.Hour))
	if got := sum(); got != abc {
		t.Errorf("sum with a damaged cache = %s", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	write("xyz", began)
	if _, err := cache.sum(ended, model); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want canceled", err)
	}
}

func TestFingerprintFollowsWhatChangesNumbers(t *testing.T) {
	flags := []string{"-ngl", "34", "-ub", "512"}
	seen := map[string]string{}
	for name, f := range map[string]string{
		"base":  fingerprint("aa", "1", flags, 8),
		"model": fingerprint("ab", "1", flags, 8),
		"build": fingerprint("aa", "2", flags, 8),
		"flags": fingerprint("aa", "1", []string{"-ngl", "35", "-ub", "512"}, 8),
		"dim":   fingerprint("aa", "1", flags, 9),
	} {
		if other, twice := seen[f]; twice || len(f) != 32 {
			t.Errorf("%s and %s share fingerprint %q", name, other, f)
		}
		seen[f] = name
	}
	again := fingerprint("aa", "1", []string{"-ngl", "34", "-ub", "512"}, 8)
	if seen[again] != "base" {
		t.Error("the same engine has two fingerprints")
	}
}

func TestEnvironment(t *testing.T) {
	got := environment([]string{"HOME=/h", "PATH=/bin", "LLAMA_ARG_UBATCH=1", "LLAMA_API_KEY=k", "LC_ALL=C", "GGML_X=1", "AWS_SECRET=s", "HF_TOKEN=t"})
	if diff := cmp.Diff([]string{"HOME=/h", "PATH=/bin", "LC_ALL=C", "GGML_X=1"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestEngineLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs", logName)
	l := newEngineLog(path, slog.New(slog.DiscardHandler), func(news.Event) {})
	l.begin(1, "/bin/llama-server", []string{"-ngl", "34"})
	for i := range 100 {
		fmt.Fprintf(l, "line %d\nhalf", i)
		fmt.Fprint(l, " of it\n")
	}
	fmt.Fprint(l, "open end")
	tail := l.last()
	if len(tail) != tailLines+1 || tail[len(tail)-1] != "open end" || tail[len(tail)-2] != "half of it" || tail[len(tail)-3] != "line 99" {
		t.Errorf("tail = %q", tail)
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	all, err := readTail(path, 1000)
	if err != nil || len(all) != 202 || all[0] != "--- ondol: start 1: /bin/llama-server -ngl 34" {
		t.Errorf("%d lines, first %q, %v", len(all), all[:1], err)
	}
	if last, err := readTail(path, 2); err != nil || cmp.Diff([]string{"half of it", "open end"}, last) != "" {
		t.Errorf("last 2 = %q, %v", last, err)
	}
	if none, err := readTail(path+"x", 5); err != nil || none != nil {
		t.Errorf("no file: %q, %v", none, err)
	}
	l.begin(2, "", nil)
	if tail := l.last(); len(tail) != 0 {
		t.Errorf("a new start remembers %q", tail)
	}
}

// An engine that says little is read now and then, one that says much at once.
func TestEngineLogIsUnhurried(t *testing.T) {
	l := newEngineLog(filepath.Join(t.TempDir(), logName), slog.New(slog.DiscardHandler), func(news.Event) {})
	l.begin(1, "", nil) // starts the goroutine of the file, which is not the bubble's
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		fmt.Fprintln(unhurried{l}, "a line")
		if took := time.Since(began); took != logRest {
			t.Errorf("a line took %v", took)
		}
		began = time.Now()
		if n, err := (unhurried{l}).Write(make([]byte, logRush)); n != logRush || err != nil || time.Since(began) != 0 {
			t.Errorf("a full pipe: %d bytes, %v, after %v", n, err, time.Since(began))
		}
	})
}

// shortDir is a folder whose path leaves room for a socket's name.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "ondol")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestRunFolder(t *testing.T) {
	f := runFiles{filepath.Join(shortDir(t), "run")}
	stale, err := net.Listen("unix", func() string {
		if err := os.MkdirAll(f.dir, 0o755); err != nil {
			t.Fatal(err)
		}
		return f.socket()
	}())
	if err != nil {
		t.Fatal(err)
	}
	if _, p := f.prepare(); p == nil || p.Code != CodeSocketTaken {
		t.Errorf("with a listener: %v, want %s", p, CodeSocketTaken)
	}
	if _, err := net.Dial("unix", f.socket()); err != nil {
		t.Errorf("the listener's socket was taken away: %v", err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}
	first, p := f.prepare()
	if p != nil {
		t.Fatal(p)
	}
	if _, err := os.Lstat(f.socket()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stale socket: %v, want none", err)
	}
	second, p := f.prepare()
	if p != nil || first == second || len(first) < 26 {
		t.Errorf("keys %q and %q, %v, want two different ones of 128 bits or more", first, second, p)
	}
	for path, want := range map[string]fs.FileMode{f.dir: 0o700, f.key(): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want mode %o", path, info.Mode(), err, want)
		}
	}
	if err := os.WriteFile(f.socket(), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, p := f.prepare(); p == nil || p.Code != CodeSocketTaken {
		t.Errorf("with a plain file: %v, want %s", p, CodeSocketTaken)
	}
}

func TestRunFolderPathTooLong(t *testing.T) {
	f := runFiles{filepath.Join(shortDir(t), strings.Repeat("x", maxSocketPath))}
	if _, p := f.prepare(); p == nil || p.Code != CodeSocketTooLong || !strings.Contains(p.Message, "ONDOL_HOME") {
		t.Errorf("problem = %v, want %s that names the remedy", p, CodeSocketTooLong)
	}
	if _, err := os.Stat(f.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder was made: %v", err)
	}
}
