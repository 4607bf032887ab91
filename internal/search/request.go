package search

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ondol-app/ondol/internal/document"
)

// Mode says which lists take part.
type Mode string

const (
	Hybrid   Mode = "hybrid"   // words and meaning; the default
	Lexical  Mode = "lexical"  // words alone
	Semantic Mode = "semantic" // meaning alone
)

// Rerank says whether a cross-encoder orders the best results again.
type Rerank string

const (
	RerankAuto Rerank = "auto" // when one is there
	RerankOn   Rerank = "on"   // as auto, and say so when none is there
	RerankOff  Rerank = "off"
)

// Bounds of a request.
const (
	DefaultLimit = 10
	MaxLimit     = 100
	MaxQuery     = 4096 // bytes
)

// Request is one search, as it stands on the wire.
type Request struct {
	Query   string              `json:"query"`
	Limit   int                 `json:"limit,omitempty"` // results; 0 means DefaultLimit
	Mode    Mode                `json:"mode,omitempty"`  // empty means Hybrid
	Folders []document.FolderID `json:"folders,omitempty"`
	Path    string              `json:"path,omitempty"` // directory, file or glob; see document.Filter
	Kinds   []document.Kind     `json:"kinds,omitempty"`
	After   time.Time           `json:"after,omitzero"`   // modified at or after
	Before  time.Time           `json:"before,omitzero"`  // modified before
	Rerank  Rerank              `json:"rerank,omitempty"` // empty means auto
	Explain bool                `json:"explain,omitempty"`
}

// InvalidError says what is wrong with a request and how to put it right.
type InvalidError struct {
	Field   string // as on the wire
	Message string
	Remedy  string
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Message + "; " + e.Remedy }

// check fills the defaults and refuses what cannot be answered.
func (r Request) check() (Request, error) {
	invalid := func(field, remedy, format string, args ...any) (Request, error) {
		return r, &InvalidError{Field: field, Message: fmt.Sprintf(format, args...), Remedy: remedy}
	}
	if r.Mode == "" {
		r.Mode = Hybrid
	}
	if r.Rerank == "" {
		r.Rerank = RerankAuto
	}
	if r.Limit == 0 {
		r.Limit = DefaultLimit
	}
	switch {
	case r.Mode != Hybrid && r.Mode != Lexical && r.Mode != Semantic:
		return invalid("mode", "use hybrid, lexical or semantic", "%q is not a mode", r.Mode)
	case r.Rerank != RerankAuto && r.Rerank != RerankOn && r.Rerank != RerankOff:
		return invalid("rerank", "use auto, on or off", "%q is not a choice", r.Rerank)
	case r.Limit < 0 || r.Limit > MaxLimit:
		return invalid("limit", fmt.Sprintf("use 1 to %d", MaxLimit), "%d is out of range", r.Limit)
	case !utf8.ValidString(r.Query):
		return invalid("query", "send UTF-8", "it is not valid UTF-8")
	case len(r.Query) > MaxQuery:
		return invalid("query", fmt.Sprintf("shorten it to %d bytes", MaxQuery), "%d bytes are too long", len(r.Query))
	case strings.TrimSpace(r.Query) == "":
		return invalid("query", "type a word or a question", "it is empty")
	}
	for _, k := range r.Kinds {
		if !knownKind(k) {
			return invalid("kinds", "use text, markdown or code", "%q is not a kind", k)
		}
	}
	if !r.After.IsZero() && !r.Before.IsZero() && !r.After.Before(r.Before) {
		return invalid("before", "choose a later date", "nothing lies before %s and after %s",
			r.Before.Format(time.DateOnly), r.After.Format(time.DateOnly))
	}
	return r, nil
}

func knownKind(k document.Kind) bool {
	return k == document.KindText || k == document.KindMarkdown || k == document.KindCode
}
