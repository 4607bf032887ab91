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
// error, as in AppendVector.
func (r *EmbeddingReply) AppendJSON(dst []byte) ([]byte, error) {
	dst = append(dst, `{"object":"list","data":[`...)
	for i, v := range r.Vectors {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"object":"embedding","index":`...)
		dst = strconv.AppendInt(dst, int64(i), 10)
		dst = append(dst, `,"embedding":`...)
		var err error
		if r.Encoding == EncodingBase64 {
			dst, err = appendBase64(dst, v)
		} else {
			dst, err = AppendVector(dst, v)
		}
		if err != nil {
			return dst, fmt.Errorf("encode vector %d: %w", i, err)
		}
		dst = append(dst, '}')
	}
	dst = append(dst, `],"model":`...)
	dst = AppendString(dst, r.Model)
	dst = append(dst, `,"usage":{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(r.PromptTokens), 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, int64(r.PromptTokens), 10)
	return append(dst, '}', '}'), nil
}

// base64Chunk is how many floats are turned at a time; a multiple of three,
// so that a chunk of 4-byte floats ends on a base64 boundary without padding.
const base64Chunk = 192

func appendBase64(dst []byte, v []float32) ([]byte, error) {
	if at := notFinite(v); at >= 0 {
		return dst, fmt.Errorf("component %d is not finite", at)
	}
	dst = append(dst, '"')
	var raw [4 * base64Chunk]byte
	for len(v) > 0 {
		n := min(len(v), base64Chunk)
		for i, f := range v[:n] {
			binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(f))
		}
		dst = base64.StdEncoding.AppendEncode(dst, raw[:4*n])
		v = v[n:]
	}
	return append(dst, '"'), nil
}

// AppendString appends s as a JSON string; plain printable ASCII, which model names are, needs
// no look at reflection.
func AppendString(dst []byte, s string) []byte {
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
