package gguf

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/ondol-app/ondol/internal/vector"
)

// Type is how a tensor's numbers are stored, as ggml numbers its types.
type Type uint32

// The types this package writes.
const (
	F32 Type = 0 // 4 bytes a value
	F16 Type = 1 // 2 bytes a value, IEEE 754 binary16
	Q8  Type = 8 // ggml's Q8_0: blocks of 32 values, a float16 scale and 32 signed bytes each
)

const q8Block = 32 // values that share a scale in Q8_0

// String is ggml's name of the type.
func (t Type) String() string {
	switch t {
	case F32:
		return "F32"
	case F16:
		return "F16"
	case Q8:
		return "Q8_0"
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// rowBytes is the size of a row of width values, 0 when the type cannot store such a row.
func (t Type) rowBytes(width int) int {
	switch {
	case t == F32:
		return 4 * width
	case t == F16:
		return 2 * width
	case t == Q8 && width%q8Block == 0:
		return width / q8Block * (2 + q8Block)
	}
	return 0
}

func (t Type) append(b []byte, values []float32) []byte {
	switch t {
	case F16:
		b = append(b, vector.EncodeF16(values)...)
	case Q8:
		for len(values) > 0 {
			b = appendQ8(b, values[:q8Block])
			values = values[q8Block:]
		}
	default:
		for _, v := range values {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
	}
	return b
}

// appendQ8 stores one block as ggml's quantize_row_q8_0 does: scale = largest magnitude / 127.
func appendQ8(b []byte, block []float32) []byte {
	var largest float32
	for _, v := range block {
		largest = max(largest, float32(math.Abs(float64(v))))
	}
	scale := largest / 127
	b = append(b, vector.EncodeF16([]float32{scale})...)
	for _, v := range block {
		var q int8
		if scale != 0 {
			q = int8(math.Round(float64(v / scale)))
		}
		b = append(b, byte(q))
	}
	return b
}
