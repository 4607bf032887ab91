package vector

import (
	"bytes"
	"crypto/sha256"
	"strings"
	"unsafe"
)

// Key names what a vector was made of. Equal keys mean equal vectors: the
// fingerprint stands for everything else that changes the numbers.
type Key struct {
	Fingerprint string            // of model, engine build, flags and dimension
	Text        [sha256.Size]byte // SHA-256 of the text as the engine gets it
}

// KeyOf is the key of text under fingerprint.
func KeyOf(fingerprint, text string) Key {
	// The bytes are only read, so they are not copied.
	return Key{Fingerprint: fingerprint, Text: sha256.Sum256(unsafe.Slice(unsafe.StringData(text), len(text)))}
}

// Embedding is a valid vector and what its text cost.
type Embedding struct {
	Vector []float32 // shared by all who hold it: never written to
	Tokens int       // of the text, special tokens included

	// Counted says that Tokens is the engine's count of this very text.
	// Otherwise it is the text's share, by its length, of the count of the
	// engine call that made it; the shares of one call add up to that count.
	Counted bool
}

// Compare orders keys by fingerprint, then text.
func (k Key) Compare(other Key) int {
	if c := strings.Compare(k.Fingerprint, other.Fingerprint); c != 0 {
		return c
	}
	return bytes.Compare(k.Text[:], other.Text[:])
}
