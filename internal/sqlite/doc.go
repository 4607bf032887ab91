// Package sqlite keeps the index in one SQLite file: folders, documents, their
// passages, the full-text index over those, and vectors.
//
// Only app wires it; indexer and search reach it through interfaces of their
// own. It is the only package that imports the SQL driver or writes SQL.
//
// VectorCache is a file of its own beside that: vectors that can be computed
// again, bounded, deletable at any time; vectorcache reaches it.
//
// # Guarantees
//
//   - Every method that writes is one transaction: after a crash it is there
//     whole or not at all, the full-text rows included.
//   - Writers wait for each other, in order; readers wait for nobody and see
//     one state from beginning to end of a call.
//   - found = indexed + skipped + failed + pending holds in every answer,
//     because the figures come from one statement.
//   - Vectors belong to texts, not to documents. A text that no document holds
//     any more keeps its vectors for Config.Grace, so that a file that comes
//     back, or moves between scans, is embedded once.
//   - The full-text index is derived. Open checks it and rebuilds it from the
//     passages when it is missing, damaged or of another definition.
//
// # Words
//
// Text and queries are cut by the same FTS5 tokenizer, "porter ondol", written
// in C beside the driver; docs/adr/0001-fts5-tokenizer.md says how and why.
//
// The package needs cgo and the build tag sqlite_fts5. Without cgo it compiles,
// for type checking, and Open returns an error.
package sqlite
