// Package canary finds out whether an engine still computes what it should: it
// embeds a few fixed texts, alone and together, and compares the vectors with
// a reference and with each other.
//
// It imports nouns only and is imported by the supervisor of an engine and by
// what asks for a check. It starts goroutines only for the two calls that are
// to be made at once, and returns after them; the clock tells how long a run
// took and decides nothing.
//
// The texts are chosen by what went wrong elsewhere: a text that begins with
// the token "import" overflows half precision in one block of Qwen3-Embedding
// on Metal, and ggml hands matrices of 32 tokens and more back to the GPU, so
// 31 and 33 tokens take different ways. A model that knows none of a text's
// words answers with one constant vector, which is valid.
package canary
