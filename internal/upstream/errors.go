package upstream

import (
	"fmt"
	"time"
)

// StatusError is an HTTP error of the engine.
type StatusError struct {
	Code       int           // HTTP status
	Message    string        // as the engine worded it
	Type       string        // "unavailable_error", "invalid_request_error", …; may be empty
	RetryAfter time.Duration // as the engine asks for; 0 = it does not say
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the engine answered %d: %s", e.Code, e.Message)
}

// ContextError says that an input does not fit the engine. The engine does
// not say which one.
type ContextError struct {
	Tokens int // of the input, special tokens included
	Limit  int // the engine's, per input
}

func (e *ContextError) Error() string {
	return fmt.Sprintf("input of %d tokens exceeds the engine's limit of %d", e.Tokens, e.Limit)
}

// StateLost is the State of an engine that does not answer while whoever looks
// after it believes it ready: it has just gone, or it broke off one exchange.
const StateLost = "lost"

// UnavailableError says that there is no engine to ask; 503 to a client.
type UnavailableError struct {
	State      string        // of the engine: "starting", "failed", StateLost, …
	RetryAfter time.Duration // when it may be back; 0 = not known
	Final      bool          // nothing is about to change that but a person
	Err        error         // what told us; may be nil
}

func (e *UnavailableError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("the engine is not available (%s): %v", e.State, e.Err)
	}
	return fmt.Sprintf("the engine is not available (%s)", e.State)
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// TimeoutError says that the engine did not answer in time; 504 to a client.
type TimeoutError struct {
	After time.Duration // since the permit
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("the engine did not answer within %v", e.After.Round(time.Millisecond))
}
