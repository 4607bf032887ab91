package llamaserver

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Pooling types of llama.h (enum llama_pooling_type).
const (
	poolingUnknown = -1
	poolingLast    = 3
	poolingRank    = 4
)

// header is what the supervisor needs of a GGUF file.
type header struct {
	architecture string
	dim          int  // embedding_length; 0 = not told
	context      int  // context_length, tokens; 0 = not told
	pooling      int  // poolingUnknown = not told
	causal       bool // attention looks back only, so an input may be computed in pieces
}

var errNotGGUF = errors.New("not a GGUF file of version 2 or 3")

// GGUF value types (ggml's docs/gguf.md, enum gguf_metadata_value_type).
const (
	ggufString = 8
	ggufArray  = 9
)

// ggufSize is the size of the fixed-size value types, bytes.
var ggufSize = map[uint32]int64{0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

// What a header may hold; more is a damaged file, not a bigger model.
const (
	maxKeys   = 1 << 16
	maxString = 1 << 26 // bytes
	maxArray  = 1 << 28 // elements
)

// readHeader reads the key-value part of a GGUF file. errNotGGUF when the file
// is none; other errors when it is damaged or cannot be read.
func readHeader(path string) (header, error) {
	file, err := os.Open(path)
	if err != nil {
		return header{}, err
	}
	defer file.Close()
	r := &ggufReader{r: bufio.NewReaderSize(file, 1<<16)}
	if magic := r.bytes(4); string(magic) != "GGUF" {
		return header{}, errNotGGUF
	}
	if version := r.u32(); version < 2 || version > 3 {
		return header{}, errNotGGUF
	}
	r.u64() // tensors
	keys := r.u64()
	if keys > maxKeys {
		return header{}, fmt.Errorf("read GGUF header: %d keys", keys)
	}
	values := metadata{numbers: map[string]int{}}
	for range keys {
		values.take(r)
		if r.err != nil {
			return header{}, fmt.Errorf("read GGUF header: %w", r.err)
		}
	}
	return values.header(), nil
}

// metadata collects what may be of use: which keys these are depends on the
// architecture, which need not come first.
type metadata struct {
	architecture string
	numbers      map[string]int // whole numbers and truth values of at most four bytes
}

// take reads one key and its value.
func (m *metadata) take(r *ggufReader) {
	key := string(r.bytes(r.u64()))
	kind := r.u32()
	size, fixed := ggufSize[kind]
	switch {
	case key == "general.architecture" && kind == ggufString:
		m.architecture = string(r.bytes(r.u64()))
	case fixed && size <= 4:
		m.numbers[key] = int(r.small(size))
	default:
		r.skip(kind)
	}
}

func (m *metadata) header() header {
	number := func(key string, otherwise int) int {
		if n, ok := m.numbers[m.architecture+"."+key]; ok {
			return n
		}
		return otherwise
	}
	return header{
		architecture: m.architecture,
		dim:          number("embedding_length", 0),
		context:      number("context_length", 0),
		pooling:      number("pooling_type", poolingUnknown),
		causal:       number("attention.causal", 1) != 0,
	}
}

// splits reports whether an input longer than one physical batch can be
// computed in pieces: llama-server does so only where a cache carries over
// what came before and the last token speaks for all. flags may override the
// file's pooling.
func (h header) splits(flags []string) bool {
	last := h.pooling == poolingLast
	if pooling, set := flagValue(flags, "--pooling"); set {
		last = pooling == "last"
	}
	return last && h.causal && !strings.Contains(h.architecture, "bert")
}

// ggufReader reads little-endian values and keeps the first error; after one
// every value is zero.
type ggufReader struct {
	r   *bufio.Reader
	err error
}

func (r *ggufReader) bytes(n uint64) []byte {
	if r.err == nil && n > maxString {
		r.err = fmt.Errorf("string of %d bytes", n)
	}
	if r.err != nil {
		return nil
	}
	b := make([]byte, n)
	_, r.err = io.ReadFull(r.r, b)
	return b
}

func (r *ggufReader) u32() uint32 {
	if b := r.bytes(4); r.err == nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *ggufReader) u64() uint64 {
	if b := r.bytes(8); r.err == nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// small reads a value of at most four bytes; a float's bits are of no use to
// anybody here.
func (r *ggufReader) small(size int64) uint32 {
	var b [4]byte
	copy(b[:], r.bytes(uint64(size)))
	return binary.LittleEndian.Uint32(b[:])
}

// skip passes over a value.
func (r *ggufReader) skip(kind uint32) {
	switch kind {
	case ggufString:
		r.discard(r.u64())
	case ggufArray:
		element, n := r.u32(), r.u64()
		if n > maxArray {
			r.err = errors.Join(r.err, fmt.Errorf("array of %d elements", n))
			return
		}
		if size, fixed := ggufSize[element]; fixed {
			r.discard(n * uint64(size))
			return
		}
		for range n {
			if r.err != nil {
				return
			}
			r.skip(element)
		}
	default:
		size, fixed := ggufSize[kind]
		if !fixed {
			r.err = errors.Join(r.err, fmt.Errorf("value of unknown type %d", kind))
			return
		}
		r.discard(uint64(size))
	}
}

func (r *ggufReader) discard(n uint64) {
	if r.err == nil {
		_, r.err = io.CopyN(io.Discard, r.r, int64(n))
	}
}
