// Package enginetest gives tests the real engine: llama-server and two small models made by build/setup.sh.
//
// It may be imported by tests alone. What is missing fails the test and names the remedy; nothing is skipped.
package enginetest

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// RepoRoot is the absolute path of the checkout: the nearest folder with go.mod above the test's working
// directory.
func RepoRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatalf("find the checkout: %v", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("find the checkout: no go.mod above the working directory; run the tests with go test inside it")
		}
		dir = parent
	}
}

// LlamaServer is the absolute path of a real llama-server: $ONDOL_LLAMA_SERVER, the private Debian copy, or the
// one on PATH (Homebrew's on macOS).
func LlamaServer(t testing.TB) string {
	t.Helper()
	if set := os.Getenv("ONDOL_LLAMA_SERVER"); set != "" {
		return file(t, set, "set ONDOL_LLAMA_SERVER to a llama-server, or unset it and run: make setup")
	}
	private := filepath.Join(RepoRoot(t), "build", "deps", "llama", "llama-server")
	if _, err := os.Stat(private); err == nil {
		return private
	}
	folders := filepath.SplitList(os.Getenv("PATH"))
	if runtime.GOOS == "darwin" {
		folders = append(folders, "/opt/homebrew/bin", "/usr/local/bin")
	}
	for _, folder := range folders {
		at := filepath.Join(folder, "llama-server")
		if info, err := os.Stat(at); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return at
		}
	}
	t.Fatalf("llama-server is missing (%s, PATH); run: make setup", private)
	return ""
}

// StarterModel is the absolute path of the starter model: English, 128 dimensions, BERT architecture.
func StarterModel(t testing.TB) string {
	t.Helper()
	return model(t, "ondol-starter-en.gguf")
}

// Qwen3Shaped is the absolute path of a model of Qwen3-Embedding-4B's shape with random weights: 36 blocks, 2560
// dimensions, one token a byte and one at the end.
func Qwen3Shaped(t testing.TB) string {
	t.Helper()
	return model(t, "qwen3-shaped.gguf")
}

func model(t testing.TB, name string) string {
	t.Helper()
	return file(t, filepath.Join(RepoRoot(t), "build", "deps", "models", name), "run: make setup")
}

// file is the absolute form of path, which must be a regular file.
func file(t testing.TB, path, remedy string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatalf("find %s: %v", path, err)
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		t.Fatalf("%s is not there; %s", path, remedy)
	}
	return path
}
