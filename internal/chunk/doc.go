// Package chunk cuts a document's text into the passages that are embedded
// and found: by headings, paragraphs and code blocks, by declarations in
// source code, and only where a piece is too long by sentences, words and at
// last grapheme clusters.
//
// It is a policy: pure, no I/O, no goroutine. Tokens are counted through a
// function handed in, because only the engine knows its tokenizer; a document
// takes two calls as a rule, one when it is small.
//
// Guaranteed for every text, and checked by a fuzz test: passages are in
// order, do not overlap, and leave out nothing but white space;
// text[Start:End] is Text; no cut falls inside a grapheme cluster; no passage
// has more than Size.Max tokens or Size.MaxBytes bytes unless it is a single
// grapheme cluster.
package chunk
