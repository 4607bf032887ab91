package gguf

import "math/bits"

// Tensor describes one weight.
type Tensor struct {
	Name   string
	Type   uint32 // enum ggml_type
	Bytes  int64  // 0 when the type is not known here
	offset int64  // in the data part
}

// block is how a tensor type packs values: elements of a row, and the bytes they take.
type block struct{ elements, bytes uint64 }

// blocks are the tensor types (enum ggml_type, block structs of ggml-common.h).
var blocks = map[uint32]block{
	0: {1, 4}, 1: {1, 2}, // F32, F16
	2: {32, 18}, 3: {32, 20}, 6: {32, 22}, 7: {32, 24}, 8: {32, 34}, 9: {32, 36}, // Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q8_1
	10: {256, 84}, 11: {256, 110}, 12: {256, 144}, 13: {256, 176}, 14: {256, 210}, 15: {256, 292}, // Q2_K … Q8_K
	16: {256, 66}, 17: {256, 74}, 18: {256, 98}, 19: {256, 50}, 20: {32, 18}, 21: {256, 110}, // IQ2_XXS, IQ2_XS, IQ3_XXS, IQ1_S, IQ4_NL, IQ3_S
	22: {256, 82}, 23: {256, 136}, // IQ2_S, IQ4_XS
	24: {1, 1}, 25: {1, 2}, 26: {1, 4}, 27: {1, 8}, 28: {1, 8}, // I8, I16, I32, I64, F64
	29: {256, 56}, 30: {1, 2}, 34: {256, 54}, 35: {256, 66}, 39: {32, 17}, 40: {64, 36}, // IQ1_M, BF16, TQ1_0, TQ2_0, MXFP4, NVFP4
}

// maxBytes is more than any file has: sizes below it cannot overflow when added.
const maxBytes = 1 << 50

// tensor reads one description.
func (d *decoder) tensor() Tensor {
	t := Tensor{Name: d.name()}
	shape := d.u32()
	if shape > maxShape {
		d.damaged("the tensor %q has %d dimensions", t.Name, shape)
		return t
	}
	width, elements := uint64(1), uint64(1)
	for i := range shape {
		n := d.u64()
		if i == 0 {
			width = n
		}
		high, product := bits.Mul64(elements, n)
		if high != 0 || product > maxBytes {
			d.damaged("the tensor %q is too large to be", t.Name)
			return t
		}
		elements = product
	}
	t.Type = d.u32()
	offset := d.u64()
	if d.err != nil {
		return t
	}
	b, known := blocks[t.Type]
	if known && width%b.elements != 0 {
		d.damaged("the tensor %q has rows of %d, which its type cannot pack", t.Name, width)
		return t
	}
	if offset > maxBytes || known && elements/b.elements > maxBytes/b.bytes {
		d.damaged("the tensor %q lies beyond any file", t.Name)
		return t
	}
	if t.offset = int64(offset); known {
		t.Bytes = int64(elements / b.elements * b.bytes)
	}
	return t
}

// defaultAlignment of the data part, bytes, where general.alignment is absent.
const defaultAlignment = 32

// measure says how long the whole file must be whose header takes so many bytes.
func (h *Header) measure(header int64) error {
	alignment := h.number("general.alignment", defaultAlignment)
	if alignment < 1 || alignment > 1<<20 || alignment&(alignment-1) != 0 {
		return &DamagedError{"general.alignment is no power of two"}
	}
	h.Need = header
	data := (header + alignment - 1) &^ (alignment - 1)
	var sum int64
	for _, t := range h.Tensors {
		h.Need = max(h.Need, data+t.offset+t.Bytes)
		if sum += t.Bytes; sum > h.Need {
			return &DamagedError{"its tensors overlap"}
		}
	}
	return nil
}
