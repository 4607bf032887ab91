// Package indexer keeps the watched folders searchable: it compares them with
// the index, reads what changed, and has it embedded.
//
//	watcher ─hints─► actor (one a folder) ─ApplyScan─► store
//	                                                    │ found
//	                      readers ◄─────────────────────┤
//	                      extract, chunk ──SaveText────►│ embedding
//	                      embedder ◄────────────────────┤
//	                      background lane ─SaveVectors─►│ indexed
//
// The store is the queue and the only truth: a process that dies at any moment
// goes on where the last transaction ended. Only app and control import the
// package; it declares the store and the engine it needs as interfaces.
//
// It guarantees that no file is ever written or opened for writing, that
// nothing is deleted from the index because a root or a directory cannot be
// read, that a rename embeds nothing, and that a document which a scan found
// changed is never left standing with the text of before. design.md beside the
// code has the reasons.
package indexer
