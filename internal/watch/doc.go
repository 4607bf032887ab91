// Package watch tells which paths below one root may have changed.
//
// Its word is a hint and nothing more: a Batch names paths worth looking at
// again, a scan decides what really happened. A hint may be late, doubled or
// about nothing; what the package guarantees is that no change stays without
// any hint: a lost or impossible notification becomes Batch.Rescan or a path
// that is reported again and again (polling), and State says so.
//
//	root present ──► directories watched ──► first batch: Rescan
//	     ▲                    │  root gone, moved or replaced: Rescan
//	     └── looked for ◄─────┘
//
// Ordering: a directory is watched before it is reported, so whoever scans it
// upon the report misses nothing that was created in between.
//
// Symbolic links are never followed and other file systems mounted below the
// root are not entered. Nothing is ever opened for reading but directories.
//
// The indexer imports it. It imports nothing of Ondol.
package watch
