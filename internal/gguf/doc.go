// Package gguf reads the header of a GGUF model file: its key-value pairs and
// the descriptions of its tensors, never the weights.
//
// It is the only reader of the format in the app; llamaserver and models
// import it. A file is somebody else's data: whatever stands in it, Read
// returns a Header or an error (ErrNotGGUF, a *DamagedError, or one of the
// system) after at most 256 MiB of reading and about 32 MiB of memory, and
// never follows a length it has not checked. Of arrays it keeps the length,
// and the numbers where there are few: a vocabulary is counted, not stored.
//
// The format is ggml's docs/gguf.md, versions 2 and 3, little-endian.
package gguf
