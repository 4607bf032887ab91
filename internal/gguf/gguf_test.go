package gguf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	writer "github.com/ondol-app/ondol/build/tools/gguf"
	"github.com/ondol-app/ondol/internal/enginetest"
	"github.com/ondol-app/ondol/internal/gguf"
)

func TestReadRealModels(t *testing.T) {
	for _, test := range []struct {
		path                                    string
		arch, quantization                      string
		blocks, dim, context, vocabulary, heads int
		pooling                                 gguf.Pooling
		causal, encoder                         bool
	}{
		{path: enginetest.StarterModel(t), arch: "bert", quantization: "Q8_0", blocks: 1, dim: 128, context: 8192, vocabulary: 85005, heads: 1, pooling: gguf.PoolingCLS, encoder: true},
		{path: enginetest.Qwen3Shaped(t), arch: "qwen3", quantization: "F16", blocks: 36, dim: 2560, context: 40960, vocabulary: 257, heads: 1, pooling: gguf.PoolingLast, causal: true},
	} {
		h, err := gguf.Read(test.path)
		if err != nil {
			t.Fatal(err)
		}
		if h.Architecture() != test.arch || h.Quantization() != test.quantization || h.Vocabulary() != test.vocabulary ||
			h.Of("block_count", 0) != test.blocks || h.Of("embedding_length", 0) != test.dim || h.Of("context_length", 0) != test.context ||
			h.PerBlock("attention.head_count", 0, 0) != test.heads || h.Pooling() != test.pooling || h.Causal() != test.causal || h.Encoder() != test.encoder {
			t.Errorf("%s: %s %s, vocabulary %d, %d blocks, %d dimensions, %d tokens, pooling %s, causal %v, encoder %v", test.path, h.Architecture(), h.Quantization(),
				h.Vocabulary(), h.Of("block_count", 0), h.Of("embedding_length", 0), h.Of("context_length", 0), h.Pooling(), h.Causal(), h.Encoder())
		}
		// The file ends with its last tensor, padded.
		if h.Size < h.Need || h.Size >= h.Need+32 {
			t.Errorf("%s: %d bytes, needs %d", test.path, h.Size, h.Need)
		}
	}
}

// file is a header built by hand.
type file struct{ bytes.Buffer }

func header(tensors, keys uint64) *file {
	f := &file{}
	f.WriteString("GGUF")
	return f.n(uint32(3), tensors, keys)
}

func (f *file) n(numbers ...any) *file {
	for _, n := range numbers {
		_ = binary.Write(f, binary.LittleEndian, n) // a buffer takes everything
	}
	return f
}

func (f *file) s(text string) *file {
	f.n(uint64(len(text)))
	f.WriteString(text)
	return f
}

// hostile files must be refused at once, whatever they promise.
var hostile = map[string]struct {
	data []byte
	says string
}{
	"a huge key":               {header(0, 1).n(uint64(1 << 40)).Bytes(), "a name of"},
	"huge counts":              {header(1<<40, 1<<40).Bytes(), "tensors and"},
	"a huge text":              {header(0, 1).s("k").n(uint32(8), uint64(1<<62)).Bytes(), "a value of"},
	"a text that is not there": {header(0, 1).s("k").n(uint32(8), uint64(1<<19)).Bytes(), "it ends after"},
	"a huge list of texts":     {header(0, 1).s("k").n(uint32(9), uint32(8), uint64(1<<40)).Bytes(), "a list of 1099511627776 elements"},
	"a huge list of numbers":   {header(0, 1).s("k").n(uint32(9), uint32(12), uint64(1<<28)).Bytes(), "a value of"},
	"lists in lists":           {header(0, 1).s("k").n(uint32(9), uint32(9), uint64(1), uint32(9)).Bytes(), "a list of type 9"},
	"an unknown type":          {header(0, 1).s("k").n(uint32(77)).Bytes(), "unknown type 77"},
	"a key twice":              {header(0, 2).s("k").n(uint32(4), uint32(1)).s("k").n(uint32(4), uint32(2)).Bytes(), "stands twice"},
	"too many dimensions":      {header(1, 0).s("t").n(uint32(5)).Bytes(), "5 dimensions"},
	"a tensor that overflows":  {header(1, 0).s("t").n(uint32(3), uint64(1<<40), uint64(1<<40), uint64(1<<40), uint32(0), uint64(0)).Bytes(), "too large to be"},
	"an offset beyond":         {header(1, 0).s("t").n(uint32(1), uint64(1), uint32(0), uint64(1<<60)).Bytes(), "beyond any file"},
	"a row that is not packed": {header(1, 0).s("t").n(uint32(1), uint64(33), uint32(8), uint64(0)).Bytes(), "cannot pack"},
	"no alignment":             {header(0, 1).s("general.alignment").n(uint32(4), uint32(3)).Bytes(), "no power of two"},
	"tensors that overlap": {header(2, 0).s("a").n(uint32(1), uint64(1024), uint32(0), uint64(0)).
		s("b").n(uint32(1), uint64(1024), uint32(0), uint64(0)).Bytes(), "overlap"},
	"cut off": {header(1, 1).Bytes(), "it ends after"},
}

