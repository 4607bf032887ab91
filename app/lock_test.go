package app

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/ondol-app/ondol/app/cli"
)

func TestOneAppAHome(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.lock")
	// A file left by a process that is gone means nothing.
	if err := os.WriteFile(path, []byte("999999\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := takeLock(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = takeLock(path)
	running, ok := errors.AsType[*cli.RunningError](err)
	if !ok || running.PID != strconv.Itoa(os.Getpid()) {
		t.Fatalf("second taker got %v", err)
	}
	first.release()
	again, err := takeLock(path)
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	again.release()
}
