package document

import "time"

// ID names a document in the database; 0 is no document. It survives a rename.
type ID int64

// State is where a document stands on its way into the index.
type State string

const (
	// Found means a scan saw the file (new or changed) and it waits to be read.
	// The text of an earlier version, if any, stays searchable until then.
	Found State = "found"
	// Embedding means the text is searchable by word and vectors are still missing.
	Embedding State = "embedding"
	// Indexed means searchable by word and by meaning now.
	Indexed State = "indexed"
	// Skipped means the file is left out on purpose; Document.Reason says why.
	Skipped State = "skipped"
	// Failed means reading or embedding went wrong; Document.RetryAt says when it is tried again.
	Failed State = "failed"
)

// String returns the state as it stands in the database and in JSON.
func (s State) String() string { return string(s) }

// Pending reports whether work on the document is still to be done.
func (s State) Pending() bool { return s == Found || s == Embedding }

// Reason is why a document is skipped or failed. Codes, never sentences:
// the words live in assets/locales.
type Reason string

const (
	ReasonBinary        Reason = "binary"            // content is not text
	ReasonEmpty         Reason = "empty"             // no text in it
	ReasonTooLarge      Reason = "too_large"         // over the size limit
	ReasonEncoding      Reason = "unknown_encoding"  // text in a character set that is not recognised
	ReasonUnsupported   Reason = "unsupported"       // a format that is not read yet
	ReasonPrivateKey    Reason = "private_key"       // a key that opens something; nobody may find it by searching
	ReasonUnreadable    Reason = "unreadable"        // open or read failed
	ReasonDenied        Reason = "permission_denied" // the system refuses to open it
	ReasonChanging      Reason = "changing"          // it changed while it was read
	ReasonInvalidVector Reason = "invalid_vector"    // the engine gave no valid vector for it
	ReasonTooLong       Reason = "context_exceeded"  // a piece does not fit the engine's context
	ReasonInternal      Reason = "internal"          // a defect of ours; the log has more
)

// Kind is a coarse class of document, used by filters and by the chunker.
type Kind string

const (
	KindText     Kind = "text"
	KindMarkdown Kind = "markdown"
	KindCode     Kind = "code"
)

// Kinds lists all kinds, in the order in which they are shown.
func Kinds() []Kind { return []Kind{KindText, KindMarkdown, KindCode} }

// Document is one file and its place in the index.
type Document struct {
	ID       ID        `json:"id"`
	FolderID FolderID  `json:"folder_id"`
	Path     string    `json:"path"` // relative to the folder, slash separated, bytes as the system gave them
	Title    string    `json:"title,omitempty"`
	Kind     Kind      `json:"kind,omitempty"`
	Language string    `json:"language,omitempty"` // programming language, for code
	Size     int64     `json:"size"`               // bytes
	Modified time.Time `json:"modified"`
	State    State     `json:"state"`
	Reason   Reason    `json:"reason,omitempty"`
	Detail   string    `json:"detail,omitempty"` // the error behind Reason
	Tries    int       `json:"tries,omitempty"`  // failed attempts in a row
	RetryAt  time.Time `json:"retry_at,omitzero"`
	Chunks   int       `json:"chunks"`
}

// File is what a scan learns about a file without opening it.
type File struct {
	Path     string // relative to the folder, slash separated, bytes as the system gave them
	FileID   string // volume and inode; stays the same when the file is renamed
	Size     int64  // bytes
	Modified time.Time
}

// SameContent reports whether two looks at a file show no sign of a change:
// same size, same modification time, same file id.
func (f File) SameContent(o File) bool {
	return f.Size == o.Size && f.FileID == o.FileID && f.Modified.Equal(o.Modified)
}