func TestHostileFilesAreRefused(t *testing.T) {
	for name, test := range hostile {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "m.gguf")
			if err := os.WriteFile(path, test.data, 0o600); err != nil {
				t.Fatal(err)
			}
			h, err := gguf.Read(path)
			damaged, ok := errors.AsType[*gguf.DamagedError](err)
			if !ok || h != nil || !strings.Contains(damaged.Reason, test.says) {
				t.Errorf("%v, want a damaged header: %s", err, test.says)
			}
		})
	}
}

// A file cannot make us keep more than the budget, however it spreads it.
func TestMemoryIsBounded(t *testing.T) {
	f := header(0, 40)
	for i := range 40 {
		f.s(strings.Repeat("k", i+1)).n(uint32(8)).s(strings.Repeat("x", 1<<20))
	}
	if _, err := gguf.Parse(f); err == nil || !strings.Contains(err.Error(), "bytes of names and values") {
		t.Errorf("error is %v", err)
	}
	long := header(0, 1).s("k").n(uint32(8)).s(strings.Repeat("x", 1<<20+1))
	h, err := gguf.Parse(long)
	if err != nil || h.Text("k") != "" {
		t.Errorf("a text over the limit: %v", err)
	}
}

func TestOtherFiles(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe.gguf")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{"empty": "", "short": "GG", "text": "GGML is older", "version": "GGUF\x01\x00\x00\x00", "big endian": "GGUF\x00\x00\x00\x03"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := gguf.Read(path); !errors.Is(err, gguf.ErrNotGGUF) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, path := range []string{pipe, dir} {
		if _, err := gguf.Read(path); !errors.Is(err, gguf.ErrNotGGUF) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := gguf.Read(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
}

func TestValues(t *testing.T) {
	f := header(0, 7)
	f.s("general.architecture").n(uint32(8)).s("a")
	f.s("a.block_count").n(uint32(5), int32(-3))
	f.s("a.wide").n(uint32(10), uint64(1<<63))
	f.s("a.scale").n(uint32(6), float32(1))
	f.s("a.heads").n(uint32(9), uint32(2), uint64(3), uint16(7), uint16(0), uint16(9))
	f.s("a.floats").n(uint32(9), uint32(6), uint64(2), float32(1), float32(2))
	f.s("a.flag").n(uint32(7), uint8(1))
	h, err := gguf.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	if got := h.Of("block_count", 5); got != -3 {
		t.Errorf("block_count %d", got)
	}
	if got := h.Of("wide", 5); got != 5 {
		t.Errorf("a number no int64 holds is %d", got)
	}
	if got := [...]int{h.PerBlock("heads", 0, 1), h.PerBlock("heads", 1, 1), h.PerBlock("heads", 3, 1), h.PerBlock("flag", 9, 4), h.PerBlock("none", 0, 6)}; got != [...]int{7, 0, 1, 1, 6} {
		t.Errorf("per block %v", got)
	}
	if h.Length("a.floats") != 2 || h.Pooling() != gguf.PoolingUnknown || h.Quantization() != "" {
		t.Errorf("floats %d, pooling %q, quantization %q", h.Length("a.floats"), h.Pooling(), h.Quantization())
	}
}

func FuzzParse(f *testing.F) {
	for _, test := range hostile {
		f.Add(test.data)
	}
	var small bytes.Buffer
	if err := writer.Encode(&small, []writer.KV{
		{Key: "general.architecture", Value: "qwen3"}, {Key: "qwen3.pooling_type", Value: uint32(3)},
		{Key: "tokenizer.ggml.tokens", Value: []string{"a", "b"}}, {Key: "qwen3.attention.head_count_kv", Value: []int32{1, 2}},
	}, []writer.Tensor{{Name: "cls.weight", Type: writer.F32, Width: 4, Rows: 2, Fill: func(int, []float32) {}}}); err != nil {
		f.Fatal(err)
	}
	f.Add(small.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := gguf.Parse(bytes.NewReader(data))
		if err != nil {
			if _, ok := errors.AsType[*gguf.DamagedError](err); !ok && !errors.Is(err, gguf.ErrNotGGUF) {
				t.Fatalf("an untyped error: %v", err)
			}
			if h != nil {
				t.Fatal("a header beside an error")
			}
			return
		}
		if h.Need < 24 || len(h.Tensors) > len(data) {
			t.Fatalf("needs %d bytes, %d tensors of %d bytes", h.Need, len(h.Tensors), len(data))
		}
		for _, tensor := range h.Tensors {
			if tensor.Bytes < 0 || h.Need < tensor.Bytes {
				t.Fatalf("tensor %+v in %d bytes", tensor, h.Need)
			}
		}
		for i := range 3 {
			_ = h.PerBlock("attention.head_count_kv", i, 0)
		}
		_, _, _, _ = h.Pooling().String(), h.Encoder(), h.Vocabulary(), h.Quantization()
	})
}
