package engines

import "errors"

// ErrClosed means that Run has returned.
var ErrClosed = errors.New("the engines' keeper has ended")

// RefusedError says that a wish cannot be had as things are. Nothing has
// changed.
type RefusedError struct {
	Code     string // one of the Code… below
	Message  string // English
	Remedy   string
	Args     map[string]string
	Findings []Finding // of CodeChecks: what speaks against it
}

func (e *RefusedError) Error() string { return e.Message + "; " + e.Remedy }

// Codes of RefusedError.
const (
	CodeBusy       = "candidate_busy"
	CodeNone       = "candidate_none"
	CodeChecks     = "candidate_checks"     // the verdict speaks against it
	CodeMemory     = "candidate_memory"     // memory does not hold two engines
	CodeNoEarlier  = "rollback_none"        // nothing to go back to
	CodeHeld       = "engine_held"          // the live engine is stopped for a trial in place
	CodeImpossible = "candidate_impossible" // no engine can be run so
)

func refused(r refusal, phase Phase) error {
	if r == refusedNone {
		return &RefusedError{Code: CodeNone, Message: "there is no candidate", Remedy: "start one with `ondol engine candidate`",
			Args: map[string]string{"phase": phase.String()}}
	}
	return &RefusedError{Code: CodeBusy, Message: "another engine is " + phase.String() + " just now",
		Remedy: "wait for its end, see `ondol engine candidate status`; `ondol engine candidate stop` ends a candidate", Args: map[string]string{"phase": phase.String()}}
}
