package gguf_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/build/tools/gguf"
)

// reader reads a GGUF file the way its specification tells, and stops the test at the first surprise.
type reader struct {
	t *testing.T
	b *bytes.Reader
}

func read[T any](r reader) T {
	r.t.Helper()
	var v T
	if err := binary.Read(r.b, binary.LittleEndian, &v); err != nil {
		r.t.Fatalf("read %T: %v", v, err)
	}
	return v
}

func (r reader) text() string {
	r.t.Helper()
	b := make([]byte, read[uint64](r))
	if _, err := io.ReadFull(r.b, b); err != nil {
		r.t.Fatalf("read text: %v", err)
	}
	return string(b)
}

func (r reader) value(kind uint32) any {
	r.t.Helper()
	switch kind {
	case 4:
		return read[uint32](r)
	case 5:
		return read[int32](r)
	case 6:
		return read[float32](r)
	case 7:
		return read[bool](r)
	case 8:
		return r.text()
	case 9:
		element := read[uint32](r)
		values := make([]any, read[uint64](r))
		for i := range values {
			values[i] = r.value(element)
		}
		return values
	}
	r.t.Fatalf("a value of kind %d", kind)
	return nil
}

func TestHeaderReadsBack(t *testing.T) {
	pairs := []gguf.KV{
		{Key: "general.architecture", Value: "bert"},
		{Key: "count", Value: uint32(7)},
		{Key: "offset", Value: int32(-7)},
		{Key: "epsilon", Value: float32(1e-12)},
		{Key: "causal", Value: false},
		{Key: "words", Value: []string{"▁온돌", ""}},
		{Key: "kinds", Value: []int32{3, -1}},
		{Key: "scores", Value: []float32{0.5}},
		{Key: "none", Value: []string{}},
	}
	counting := func(row int, values []float32) {
		for i := range values {
			values[i] = float32(row*len(values) + i)
		}
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	err := gguf.Write(path, pairs, []gguf.Tensor{
		{Name: "matrix", Type: gguf.F16, Width: 3, Rows: 2, Fill: counting}, // 12 bytes, so padding follows
		{Name: "bias", Type: gguf.F32, Width: 2, Rows: 1, Fill: counting},
	})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := reader{t, bytes.NewReader(data)}
	if got := read[[4]byte](r); string(got[:]) != "GGUF" {
		t.Errorf("magic is %q", got)
	}
	if got := read[uint32](r); got != 3 {
		t.Errorf("version is %d", got)
	}
	if tensors, kvs := read[uint64](r), read[uint64](r); tensors != 2 || kvs != uint64(len(pairs)) {
		t.Fatalf("%d tensors and %d pairs, want 2 and %d", tensors, kvs, len(pairs))
	}
	got := map[string]any{}
	for range pairs {
		key := r.text()
		got[key] = r.value(read[uint32](r))
	}
	want := map[string]any{
		"general.architecture": "bert", "count": uint32(7), "offset": int32(-7), "epsilon": float32(1e-12),
		"causal": false, "words": []any{"▁온돌", ""}, "kinds": []any{int32(3), int32(-1)},
		"scores": []any{float32(0.5)}, "none": []any{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pairs (-want +got):\n%s", diff)
	}

	type entry struct {
		Name   string
		Dims   []uint64
		Type   uint32
		Offset uint64
	}
	var entries []entry
	for range 2 {
		e := entry{Name: r.text()}
		for range read[uint32](r) {
			e.Dims = append(e.Dims, read[uint64](r))
		}
		e.Type, e.Offset = read[uint32](r), read[uint64](r)
		entries = append(entries, e)
	}
	wantEntries := []entry{{"matrix", []uint64{3, 2}, 1, 0}, {"bias", []uint64{2}, 0, 32}}
	if diff := cmp.Diff(wantEntries, entries); diff != "" {
		t.Errorf("tensors (-want +got):\n%s", diff)
	}

	start := (int64(len(data)) - int64(r.b.Len()) + 31) / 32 * 32
	if got, want := int64(len(data))-start, int64(64); got != want {
		t.Fatalf("%d bytes of tensors, want %d", got, want)
	}
	halves := data[start : start+12]
	// 0, 1, 2, 3, 4, 5 as binary16.
	if want := []byte{0, 0, 0, 0x3c, 0, 0x40, 0, 0x42, 0, 0x44, 0, 0x45}; !bytes.Equal(halves, want) {
		t.Errorf("matrix is % x, want % x", halves, want)
	}
	if got := math.Float32frombits(binary.LittleEndian.Uint32(data[start+36:])); got != 1 {
		t.Errorf("the bias' second value is %v, want 1", got)
	}
}

func TestQ8KeepsBlocksWithinHalfAStep(t *testing.T) {
	values := make([]float32, 64)
	for i := range values[:32] {
		values[i] = float32(math.Sin(float64(i))) * 5 // the second block stays zero
	}
	var out bytes.Buffer
	if err := gguf.Encode(&out, nil, []gguf.Tensor{{
		Name: "q", Type: gguf.Q8, Width: 64, Rows: 1,
		Fill: func(_ int, row []float32) { copy(row, values) },
	}}); err != nil {
		t.Fatal(err)
	}
	block := out.Bytes()[out.Len()-96:] // two blocks of 34 bytes, padded to 96
	// The largest magnitude is 5·sin(11) = -4.99995: the scale is 0.03937, in binary16 0x290a = 0.0393677.
	if scale := binary.LittleEndian.Uint16(block); scale != 0x290a {
		t.Errorf("scale is %#x, want 0x290a", scale)
	}
	for i, want := range values[:32] {
		got := float32(int8(block[2+i])) * 0.0393677
		if d := math.Abs(float64(got - want)); d > 0.0394/2+0.001 {
			t.Errorf("value %d is %v, want %v", i, got, want)
		}
	}
	if !bytes.Equal(block[34:68], make([]byte, 34)) {
		t.Errorf("a block of zeros is % x", block[34:68])
	}
}

func TestWhatCannotBeWrittenIsAnError(t *testing.T) {
	fill := func(int, []float32) {}
	for _, c := range []struct {
		name   string
		pairs  []gguf.KV
		tensor gguf.Tensor
	}{
		{"a value of an unknown type", []gguf.KV{{Key: "k", Value: 1}}, gguf.Tensor{Name: "t", Type: gguf.F32, Width: 1, Rows: 1, Fill: fill}},
		{"a row that is no whole number of blocks", nil, gguf.Tensor{Name: "t", Type: gguf.Q8, Width: 33, Rows: 1, Fill: fill}},
		{"an unknown tensor type", nil, gguf.Tensor{Name: "t", Type: 99, Width: 32, Rows: 1, Fill: fill}},
		{"no rows", nil, gguf.Tensor{Name: "t", Type: gguf.F32, Width: 32, Fill: fill}},
		{"nothing that fills", nil, gguf.Tensor{Name: "t", Type: gguf.F32, Width: 32, Rows: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := gguf.Write(filepath.Join(dir, "m.gguf"), c.pairs, []gguf.Tensor{c.tensor}); err == nil {
				t.Error("no error")
			}
			left, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			if len(left) != 0 {
				t.Errorf("%s is left behind", left[0].Name())
			}
		})
	}
}
