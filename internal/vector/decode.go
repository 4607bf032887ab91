package vector

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unsafe"
)

// ErrEncoding is wrapped by every decoding error of this package.
var ErrEncoding = errors.New("malformed vector encoding")

// base64Chunk is how many letters are decoded at a time. They stand for 192
// whole floats.
const base64Chunk = 1024

// DecodeBase64 reads standard base64 of little-endian IEEE 754 single floats,
// the form OpenAI's encoding_format "base64" defines. The bits are taken as
// they are, NaN and infinities included: Check judges them. Errors wrap
// ErrEncoding.
func DecodeBase64(text []byte) ([]float32, error) {
	v := make([]float32, 0, base64.StdEncoding.DecodedLen(len(text))/4)
	var raw [base64Chunk / 4 * 3]byte
	for rest := text; len(rest) > 0; {
		n := min(len(rest), base64Chunk)
		got, err := base64.StdEncoding.Decode(raw[:], rest[:n])
		rest = rest[n:]
		if err != nil || got%4 != 0 || len(rest) > 0 && got < len(raw) {
			return decodeWhole(text) // for the error, or for line ends, which count for nothing
		}
		v = appendFloats(v, raw[:got])
	}
	return v, nil
}

func decodeWhole(text []byte) ([]float32, error) {
	raw := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(raw, text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEncoding, err)
	}
	if n%4 != 0 {
		return nil, fmt.Errorf("%w: %d bytes are not whole 4-byte floats", ErrEncoding, n)
	}
	return appendFloats(make([]float32, 0, n/4), raw[:n]), nil
}

func appendFloats(v []float32, raw []byte) []float32 {
	for ; len(raw) >= 4; raw = raw[4:] {
		v = append(v, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
	}
	return v
}

// DecodeJSON reads a JSON array of numbers without losing what is not a
// number: null, a string, a boolean, an object or a nested array becomes NaN,
// a number beyond float32 becomes an infinity. (encoding/json would leave the
// zero of a []float32 in place of null, and llama-server writes NaN as null.)
// Anything but an array is an error wrapping ErrEncoding.
func DecodeJSON(raw []byte) ([]float32, error) {
	if v, ok := decodePlain(bytes.TrimSpace(raw)); ok {
		return v, nil
	}
	// null would leave the slice nil without an error.
	var parts []json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEncoding, err)
	}
	if parts == nil {
		return nil, fmt.Errorf("%w: null in place of an array", ErrEncoding)
	}
	v := make([]float32, len(parts))
	for i, part := range parts {
		x, err := parseFloat(part)
		if err != nil {
			x = float32(math.NaN())
		}
		v[i] = x
	}
	return v, nil
}

// decodePlain is the fast path: numbers alone. It declines (false) at the
// first byte that no JSON number has, so that the exact reader decides.
func decodePlain(raw []byte) ([]float32, bool) {
	if len(raw) < 2 || raw[0] != '[' || raw[len(raw)-1] != ']' {
		return nil, false
	}
	body := raw[1 : len(raw)-1]
	v := make([]float32, 0, bytes.Count(body, []byte{','})+1)
	for part := range bytes.SplitSeq(body, []byte{','}) {
		part = bytes.TrimSpace(part)
		if !plainNumber(part) {
			return nil, false
		}
		x, err := parseFloat(part)
		if err != nil {
			return nil, false
		}
		v = append(v, x)
	}
	return v, true
}

// plainNumber keeps out what strconv accepts and JSON does not: inf, nan,
// hexadecimal, underscores, a leading plus or dot.
func plainNumber(b []byte) bool {
	if len(b) == 0 || b[0] != '-' && (b[0] < '0' || b[0] > '9') {
		return false
	}
	for _, c := range b {
		if (c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E' {
			return false
		}
	}
	return true
}

// parseFloat reads one JSON number; out of range is an infinity, not an error.
func parseFloat(b []byte) (float32, error) {
	if !plainNumber(b) {
		return 0, ErrEncoding
	}
	// The string lives only as long as the call, so the bytes are not copied.
	x, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(b), len(b)), 32)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, err
	}
	return float32(x), nil
}
