package control

import (
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/canary"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/engines"
	"github.com/ondol-app/ondol/internal/gpu"
	"github.com/ondol-app/ondol/internal/indexer"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/settings"
	"github.com/ondol-app/ondol/internal/trust"
	"github.com/ondol-app/ondol/internal/yielding"
)

// Status is the reply to GET status: one snapshot of everything. What events
// up to Seq tell of is in it; it may hold some of what later ones tell of.
type Status struct {
	Seq       uint64               `json:"seq"`        // of the last event
	OldestSeq uint64               `json:"oldest_seq"` // of the oldest event that is kept; Seq+1 when none is
	Version   string               `json:"version"`
	Endpoint  string               `json:"endpoint"` // base URL for clients, with /v1
	Engine    llamaserver.Status   `json:"engine"`
	Admission admission.Stats      `json:"admission"`
	Validity  Validity             `json:"validity"`
	Cache     embedding.CacheStats `json:"cache"`
	GPU       gpu.Status           `json:"gpu"`
	Index     IndexStatus          `json:"index"`
	Roles     []RoleStatus         `json:"roles"`    // never null
	Capacity  []settings.Check     `json:"capacity"` // the chain of the settings; never null
	Problems  []Problem            `json:"problems"` // never null
}

// Validity tells how far vectors are to be believed: what was refused since
// the app started, and what the last check of the engine found.
type Validity struct {
	Checked     int64      `json:"checked"`                // vectors found valid
	Rejected    int64      `json:"rejected"`               // replies found invalid
	LastAt      *time.Time `json:"last_at,omitempty"`      // nil when none was
	LastReasons []string   `json:"last_reasons,omitempty"` // of the last refused reply
	Quarantined int        `json:"quarantined"`            // texts that the present engine is not given

	Canary     *canary.Result          `json:"canary,omitempty"`        // the last check; nil before the first
	OneAtATime *llamaserver.OneAtATime `json:"one_at_a_time,omitempty"` // why texts are computed one at a time; nil = they are not
}

// Quarantine is the reply to GET engine/quarantine.
type Quarantine struct {
	Quarantined []trust.Quarantined `json:"quarantined"` // newest first, of every fingerprint; never null
}

// Lifted is the reply to DELETE engine/quarantine.
type Lifted struct {
	Lifted int `json:"lifted"` // entries
}

// Report is the reply to GET engine/report: all that is known of an engine in
// trouble, and no text of anybody.
type Report struct {
	At          time.Time           `json:"at"`
	Version     string              `json:"version"`
	System      string              `json:"system"` // operating system and architecture
	Engine      llamaserver.Status  `json:"engine"`
	Validity    Validity            `json:"validity"`
	Admission   admission.Stats     `json:"admission"`
	Quarantined []trust.Quarantined `json:"quarantined"` // never null
	Evidence    []trust.Evidence    `json:"evidence"`    // newest first; never null
}

// IndexStatus is the ledger over all folders, and the work done since the app started.
type IndexStatus struct {
	Counts   document.Counts `json:"counts"`
	Folders  int             `json:"folders"`
	LastScan *time.Time      `json:"last_scan,omitempty"` // end of the latest complete scan of any folder
	Counters
	Yielding    *yielding.State      `json:"yielding,omitempty"` // why making vectors waits; absent when it does not
	Generations []indexer.Generation `json:"generations"`        // of vectors, oldest first; never null
}

// Counters is what the indexer did since the app started.
type Counters struct {
	EmbeddedChunks int64 `json:"embedded_chunks"` // passages the engine embedded
	ReusedChunks   int64 `json:"reused_chunks"`   // passages whose vector was there already
}

// Severity says how much a problem matters.
type Severity string

const (
	SeverityWarning Severity = "warning" // something is missing, the rest works
	SeverityError   Severity = "error"   // a part does not work
)

// String returns the severity as it stands in JSON.
func (s Severity) String() string { return string(s) }

