package remote

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ondol-app/ondol/internal/upstream"
	"github.com/ondol-app/ondol/internal/vector"
)

// State is where a remote engine stands.
type State string

const (
	Stopped     State = "stopped"     // Run has not begun, or has ended
	Checking    State = "checking"    // being probed
	Ready       State = "ready"       // it answered the probe
	Unreachable State = "unreachable" // it does not answer; tried again at Status.RetryAt
	Refused     State = "refused"     // it answers, but not as needed; tried again all the same
)

func (s State) String() string { return string(s) }

// Code names why an engine is not usable; sentences are made from it elsewhere.
type Code string

const (
	CodeUnreachable  Code = "unreachable"    // no connection, or it broke
	CodeTimeout      Code = "timeout"        // no answer in time
	CodeKey          Code = "key_missing"    // the keychain gave none
	CodeUnauthorized Code = "unauthorized"   // it does not accept the key
	CodeModel        Code = "model_missing"  // it does not have the model
	CodeInvalid      Code = "probe_invalid"  // its vectors or scores are not valid
	CodeRedirect     Code = "redirected"     // it lives elsewhere
	CodeAnswer       Code = "refused_answer" // any other answer that is no success
)

// Problem is why the engine is, or was, not usable.
type Problem struct {
	Code    Code      `json:"code"`
	Message string    `json:"message"` // English, one line, names the remedy where there is one
	At      time.Time `json:"at"`
}

func (p *Problem) Error() string { return string(p.Code) + ": " + p.Message }

// Status is the engine at one moment. It is a value; nothing in it is shared.
type Status struct {
	State       State      `json:"state"`
	Since       time.Time  `json:"since"`
	Generation  uint64     `json:"generation"` // counts the times it was found good
	Kind        Kind       `json:"kind"`
	URL         string     `json:"url"`     // without credentials: there are none in it
	Outside     bool       `json:"outside"` // texts leave this machine
	Plain       bool       `json:"plain"`   // and do so unencrypted
	Model       string     `json:"model"`
	Dimension   int        `json:"dimension,omitempty"`
	Digest      string     `json:"digest,omitempty"` // of the model, where the remote tells it
	Fingerprint string     `json:"fingerprint,omitempty"`
	LastError   *Problem   `json:"last_error,omitempty"` // stays after a recovery
	RetryAt     *time.Time `json:"retry_at,omitempty"`
}

// Instance is the engine as it was found good once. Its Client fails when the
// engine is gone.
type Instance struct {
	Generation   uint64
	Client       *Client
	Model        string
	Dim          int    // components of a vector; 0 = this role makes none
	Unnormalized bool   // vectors need not have norm 1
	Fingerprint  string // vectors are compared only within one fingerprint
}

// errKey says that the keychain has no key to send.
var errKey = errors.New("no key for this engine")

// errModel says that the engine lists models and ours is not among them.
var errModel = errors.New("the model is not there")

// problemOf tells why a probe failed. Its message holds no key: none of these
// errors is made from a request.
func problemOf(err error, now time.Time) (State, *Problem) {
	p := &Problem{Message: err.Error(), At: now}
	var invalid *vector.InvalidError
	var status *upstream.StatusError
	state := Refused
	switch {
	case errors.Is(err, errKey):
		p.Code = CodeKey
	case errors.Is(err, errModel):
		p.Code = CodeModel
	case errors.As(err, &invalid), errors.Is(err, errNonsense):
		p.Code = CodeInvalid
	case errors.As(err, &status):
		p.Code = codeOf(status.Code)
		if p.Code == CodeUnreachable {
			state = Unreachable
		}
		if p.Code == CodeUnauthorized {
			p.Message += "; put the right key into the keychain"
		}
	case errors.Is(err, upstream.ErrRead), errors.Is(err, upstream.ErrWrite), errors.Is(err, errProbeTime):
		state, p.Code = Unreachable, CodeTimeout
	default:
		state, p.Code = Unreachable, CodeUnreachable
	}
	return state, p
}

func codeOf(status int) Code {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return CodeUnauthorized
	case status == http.StatusNotFound:
		return CodeModel
	case status >= 300 && status < 400:
		return CodeRedirect
	case status == http.StatusTooManyRequests || status >= 500 && status != http.StatusNotImplemented:
		return CodeUnreachable
	}
	return CodeAnswer
}

// NotReadyError says that there is no engine to ask just now.
type NotReadyError struct {
	State      State
	RetryAfter time.Duration // estimate, at least a second
}

func (e *NotReadyError) Error() string {
	return fmt.Sprintf("the remote engine is %s; try again in %v", e.State, e.RetryAfter.Round(time.Second))
}
