package document

import (
	"errors"
	"fmt"
)

// ErrFolderExists is returned when a folder is added a second time.
var ErrFolderExists = errors.New("folder is already watched")

// ErrNotFound is returned when no folder or document has the given id.
var ErrNotFound = errors.New("not found in the index")

// FolderOverlapError is returned when a folder to be added lies inside a
// watched one or around it: each file belongs to exactly one folder.
type FolderOverlapError struct {
	Path     string // the folder to be added
	Existing string // the watched folder it collides with
	Inside   bool   // Path lies inside Existing; otherwise Existing lies inside Path
}

func (e *FolderOverlapError) Error() string {
	if e.Inside {
		return fmt.Sprintf("%s lies inside %s, which is already watched: the rules of that folder say what of it is searchable", e.Path, e.Existing)
	}
	return fmt.Sprintf("%s contains %s, which is already watched: remove that folder first, its files will not be embedded again", e.Path, e.Existing)
}

// RefusedReason is why a folder may not be watched.
type RefusedReason string

const (
	RefusedOwn    RefusedReason = "own"    // Ondol writes there: indexing it would make more to index, without end
	RefusedSystem RefusedReason = "system" // the system's own files
)

// FolderRefusedError is returned for a folder that must not be watched.
type FolderRefusedError struct {
	Path   string // the folder to be added
	Reason RefusedReason
	Holder string // the protected folder that Path is, or lies in
}

func (e *FolderRefusedError) Error() string {
	why := "belongs to the system"
	if e.Reason == RefusedOwn {
		why = "is where Ondol keeps its own files, and would have to be indexed again each time it was indexed"
	}
	if e.Path != e.Holder {
		return fmt.Sprintf("%s lies inside %s, which %s: %s", e.Path, e.Holder, why, e.Remedy())
	}
	return fmt.Sprintf("%s %s: %s", e.Path, why, e.Remedy())
}

// Remedy is what to do instead.
func (e *FolderRefusedError) Remedy() string { return "choose a folder of documents" }

// Known is what the index remembers of a file, for comparison with a scan.
type Known struct {
	ID    ID
	File  File // as of the scan or the read that was recorded last
	State State
	Hash  Hash // SHA-256 of the raw bytes that were read last; empty when never read
}

// Change pairs a known document with a new look at its file.
type Change struct {
	ID   ID
	File File
}

// Changes is the outcome of one scan. Each document appears at most once.
type Changes struct {
	Found   []File   // files not known yet; they become documents in state Found
	Changed []Change // content may differ; they go back to Found, the old text stays searchable until it is replaced
	Moved   []Change // same content under another path; id, state, chunks and vectors are kept
	Touched []Change // same path, same content; only size, time and file id are recorded
	Gone    []ID     // no longer there; the documents and their text are removed
}

// Empty reports whether there is nothing to apply.
func (c Changes) Empty() bool {
	return len(c.Found)+len(c.Changed)+len(c.Moved)+len(c.Touched)+len(c.Gone) == 0
}

// Text is a document that was read and cut: everything SaveText records in one transaction.
type Text struct {
	Hash        Hash    // SHA-256 of the raw bytes
	Title       string  // NFC; may be empty
	Kind        Kind    // never empty
	Language    string  // programming language, for code
	File        File    // as of the moment of reading; its Path is not used
	Chunks      []Chunk // in reading order, Ordinal 0 … n-1; at least one
	Fingerprint string  // of the vectors that are wanted now; empty when no engine is known yet
}
