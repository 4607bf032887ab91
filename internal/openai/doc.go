// Package openai holds the OpenAI dialect as it travels over HTTP: the
// embeddings and the rerank request and reply, the model list and the error
// envelope.
//
// Any package may import it; it imports nothing of ours, does no I/O and
// starts no goroutine. The parser accepts what real clients send (unknown
// fields, null for absent) and refuses what would be answered wrongly
// (token ids, duplicated fields, invalid UTF-8), always with an *Error whose
// message names the field and the remedy. The encoder writes the same bytes
// encoding/json would write for the same float32 values, without reflection
// and, for components of a normalised vector, with a writer of its own.
package openai
