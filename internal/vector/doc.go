// Package vector is the arithmetic and the law of embedding vectors: decoding
// them without turning "not a number" into zero, deciding whether they may be
// believed, cutting and normalising them, and packing them into half floats.
//
// Any package may import it. It is pure: no I/O, no goroutines, no state, and
// nothing of ours beneath it.
//
// What it guarantees: Check is the one place that decides validity, for every
// path (clients, indexing, queries) and for both encodings; a component that
// the engine wrote as null, as a string or as an infinity never becomes a
// finite number on the way through a decoder of this package.
package vector
