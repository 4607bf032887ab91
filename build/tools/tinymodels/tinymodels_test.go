package tinymodels_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/ondol-app/ondol/build/tools/tinymodels"
)

func TestTheBytesAreTheSameEveryTime(t *testing.T) {
	for name, write := range map[string]func(string) error{"reranker": tinymodels.WriteReranker, "talker": tinymodels.WriteTalker} {
		var files [2][]byte
		for i := range files {
			path := filepath.Join(t.TempDir(), name)
			if err := write(path); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			files[i] = data
		}
		if !bytes.HasPrefix(files[0], []byte("GGUF")) || len(files[0]) > 1<<20 || !bytes.Equal(files[0], files[1]) {
			t.Errorf("%s: %d and %d bytes", name, len(files[0]), len(files[1]))
		}
	}
}
