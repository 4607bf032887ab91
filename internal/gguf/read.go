package gguf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNotGGUF says that a file is something else, or a GGUF of another version.
var ErrNotGGUF = errors.New("not a GGUF file of version 2 or 3")

// DamagedError says what in a header cannot be.
type DamagedError struct{ Reason string }

func (e *DamagedError) Error() string { return "the GGUF header is damaged: " + e.Reason }

const magic = 'G' | 'G'<<8 | 'U'<<16 | 'F'<<24

// What a header may hold; more is a damaged file, not a bigger model. The
// largest vocabularies take about 20 MiB of header.
const (
	maxHeader  = 256 << 20 // bytes read
	maxKept    = 32 << 20  // bytes of names and values kept
	maxKeys    = 1 << 16
	maxTensors = 1 << 16
	maxName    = 1 << 10 // bytes of a key or a tensor's name; ggml allows tensors 63
	maxText    = 1 << 20 // bytes of a text that is kept; a chat template has some ten thousand
	maxNumbers = 1 << 12 // elements of an array that is kept: one for each block
	maxShape   = 4       // dimensions of a tensor; GGML_MAX_DIMS
)

// Read reads the header of the file at path, which must be a regular file.
func Read(path string) (*Header, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe must not hold us up
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: ErrNotGGUF}
	}
	h, err := Parse(file)
	if err != nil {
		return nil, err
	}
	h.Size = info.Size()
	return h, nil
}

// Parse reads a header from the start of r. Header.Size is left 0.
func Parse(r io.Reader) (*Header, error) {
	d := &decoder{r: bufio.NewReaderSize(io.LimitReader(r, maxHeader), 1<<16)}
	if d.u32() != magic {
		return nil, d.instead(ErrNotGGUF)
	}
	if version := d.u32(); version < 2 || version > 3 { // other byte orders show here too
		return nil, d.instead(ErrNotGGUF)
	}
	tensors, keys := d.u64(), d.u64()
	if tensors > maxTensors || keys > maxKeys {
		return nil, &DamagedError{fmt.Sprintf("%d tensors and %d keys", tensors, keys)}
	}
	h := &Header{numbers: map[string]int64{}, texts: map[string]string{}, lists: map[string]list{}}
	for i := uint64(0); i < keys && d.err == nil; i++ {
		d.pair(h)
	}
	for i := uint64(0); i < tensors && d.err == nil; i++ {
		h.Tensors = append(h.Tensors, d.tensor())
	}
	if d.err != nil {
		return nil, d.err
	}
	if err := h.measure(d.read); err != nil {
		return nil, err
	}
	return h, nil
}

// decoder reads little-endian values and keeps the first error; after one
// every value is zero and nothing more is read.
type decoder struct {
	r    *bufio.Reader
	read int64 // bytes so far
	kept int   // bytes kept so far
	word [8]byte
	err  error
}

// damaged keeps the first fault.
func (d *decoder) damaged(format string, args ...any) {
	if d.err == nil {
		d.err = &DamagedError{fmt.Sprintf(format, args...)}
	}
}

// instead is err, unless the file could not be read.
func (d *decoder) instead(err error) error {
	if _, damaged := errors.AsType[*DamagedError](d.err); d.err != nil && !damaged {
		return d.err
	}
	return err
}

// failed keeps an error of reading: an end is a fault of the file.
func (d *decoder) failed(err error) {
	switch {
	case err == nil || d.err != nil:
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		d.damaged("it ends after %d bytes, or does not end", d.read)
	default:
		d.err = fmt.Errorf("read GGUF header: %w", err)
	}
}

// fill reads as many bytes as b has.
func (d *decoder) fill(b []byte) {
	if d.err != nil {
		return
	}
	got, err := io.ReadFull(d.r, b)
	d.read += int64(got)
	d.failed(err)
}

func (d *decoder) skip(n uint64) {
	if d.err != nil {
		return
	}
	if n > maxHeader {
		d.damaged("a value of %d bytes", n)
		return
	}
	got, err := d.r.Discard(int(n))
	d.read += int64(got)
	d.failed(err)
}

func (d *decoder) u32() uint32 { return uint32(d.whole(4)) }

func (d *decoder) u64() uint64 { return d.whole(8) }

// whole reads a number of at most eight bytes.
func (d *decoder) whole(size int) uint64 {
	d.word = [8]byte{}
	d.fill(d.word[:size])
	if d.err != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(d.word[:])
}

// name reads a key or a tensor's name.
func (d *decoder) name() string {
	n := d.u64()
	if n > maxName {
		d.damaged("a name of %d bytes", n)
		return ""
	}
	return d.keep(int(n))
}

// keep reads n bytes into the budget of what is kept.
func (d *decoder) keep(n int) string {
	const overhead = 64 // of a map entry or a slice element, about
	if d.kept += n + overhead; d.kept > maxKept {
		d.damaged("more than %d bytes of names and values", maxKept)
	}
	if d.err != nil {
		return ""
	}
	b := make([]byte, n)
	d.fill(b)
	return string(b)
}
