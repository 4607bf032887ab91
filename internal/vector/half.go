package vector

import (
	"encoding/binary"
	"math"
)

// EncodeF16 packs v as little-endian IEEE 754 binary16, 2 bytes a component,
// rounded to nearest, ties to even. Magnitudes of 65520 and more become
// infinities, below 2^-25 zero; components of unit vectors are far from the
// first and lose nothing that matters to a cosine by the second (the error of
// a cosine stays below 1e-3, in practice near 1e-5).
func EncodeF16(v []float32) []byte {
	out := make([]byte, 2*len(v))
	for i, x := range v {
		binary.LittleEndian.PutUint16(out[2*i:], halfBits(x))
	}
	return out
}

func halfBits(x float32) uint16 {
	bits := math.Float32bits(x)
	sign := uint16(bits >> 16 & 0x8000)
	bits &= 0x7fffffff
	switch {
	case bits > 0x7f800000: // NaN stays NaN whatever its payload
		return sign | 0x7e00
	case bits >= 0x477ff000: // 65520: half way to the next exponent, ties to even = infinity
		return sign | 0x7c00
	case bits < 0x38800000: // below 2^-14: the result is subnormal
		// Adding 0.5 lines the half's last place up with the float32's last
		// place, so the addition itself rounds to nearest even.
		sum := math.Float32frombits(bits) + 0.5
		return sign | uint16(math.Float32bits(sum)-math.Float32bits(0.5))
	}
	// Round the 13 bits that go: add just under half, plus the last kept bit.
	bits += 0xfff + bits>>13&1
	return sign | uint16((bits-(127-15)<<23)>>13)
}
