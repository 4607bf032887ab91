// Package gguf writes model files in the GGUF format, version 3: what llama.cpp reads.
//
// It serves the writers of the starter model and of the test fixture (build/tools/...) and may be imported by
// them alone; the product reads headers with a package of its own. It guarantees that the same input gives the
// same bytes on every machine, and that a file appears under its name whole or not at all.
//
// The format is described in ggml's docs/gguf.md: magic, version, counts, key-value pairs, tensor descriptions,
// then the tensors' bytes, each aligned to 32.
package gguf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const (
	magic     = "GGUF"
	version   = 3
	alignment = 32 // bytes; the format's default for general.alignment
)

// Types of the values in key-value pairs, as the format numbers them.
const (
	kindUint32  = 4
	kindInt32   = 5
	kindFloat32 = 6
	kindBool    = 7
	kindString  = 8
	kindArray   = 9
)

// KV is one key-value pair of the header. Value is one of uint32, int32, float32, bool, string, []string, []int32
// or []float32.
type KV struct {
	Key   string
	Value any
}

// Tensor is one weight. Width is the length of a row (GGUF's first dimension), Rows the number of rows; a vector
// has one row and is written with one dimension.
type Tensor struct {
	Name  string
	Type  Type
	Width int
	Rows  int
	// Fill sets all of the given row's values. It is called once per row, in order.
	Fill func(row int, values []float32)
}

// Write makes the file at path with the pairs and tensors in the given order. It writes beside path and renames,
// so that a broken run leaves no half a model.
func Write(path string, pairs []KV, tensors []Tensor) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".gguf-*")
	if err != nil {
		return fmt.Errorf("create model file: %w", err)
	}
	defer os.Remove(f.Name()) // after the rename there is nothing to remove
	w := bufio.NewWriterSize(f, 1<<20)
	err = Encode(w, pairs, tensors)
	err = errors.Join(err, w.Flush(), f.Chmod(0o644), f.Close())
	if err != nil {
		return fmt.Errorf("write model file: %w", err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("put model file in place: %w", err)
	}
	return nil
}

// Encode writes a whole GGUF file to w.
func Encode(w io.Writer, pairs []KV, tensors []Tensor) error {
	e := &encoder{w: w}
	e.bytes([]byte(magic))
	e.number(uint32(version))
	e.number(uint64(len(tensors)))
	e.number(uint64(len(pairs)))
	for _, p := range pairs {
		e.pair(p)
	}
	var offset uint64
	for _, t := range tensors {
		offset = e.describe(t, offset)
	}
	e.pad()
	for _, t := range tensors {
		e.tensor(t)
	}
	return e.err
}

// encoder keeps the first error and the number of bytes written; after an error it writes nothing.
type encoder struct {
	w   io.Writer
	n   int64
	err error
}

func (e *encoder) bytes(b []byte) {
	if e.err != nil {
		return
	}
	n, err := e.w.Write(b)
	e.n += int64(n)
	e.err = err
}

func (e *encoder) number(v any) {
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil && e.err == nil {
		e.err = err
	}
	e.bytes(b)
}

func (e *encoder) text(s string) {
	e.number(uint64(len(s)))
	e.bytes([]byte(s))
}

func (e *encoder) pad() {
	if rest := e.n % alignment; rest != 0 {
		e.bytes(make([]byte, alignment-rest))
	}
}

func (e *encoder) pair(p KV) {
	e.text(p.Key)
	switch v := p.Value.(type) {
	case uint32:
		e.number(uint32(kindUint32))
		e.number(v)
	case int32:
		e.number(uint32(kindInt32))
		e.number(v)
	case float32:
		e.number(uint32(kindFloat32))
		e.number(v)
	case bool:
		e.number(uint32(kindBool))
		e.number(v)
	case string:
		e.number(uint32(kindString))
		e.text(v)
	case []string:
		e.array(kindString, len(v))
		for _, s := range v {
			e.text(s)
		}
	case []int32:
		e.array(kindInt32, len(v))
		e.number(v)
	case []float32:
		e.array(kindFloat32, len(v))
		e.number(v)
	default:
		if e.err == nil {
			e.err = fmt.Errorf("key %s: values of type %T are not written", p.Key, p.Value)
		}
	}
}

func (e *encoder) array(kind uint32, n int) {
	e.number(uint32(kindArray))
	e.number(kind)
	e.number(uint64(n))
}

// describe writes the tensor's entry in the header and returns where the next tensor's bytes begin.
func (e *encoder) describe(t Tensor, offset uint64) uint64 {
	if err := t.check(); err != nil && e.err == nil {
		e.err = err
	}
	e.text(t.Name)
	if t.Rows == 1 {
		e.number(uint32(1))
		e.number(uint64(t.Width))
	} else {
		e.number(uint32(2))
		e.number(uint64(t.Width))
		e.number(uint64(t.Rows))
	}
	e.number(uint32(t.Type))
	e.number(offset)
	size := uint64(t.Type.rowBytes(t.Width)) * uint64(t.Rows)
	return (offset + size + alignment - 1) / alignment * alignment
}

func (e *encoder) tensor(t Tensor) {
	if e.err != nil {
		return
	}
	values := make([]float32, t.Width)
	buf := make([]byte, 0, t.Type.rowBytes(t.Width))
	for row := range t.Rows {
		t.Fill(row, values)
		buf = t.Type.append(buf[:0], values)
		e.bytes(buf)
	}
	e.pad()
}

func (t Tensor) check() error {
	switch {
	case t.Width <= 0 || t.Rows <= 0:
		return fmt.Errorf("tensor %s: %d rows of %d values", t.Name, t.Rows, t.Width)
	case t.Type.rowBytes(t.Width) == 0:
		return fmt.Errorf("tensor %s: rows of %d values cannot be stored as %s", t.Name, t.Width, t.Type)
	case t.Fill == nil:
		return fmt.Errorf("tensor %s: nothing fills it", t.Name)
	}
	return nil
}