// Problem is one thing that is wrong now. Codes and arguments, never
// sentences: the words live in assets/locales. A problem that is over is absent.
type Problem struct {
	Code     string            `json:"code"`
	Severity Severity          `json:"severity"`
	Args     map[string]string `json:"args,omitempty"`
	Since    *time.Time        `json:"since,omitempty"` // nil when not known
}

// Folders is the reply to GET folders.
type Folders struct {
	Folders []document.Folder `json:"folders"` // never null
}

// AddFolder is the body of POST folders.
type AddFolder struct {
	Path string `json:"path"` // absolute
}

// Document is a document with the root that its path is relative to.
type Document struct {
	document.Document
	Folder string `json:"folder"` // absolute path of the watched folder
}

// Reading is the reply to GET documents/{id} where a range of text is asked for.
type Reading struct {
	Document
	Text  document.Stretch `json:"text"`
	Stale bool             `json:"stale"` // the file is gone or changed since its text was read
}

// Bounds of the text in a Reading, in bytes.
const (
	DefaultText = 64 << 10
	MaxText     = 1 << 20
)

// Documents is one page of GET documents, in order of id.
type Documents struct {
	Documents []Document `json:"documents"` // never null
	Next      string     `json:"next"`      // cursor of the next page; empty on the last one
}

// DocumentsQuery chooses documents; its fields are query parameters.
type DocumentsQuery struct {
	State  document.State    // empty = all
	Folder document.FolderID // 0 = all
	Path   string            // a folder, a file or a pattern, absolute or below any folder; empty = all
	File   string            // what lies at exactly this path; empty = all
	Kinds  []document.Kind   // any of these; empty = all
	Cursor string            // Documents.Next of the page before; empty = the first page
	Limit  int               // 1 … MaxLimit; 0 = DefaultLimit
}

// Page sizes of GET documents.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// Error is the error of every route, as it travels and as Client returns it.
type Error struct {
	Status  int    `json:"-"`       // of HTTP
	Code    string `json:"code"`    // programs branch on it
	Message string `json:"message"` // what is wrong, in English
	Remedy  string `json:"remedy"`  // what helps; may be empty

	// Args are the placeholders of the code's sentence in assets/locales.
	// Where there are none, Message is all that is known.
	Args map[string]string `json:"args,omitempty"`

	Findings []engines.Finding  `json:"findings,omitempty"` // of a candidate's checks, those against it
	Problems []settings.Problem `json:"problems,omitempty"` // of settings that were refused
}

// Error returns the message with its remedy.
func (e *Error) Error() string {
	if e.Remedy == "" {
		return e.Message
	}
	return e.Message + "; " + e.Remedy
}

// Codes of Error.
const (
	CodeBadRequest        = "bad_request"
	CodeUnknownField      = "unknown_field"
	CodeUnknownParameter  = "unknown_parameter"
	CodeInvalidValue      = "invalid_value"
	CodeNotFound          = "not_found"
	CodeUnknownRoute      = "unknown_route"
	CodeMethodNotAllowed  = "method_not_allowed"
	CodeUnsupportedMedia  = "unsupported_media_type"
	CodeTooLarge          = "request_too_large"
	CodeOutside           = "outside_folders"
	CodeFolderExists      = "folder_exists"
	CodeFolderOverlaps    = "folder_overlaps"
	CodeFolderRefused     = "folder_refused"
	CodeNotAFolder        = "not_a_folder"
	CodeLinkLoop          = "link_loop"
	CodePathNotFound      = "path_not_found"
	CodePermissionDenied  = "permission_denied"
	CodeQueueFull         = "queue_full"
	CodeQueueTimeout      = "queue_timeout"
	CodeEngineUnavailable = "engine_unavailable"
	CodeInvalidVector     = "invalid_vector"
	CodeTooManyStreams    = "too_many_streams"
	CodeSettingsRefused   = "settings_refused" // Problems has what is wrong
	CodeStopping          = "stopping"
	CodeInternal          = "internal_error"
)

// errorBody is the envelope.
type errorBody struct {
	Error *Error `json:"error"`
}
