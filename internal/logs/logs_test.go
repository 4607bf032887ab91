package logs_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ondol-app/ondol/internal/logs"
)

func TestLinesReachFileAndMirror(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ondol.log")
	var mirror bytes.Buffer
	logger, closer := logs.Open(logs.Config{File: path, Mirror: &mirror, Level: slog.LevelInfo})
	logger.Info("Engine ready", "generation", 3)
	logger.Debug("Not wanted")
	if err := closer.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, out := range map[string]string{"file": string(file), "mirror": mirror.String()} {
		if !strings.Contains(out, `msg="Engine ready" generation=3`) || strings.Contains(out, "Not wanted") {
			t.Errorf("%s: %q", name, out)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("log has mode %04o, want 0600", info.Mode().Perm())
	}
}

func TestWrittenTextStaysOut(t *testing.T) {
	var out bytes.Buffer
	logger, _ := logs.Open(logs.Config{Mirror: &out})
	secret := "the salary of Mina"
	logger.Warn("Request refused", "query", secret, "inputs", []string{secret}, "body", []byte(secret), "err", errors.New("too long"))
	if strings.Contains(out.String(), "salary") {
		t.Errorf("text reached the log: %s", out.String())
	}
	if !strings.Contains(out.String(), `query="(18 bytes)"`) || !strings.Contains(out.String(), `err="too long"`) {
		t.Errorf("line lost its facts: %s", out.String())
	}
	out.Reset()
	logger.Warn("Odd answer", "detail", strings.Repeat("온", 2000))
	if len(out.String()) > 2300 || !strings.Contains(out.String(), "…") {
		t.Errorf("long value is %d bytes", len(out.String()))
	}
}

func TestLevel(t *testing.T) {
	for name, want := range map[string]slog.Level{"debug": slog.LevelDebug, "INFO": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError} {
		if got, err := logs.Level(name); err != nil || got != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := logs.Level("loud"); err == nil {
		t.Error("an unknown level was accepted")
	}
}
