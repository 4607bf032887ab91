package qwen3_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/ondol-app/ondol/build/tools/qwen3"
)

func write(t *testing.T, s qwen3.Shape) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := qwen3.Write(path, s); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestTheSeedDecidesTheBytes(t *testing.T) {
	small := qwen3.Shape{Blocks: 2, Width: 64, Heads: 1, KVHeads: 1, HeadWidth: 64, FeedForward: 32, Vocabulary: 257, Seed: 1}
	other := small
	other.Seed = 2
	first := write(t, small)
	if !bytes.Equal(first, write(t, small)) {
		t.Error("the same shape gave two files")
	}
	if bytes.Equal(first, write(t, other)) {
		t.Error("another seed gave the same file")
	}
}

// A byte-level tokenizer finds no way around a byte without a token: all 256 must be there, once.
func TestEveryByteHasAToken(t *testing.T) {
	data := write(t, qwen3.Shape{Blocks: 1, Width: 32, Heads: 1, KVHeads: 1, HeadWidth: 64, FeedForward: 32, Vocabulary: 257})
	for _, token := range []string{"!", "~", "Ā" /* byte 0 */, "Ġ" /* space */, "ÿ", "<|endoftext|>"} {
		entry := append([]byte{byte(len(token)), 0, 0, 0, 0, 0, 0, 0}, token...)
		if n := bytes.Count(data, entry); n != 1 {
			t.Errorf("token %q is there %d times", token, n)
		}
	}
}

func TestAShapeWithoutSizeIsRefused(t *testing.T) {
	s := qwen3.Default()
	s.Heads = 0
	if err := qwen3.Write(filepath.Join(t.TempDir(), "m.gguf"), s); err == nil {
		t.Error("no error")
	}
}
