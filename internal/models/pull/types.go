package pull

import (
	"errors"
	"fmt"
	"time"

	"github.com/ondol-app/ondol/internal/event"
)

// State is where a pull stands.
type State string

// The states.
const (
	Queued      State = "queued"
	Downloading State = "downloading"
	Verifying   State = "verifying"
	Paused      State = "paused"
	Done        State = "done"
	Failed      State = "failed"
)

// String returns the state as it stands in JSON.
func (s State) String() string { return string(s) }

// Ended reports a state that changes only when somebody asks for it.
func (s State) Ended() bool { return s == Paused || s == Done || s == Failed }

// Reason is why a pull failed.
type Reason string

// The reasons. Pull.Args has the figures of some.
const (
	ReasonNetwork  Reason = "network"        // detail; what came stays
	ReasonDisk     Reason = "disk_full"      // need, free (bytes), folder; what came stays
	ReasonHash     Reason = "hash_mismatch"  // want, got
	ReasonSize     Reason = "size_mismatch"  // want, got (bytes)
	ReasonNotFound Reason = "not_found"      // repo
	ReasonAccess   Reason = "access_denied"  // repo, page
	ReasonNotGGUF  Reason = "not_gguf"       // the file was thrown away
	ReasonExists   Reason = "file_exists"    // path
	ReasonRefused  Reason = "server_refused" // detail
	ReasonInternal Reason = "internal"       // detail
)

// String returns the reason as it stands in JSON.
func (r Reason) String() string { return string(r) }

// Kinds of events. Args: model; of done also size (bytes), of failed also reason.
const (
	KindStarted event.Kind = "model.pull_started"
	KindPaused  event.Kind = "model.pull_paused"
	KindDone    event.Kind = "model.pull_done"
	KindFailed  event.Kind = "model.pull_failed"
)

// Who a SHA-256 is from.
const (
	FromCatalogue = "catalogue"
	FromHub       = "hub"
	FromNobody    = "nobody" // the person took the file without one
)

// Pull is one download and what became of it.
type Pull struct {
	ID     int64             `json:"id"`
	Model  string            `json:"model"` // a name of the catalogue, or hf:OWNER/REPO:FILE
	State  State             `json:"state"`
	Reason Reason            `json:"reason,omitempty"` // of failed
	Args   map[string]string `json:"args,omitempty"`   // of the reason
	Path   string            `json:"path"`             // where the model is, or will be

	Done  int64   `json:"done"`            // bytes; while verifying, those verified
	Total int64   `json:"total"`           // bytes; 0 = not known yet
	Rate  float64 `json:"rate"`            // bytes a second; 0 = not known
	Left  int64   `json:"left"`            // seconds, expected; 0 = not known
	Retry string  `json:"retry,omitempty"` // while it waits for the next try: what the last one met

	Repo     string    `json:"repo"`
	File     string    `json:"file"`
	Revision string    `json:"revision"`
	SHA256   string    `json:"sha256"` // expected; of a done one that of the file
	HashFrom string    `json:"hash_from"`
	Licence  string    `json:"licence"` // the one that was accepted
	Added    time.Time `json:"added"`
	Changed  time.Time `json:"changed"` // of the state
}

// Request asks for a model.
type Request struct {
	Model         string `json:"model"`
	AcceptLicence string `json:"accept_licence,omitempty"` // the licence's id; must be the model's
	Unverified    bool   `json:"unverified,omitempty"`     // take a file nobody knows a SHA-256 of
}

var (
	// ErrNotFound says that there is no pull of that id.
	ErrNotFound = errors.New("no such pull")
	// ErrClosed says that Run has ended.
	ErrClosed = errors.New("pulling models has ended")
)

// LicenceError says that the licence has to be accepted first, and tells all
// that a person needs to decide.
type LicenceError struct {
	Model, Licence, URL, Page string
	Size                      int64  // bytes; 0 = not known
	Given                     string // what was accepted instead; empty = nothing
}

func (e *LicenceError) Error() string {
	return fmt.Sprintf("%s is under %s (%s), which is to be accepted first", e.Model, e.Licence, e.URL)
}

// NoHashError says that nobody knows the file's SHA-256.
type NoHashError struct{ Model, Page string }

func (e *NoHashError) Error() string {
	return fmt.Sprintf("the hub tells no SHA-256 of %s, so nobody could tell a damaged file", e.Model)
}
