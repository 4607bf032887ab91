package indexer

import (
	"context"
	"fmt"
	"time"

	"github.com/ondol-app/ondol/internal/document"
)

// Store is where the index lives. Every method is one transaction; a method
// given a document or folder that is gone returns document.ErrNotFound.
type Store interface {
	// AddFolder records a root. It refuses one that is known or overlaps one.
	AddFolder(ctx context.Context, path string) (document.Folder, error)
	// RemoveFolder removes a root and everything indexed below it.
	RemoveFolder(ctx context.Context, id document.FolderID) error
	Folders(ctx context.Context) ([]document.Folder, error)
	// SetFolderState records how a root fares; a zero lastScan keeps the old one.
	SetFolderState(ctx context.Context, id document.FolderID, state document.FolderState, reason string, lastScan time.Time) error

	// Files returns every document of a folder by its path.
	Files(ctx context.Context, id document.FolderID) (map[string]document.Known, error)
	// Lookup returns those at or below any of paths, and those whose file id is one of fileIDs.
	Lookup(ctx context.Context, id document.FolderID, paths, fileIDs []string) (map[string]document.Known, error)
	// ApplyScan records what a scan decided.
	ApplyScan(ctx context.Context, id document.FolderID, changes document.Changes) error

	// PendingText returns documents of a folder to be read: found, then failed
	// ones due for another try. PendingVectors returns those whose vectors are missing.
	PendingText(ctx context.Context, id document.FolderID, now time.Time, limit int) ([]document.Work, error)
	PendingVectors(ctx context.Context, id document.FolderID, limit int) ([]document.Work, error)
	// Work returns single documents; those that are gone are left out.
	Work(ctx context.Context, ids ...document.ID) ([]document.Work, error)

	// SaveText replaces the text of a document. The state it returns is
	// indexed when every chunk has a vector of text.Fingerprint, else embedding.
	SaveText(ctx context.Context, id document.ID, text document.Text) (document.State, error)
	// Settle makes an embedding document indexed when it misses no vector of fingerprint.
	Settle(ctx context.Context, id document.ID, fingerprint string) (document.State, error)
	// Touch records that the bytes of file are those whose text is stored, and settles.
	Touch(ctx context.Context, id document.ID, fingerprint string, file document.File) (document.State, error)
	SaveSkipped(ctx context.Context, id document.ID, reason document.Reason, file document.File) error
	SaveFailed(ctx context.Context, id document.ID, reason document.Reason, detail string, retryAt time.Time) error
	// MissingVectors returns the chunks of a document without a vector of fingerprint.
	MissingVectors(ctx context.Context, id document.ID, fingerprint string) ([]document.Chunk, error)
	// SaveVectors stores vectors by the hash of what was embedded; the document
	// is indexed when none is missing.
	SaveVectors(ctx context.Context, id document.ID, fingerprint string, dim int, vectors map[document.Hash][]float32) (document.State, error)
	// Serve takes the vectors of maker into service: queries are embedded to
	// them from now on. Documents without all of them become embedding, their
	// number is returned; those with all of them indexed.
	Serve(ctx context.Context, maker document.Maker) (g document.Generation, embedding int64, err error)
	// Feed opens the generation of an engine beside the one in service.
	Feed(ctx context.Context, maker document.Maker) (document.Generation, error)
	// Finish makes a generation ready, or the one in service active, when it is
	// whole; beside that it may lack as many texts as were refused.
	Finish(ctx context.Context, fingerprint string, inService bool, refused int64) (document.Generation, error)
	// Backlog returns texts without a vector of fingerprint, by number, those after it.
	Backlog(ctx context.Context, fingerprint string, after int64, limit int) ([]document.Lacking, error)
	// AddVectors stores vectors that the state of no document hangs on.
	AddVectors(ctx context.Context, fingerprint string, dim int, vectors map[document.Hash][]float32) error
	Generations(ctx context.Context) ([]document.Generation, error)
	// Collect removes at most limit vectors of a generation that is not in use
	// and has not been for keep; more means that it may have left some.
	Collect(ctx context.Context, keep time.Duration, inUse []string, limit int) (more bool, err error)

	// Retry makes failed and skipped documents found again.
	Retry(ctx context.Context, ids ...document.ID) error
}

// Embedder is the background lane to an engine. A *vector.InvalidError or a
// *RefusedError is about the texts; every other error means that the engine
// cannot be had now and the same texts are worth another try.
type Embedder interface {
	// Embed returns one vector for each text and the fingerprint of their kind.
	Embed(ctx context.Context, texts []string) (vectors [][]float32, fingerprint string, err error)
	// CountTokens returns the tokens the engine would see for each text.
	CountTokens(ctx context.Context, texts []string) ([]int, error)
	// Maker is the kind of vector that Embed would give now.
	Maker() (document.Maker, error)
}

// RefusedError is how an Embedder says that the engine will never take a text.
type RefusedError struct {
	Index  int // of the text
	Reason document.Reason
	Err    error
}

func (e *RefusedError) Error() string { return fmt.Sprintf("input %d refused: %v", e.Index, e.Err) }

func (e *RefusedError) Unwrap() error { return e.Err }
