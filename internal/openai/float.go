package openai

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strconv"
)

// AppendVector appends v as a JSON array: each component is the shortest
// decimal that reads back as the same float32, in the notation of
// encoding/json (ECMAScript's number to string). A component that is not
// finite is an error: JSON has no way to say it, and a reader would take null
// for 0.
func AppendVector(dst []byte, v []float32) ([]byte, error) {
	if at := notFinite(v); at >= 0 {
		return dst, fmt.Errorf("component %d is not finite", at)
	}
	dst = append(dst, '[')
	for i, f := range v {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendFloat(dst, f)
	}
	return append(dst, ']'), nil
}

// notFinite returns the index of the first NaN or infinity, or -1.
func notFinite(v []float32) int {
	for i, f := range v {
		if math.Float32bits(f)&0x7f800000 == 0x7f800000 {
			return i
		}
	}
	return -1
}

// appendFloat writes components of a normalised vector itself, twice as fast
// as strconv, which writes the others.
func appendFloat(dst []byte, f float32) []byte {
	if math.Signbit(float64(f)) {
		dst, f = append(dst, '-'), -f
	}
	switch {
	case f >= 1e-6 && f < 1:
		digits, exponent := shortest(f)
		return appendFraction(dst, digits, -exponent)
	case f == 0 || f >= 1 && f < 1e21:
		return strconv.AppendFloat(dst, float64(f), 'f', -1, 32)
	}
	dst = strconv.AppendFloat(dst, float64(f), 'e', -1, 32)
	// e-09 → e-9
	if n := len(dst); n >= 4 && dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

// appendFraction writes digits·10^-places, which is below 1. There are at most
// 9 digits and 15 places.
func appendFraction(dst []byte, digits uint32, places int) []byte {
	text := [...]byte{'0', '.', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0'}
	i := places + 2
	for ; digits >= 100; digits /= 100 {
		i -= 2
		copy(text[i:i+2], pairs[digits%100*2:])
	}
	if digits >= 10 {
		text[i-2] = '0' + byte(digits/10)
	}
	text[i-1] = '0' + byte(digits%10)
	return append(dst, text[:places+2]...)
}

const pairs = "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899"

// shortest returns digits and exponent such that digits·10^exponent is the
// decimal with the fewest digits that rounds to f, the nearest to f if there
// are several; digits does not end in 0. f must be normal, below 1 and
// at least 1e-6.
//
// This is Schubfach (R. Giulietti, "The Schubfach way to render doubles",
// 2020, section 9) for float32: f and the halfway points to its neighbours
// are scaled by a power of ten at which the rounding interval holds at least
// one and at most ten whole numbers, so that two candidates are left.
func shortest(f float32) (digits uint32, exponent int) {
	raw := math.Float32bits(f)
	fraction := raw & (1<<23 - 1)
	c := fraction | 1<<23
	q := int(raw>>23) - 150 // f = c·2^q

	// A power of two has a nearer neighbour below.
	closer := uint32(0)
	scale := q * 1262611 // ⌊q·log10(2)⌋ = scale / 2^22
	if fraction == 0 {
		closer = 1
		scale -= 524031 // ⌊log10(3/4·2^q)⌋
	}
	k := scale >> 22
	h := q + (-k*1741647)>>19 + 1 // (-k·1741647)/2^19 = ⌊-k·log2(10)⌋
	g := tenth[-k]
	low := scaled(g, (4*c-2+closer)<<h)
	mid := scaled(g, 4*c<<h)
	high := scaled(g, (4*c+2)<<h)
	if c&1 != 0 { // only an even neighbour wins a tie
		low++
		high--
	}
	s := mid / 4
	if s >= 10 {
		short := s / 10
		below, above := low <= 40*short, 40*short+40 <= high
		if below != above {
			if above {
				short++
			}
			return trim(short, k+1)
		}
	}
	below, above := low <= 4*s, 4*s+4 <= high
	if below != above {
		if above {
			s++
		}
		return trim(s, k)
	}
	// Half-way goes to even; for a power of two up, as strconv has it.
	if mid > 4*s+2 || mid == 4*s+2 && (s&1 != 0 || closer == 1) {
		s++
	}
	return trim(s, k)
}

// trim takes the zeros from the end of digits.
func trim(digits uint32, exponent int) (uint32, int) {
	for digits%10 == 0 {
		digits, exponent = digits/10, exponent+1
	}
	return digits, exponent
}

// scaled is g·c/2^64 with a lowest bit that is also set when anything was cut off.
func scaled(g uint64, c uint32) uint32 {
	hi, lo := bits.Mul64(g, uint64(c))
	y := uint32(hi)
	if lo>>32 > 1 {
		y |= 1
	}
	return y
}

// tenth[n] is 10^n as a 64-bit significand, rounded up: enough for every n
// that shortest meets between 1e-6 (2^-43 ≈ 10^-13) and 1.
var tenth = func() (powers [16]uint64) {
	for n := range powers {
		p := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
		powers[n] = p.Lsh(p, uint(64-p.BitLen())).Uint64() // 10^15 fits: all are exact
	}
	return powers
}()
