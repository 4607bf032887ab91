package sqlite

import (
	"fmt"

	"github.com/ondol-app/ondol/internal/document"
)

// The errors a caller branches on, under this package's name.
var (
	// ErrFolderExists is returned by AddFolder for a folder that is watched already.
	ErrFolderExists = document.ErrFolderExists
	// ErrNotFound is returned where no folder or document has the id.
	ErrNotFound = document.ErrNotFound
)

// CorruptError says that the file is no sound index. Nothing was changed in it.
type CorruptError struct {
	Path string
	Err  error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("the index %s is damaged (%v): move it away, with the files beside it that end in -wal and -shm, and start again; "+
		"a new one is made from your folders, which must be added again", e.Path, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// ForeignError says that the file is a database of another program.
type ForeignError struct {
	Path string
	ID   uint32 // its application_id
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s is a database of another program (application id %#08x): name another file, it was left as it is", e.Path, e.ID)
}

// NewerError says that a later version of Ondol wrote the file.
type NewerError struct {
	Path  string
	Have  int // schema version of the file
	Known int // the newest one this program knows
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("the index %s has schema version %d, this program knows up to %d: update Ondol, or move the file away to start a new index", e.Path, e.Have, e.Known)
}
