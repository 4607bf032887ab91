package process

import (
	"bufio"
	"encoding/json"
	"io"
)

// guardArgument as the first argument makes this binary a guard.
const guardArgument = "__guard"

// Descriptors that the guard inherits; both are made close-on-exec there at once.
const (
	lifeFD = 3 // read end: orders from the app, end of file when the app is gone
	infoFD = 4 // write end: reports to the app
)

type orderKind string

const (
	orderStop orderKind = "stop" // SIGTERM, GraceMS, SIGKILL
	orderKill orderKind = "kill" // SIGKILL now
)

// order is one line from the app to its guard.
type order struct {
	Kind    orderKind `json:"kind"`
	GraceMS int64     `json:"grace_ms,omitempty"`
}

// report is one line from the guard to its app: first Started or Error, then Exited.
type report struct {
	Started *Identity   `json:"started,omitempty"`
	Error   string      `json:"error,omitempty"` // the program could not be started
	Exited  *exitReport `json:"exited,omitempty"`
}

type exitReport struct {
	Code   int    `json:"code"`             // -1 when ended by a signal
	Signal string `json:"signal,omitempty"` // "killed", "terminated", …
}

// readLines decodes one JSON value per line until r ends or says something
// that is not JSON, then closes the channel.
func readLines[T any](r io.Reader) <-chan T {
	lines := make(chan T, 4)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(r)
		for scanner.Scan() {
			var v T
			if json.Unmarshal(scanner.Bytes(), &v) != nil {
				return
			}
			lines <- v
		}
	}()
	return lines
}

func writeLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}
