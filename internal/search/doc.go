// Package search answers questions over the index: it reads the query, asks
// for passages by word and by meaning, fuses the two lists, decides whether
// there is evidence at all, and shows the best passage of each document.
//
// The surfaces (control, later mcpserver and the vector-store routes) import
// it. It declares the store and the embedder it needs; it starts one
// goroutine a search, for the query's vector, which never outlives the
// embedder's own deadline.
//
// What it promises:
//
//   - Words are joined by OR. Standing all together, or side by side, lifts a
//     passage; only what the reader put in quotation marks is required.
//   - A weak model cannot bury a good word match: how far the vector list is
//     trusted is a property of the model ([Trust]), and where the words of a
//     query are well covered the words decide.
//   - Scores are never stretched per query. Nonsense scores low and is reported
//     as no evidence, with the near misses apart. Meaning is evidence by how far
//     a document stands out of this query's background in this index.
//   - Filters hold before the best passages are chosen.
//   - Every result is looked at on disk: what is gone is dropped and counted,
//     what has changed since is marked.
//   - A busy or absent engine costs the meaning, not the answer: after a bounded
//     wait the words alone are returned, and the reply says so.
//
// The formulas, with the figures they were chosen by, are in design.md beside
// this file.
package search
