package openai

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// EmbeddingReply is a reply to POST /v1/embeddings before it is written.
type EmbeddingReply struct {
	Model        string
	Vectors      [][]float32 // in input order; only read
	Encoding     Encoding
	PromptTokens int
}

// Bytes per item around a vector: {"object":"embedding","index":2047,"embedding":[]},
const itemOverhead = 56

// Bytes around the data: object, model, usage with two counts.
const replyOverhead = 160

// A normalised component such as -0.023456789, with its comma.
const floatWidth = 14

// Size estimates the encoded length in bytes from above for normalised
// vectors, so that one allocation holds the whole reply.
func (r *EmbeddingReply) Size() int {
	n := replyOverhead + len(r.Model)
	for _, v := range r.Vectors {
		n += itemOverhead
		if r.Encoding == EncodingBase64 {
			n += base64.StdEncoding.EncodedLen(4 * len(v))
		} else {
			n += floatWidth * len(v)
		}
	}
	return n
}

// AppendJSON appends the reply to dst. A component that is not finite is an
// error: JSON has no way to say it, and a reader would take null for 0.
func (r *EmbeddingReply) AppendJSON(dst []byte) ([]byte, error) {
	dst = append(dst, `{"object":"list","data":[`...)
	for i, v := range r.Vectors {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"object":"embedding","index":`...)
		dst = strconv.AppendInt(dst, int64(i), 10)
		dst = append(dst, `,"embedding":`...)
		if at := notFinite(v); at >= 0 {
			return dst, fmt.Errorf("encode vector %d: component %d is not finite", i, at)
		}
		if r.Encoding == EncodingBase64 {
			dst = append(dst, '"')
			dst = appendBase64(dst, v)
			dst = append(dst, '"', '}')
		} else {
			dst = appendFloats(dst, v)
			dst = append(dst, '}')
		}
	}
	dst = append(dst, `],"model":`...)
	dst = appendString(dst, r.Model)
	dst = append(dst, `,"usage":{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(r.PromptTokens), 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, int64(r.PromptTokens), 10)
	return append(dst, '}', '}'), nil
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

func appendFloats(dst []byte, v []float32) []byte {
	dst = append(dst, '[')
	for i, f := range v {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendFloat(dst, f)
	}
	return append(dst, ']')
}

// appendFloat writes the shortest decimal that reads back as the same
// float32, in the notation of encoding/json (ECMAScript's number to string).
func appendFloat(dst []byte, f float32) []byte {
	abs := math.Float32bits(f) &^ (1 << 31)
	if abs == 0 || abs >= math.Float32bits(1e-6) && abs < math.Float32bits(1e21) {
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

// base64Chunk is how many floats are turned at a time; a multiple of three,
// so that a chunk of 4-byte floats ends on a base64 boundary without padding.
const base64Chunk = 192

func appendBase64(dst []byte, v []float32) []byte {
	var raw [4 * base64Chunk]byte
	for len(v) > 0 {
		n := min(len(v), base64Chunk)
		for i, f := range v[:n] {
			binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(f))
		}
		dst = base64.StdEncoding.AppendEncode(dst, raw[:4*n])
		v = v[n:]
	}
	return dst
}

// appendString quotes s; plain printable ASCII, which model names are, needs
// no look at reflection.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			// A string always marshals: the error is impossible.
			quoted, _ := json.Marshal(s)
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}
