package download

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrBusy says that the target is being downloaded already.
	ErrBusy = errors.New("this file is being downloaded already")
	// ErrStalled says that a server sent nothing for Config.Idle.
	ErrStalled = errors.New("the server sent nothing for too long")
	// ErrCut says that a reply ended before the file did.
	ErrCut = errors.New("the connection was cut")
	// ErrLied says that a reply did not hold what its head promised, or not what was asked for.
	ErrLied = errors.New("the server answered another range than was asked for")
	// ErrChanged says that the server's file is not the one that was begun.
	ErrChanged = errors.New("the file changed on the server")
	// ErrNoSize says that neither the request nor the server knows the size, or
	// that the file is empty.
	ErrNoSize = errors.New("the server does not tell the size of the file")
	// ErrNoHash refuses a file whose SHA-256 nobody knows, unless Request.Unverified.
	ErrNoHash = errors.New("no SHA-256 is known for this file")
	// ErrRedirect refuses a redirect: to http from https, to another scheme, or too many.
	ErrRedirect = errors.New("the redirect is refused")
)

// HashError says that the whole file has another SHA-256 than asked for. The
// partial file is gone.
type HashError struct{ Want, Got string } // lower-case hex

func (e *HashError) Error() string {
	return fmt.Sprintf("the file has SHA-256 %s, not %s", e.Got, e.Want)
}

// SizeError says that the server's file has another size than asked for, bytes.
type SizeError struct{ Want, Got int64 }

func (e *SizeError) Error() string {
	return fmt.Sprintf("the server's file has %d bytes, not %d", e.Got, e.Want)
}

// SpaceError says that the disk is too small for what is still missing.
type SpaceError struct {
	Dir  string
	Need int64 // bytes, with the room kept for others
	Free int64 // bytes; what is there now
	Err  error // of the write that failed; nil = found out before
}

func (e *SpaceError) Error() string {
	text := fmt.Sprintf("%d bytes are needed in %s, %d are free", e.Need, e.Dir, e.Free)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *SpaceError) Unwrap() error { return e.Err }

// ExistsError says that another file has the target's name. It is left alone.
type ExistsError struct{ Path string }

func (e *ExistsError) Error() string { return e.Path + " exists and is another file" }

// StatusError is an answer that is no file.
type StatusError struct {
	Status int
	Origin bool          // of the host asked first, not of one it led to
	After  time.Duration // Retry-After; 0 = none
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the server answered with status %d", e.Status)
}

// GaveUpError says that a number of tries in a row brought nothing. The
// partial file stays.
type GaveUpError struct {
	Tries int
	Err   error // of the last one
}

func (e *GaveUpError) Error() string {
	return fmt.Sprintf("%d tries brought nothing: %v", e.Tries, e.Err)
}

func (e *GaveUpError) Unwrap() error { return e.Err }

// passing is an error that the next try may not meet.
type passing struct{ err error }

func (e *passing) Error() string { return e.err.Error() }

func (e *passing) Unwrap() error { return e.err }
