package app

import (
	"errors"
	"strconv"
	"syscall"

	"github.com/ondol-app/ondol/app/cli"
	"github.com/ondol-app/ondol/internal/sqlite"
)

// startError gives what most often keeps the app from starting a code, so that
// its owner reads the remedy in his language. Anything else stays as it is.
func startError(err error) error {
	if e, ok := errors.AsType[*sqlite.CorruptError](err); ok {
		return &cli.StartError{Code: "index_damaged", Args: map[string]string{"path": e.Path}, Err: err}
	}
	if e, ok := errors.AsType[*sqlite.NewerError](err); ok {
		return &cli.StartError{Code: "index_newer", Args: map[string]string{
			"path": e.Path, "have": strconv.Itoa(e.Have), "known": strconv.Itoa(e.Known),
		}, Err: err}
	}
	return err
}

// listenError is startError for the endpoint's address.
func listenError(err error, address string) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return &cli.StartError{Code: "port_taken", Args: map[string]string{"address": address}, Err: err}
	case errors.Is(err, syscall.EACCES):
		return &cli.StartError{Code: "port_denied", Args: map[string]string{"address": address}, Err: err}
	}
	return err
}
