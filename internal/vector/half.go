package vector

import (
	"encoding/binary"
	"fmt"
	"math"
)

// halfScale is 2^112: the distance between the exponent biases of binary32
// (127) and binary16 (15), as a factor. Multiplying by it turns a half's bits,
// moved to the float32 fields, into its value, subnormals included, exactly.
const halfScale = 0x1p112

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

// DecodeF16 is the inverse of EncodeF16 (exact: every half is a float32). The
// result uses dst's storage when it is large enough; dst's contents are
// overwritten. An odd number of bytes is an error wrapping ErrEncoding.
func DecodeF16(dst []float32, src []byte) ([]float32, error) {
	if len(src)%2 != 0 {
		return nil, fmt.Errorf("%w: %d bytes are not whole half floats", ErrEncoding, len(src))
	}
	n := len(src) / 2
	if cap(dst) < n {
		dst = make([]float32, n)
	}
	dst = dst[:n]
	for i := range dst {
		dst[i] = halfValue(binary.LittleEndian.Uint16(src[2*i:]))
	}
	return dst, nil
}

func halfValue(h uint16) float32 {
	bits := uint32(h&0x7fff) << 13
	if h&0x7c00 == 0x7c00 { // infinity or NaN
		return math.Float32frombits(uint32(h&0x8000)<<16 | bits | 0x7f800000)
	}
	x := math.Float32frombits(bits) * halfScale
	return math.Float32frombits(math.Float32bits(x) | uint32(h&0x8000)<<16)
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
