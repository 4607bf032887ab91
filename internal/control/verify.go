package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/ondol-app/ondol/internal/trial"
)

// Trials tries the engine and keeps the reports.
type Trials interface {
	// Verify makes a trial, as long as ctx lasts. progress must return at
	// once; it is not called before the trial has begun, nor after Verify has
	// returned.
	Verify(ctx context.Context, options trial.Options, progress func(trial.Progress)) (trial.Report, error)
	// Reports are those that are kept, newest first.
	Reports() ([]trial.Report, error)
}

// VerifyRequest is the body of POST verify.
type VerifyRequest struct {
	Quick      bool  `json:"quick"`
	Distinct   bool  `json:"distinct"`
	DeadlineMS int64 `json:"deadline_ms"` // of each request; 0 = as long as is usual
}

// VerifyLine is one line of the reply to POST verify: any number of progress,
// and at last the report or an error. What is wrong before the first is an
// error reply like any other. Who hangs up ends the trial.
type VerifyLine struct {
	Progress *trial.Progress `json:"progress,omitempty"`
	Report   *trial.Report   `json:"report,omitempty"`
	Error    *Error          `json:"error,omitempty"`
}

// Verifications is the reply to GET verify.
type Verifications struct {
	Reports []trial.Report `json:"reports"` // newest first; never null
}

// Codes of errors of a trial.
const (
	CodeVerifyRunning  = "verify_running"
	CodeVerifyTooShort = "verify_too_short"
)

// stream is a reply of one JSON value a line, sent as they come.
type stream func(send func(value any)) error

func (s *Server) verify(r *http.Request) (any, error) {
	if s.cfg.Trials == nil {
		return nil, noTrials()
	}
	req, err := decode[VerifyRequest](r)
	if err != nil {
		return nil, err
	}
	options := trial.Options{Quick: req.Quick, Distinct: req.Distinct, Deadline: time.Duration(req.DeadlineMS) * time.Millisecond}
	if req.DeadlineMS < 0 || req.DeadlineMS > trial.MaxDeadline.Milliseconds() {
		return nil, invalid("deadline_ms", "is out of range", fmt.Sprintf("send 1 to %d, or 0 for the usual one", trial.MaxDeadline.Milliseconds()))
	}
	return stream(func(send func(any)) error {
		report, err := s.cfg.Trials.Verify(r.Context(), options, func(p trial.Progress) { send(VerifyLine{Progress: &p}) })
		if err != nil {
			return err
		}
		send(VerifyLine{Report: &report})
		return nil
	}), nil
}

func (s *Server) verifications(r *http.Request) (any, error) {
	if s.cfg.Trials == nil {
		return nil, noTrials()
	}
	if _, err := params(r); err != nil {
		return nil, err
	}
	reports, err := s.cfg.Trials.Reports()
	if err != nil {
		return nil, err
	}
	return Verifications{Reports: append([]trial.Report{}, reports...)}, nil
}

func noTrials() error {
	return &Error{Status: http.StatusNotFound, Code: CodeUnknownRoute, Message: "this app makes no trials", Remedy: "none is needed"}
}

// replyStream sends the header with the first value, so that an error before
// it has its status. A value that cannot be written is lost: its reader left,
// which ends the request's context.
func (s *Server) replyStream(w http.ResponseWriter, r *http.Request, run stream) {
	begun := false
	flusher := http.NewResponseController(w)
	encoder := json.NewEncoder(w)
	send := func(value any) {
		if !begun {
			begun = true
			h := w.Header()
			h.Set("Content-Type", "application/x-ndjson")
			h.Set("X-Content-Type-Options", "nosniff")
			h.Set("Cache-Control", "no-store")
		}
		_ = encoder.Encode(value)
		_ = flusher.Flush()
	}
	err := run(send)
	if err == nil {
		return
	}
	if !begun {
		s.fail(w, r, err)
		return
	}
	send(VerifyLine{Error: s.explain(r, err)})
}

// maxReport bounds a line of the reply, bytes; a report of 76 samples has 30 kB.
const maxReport = 16 << 20

// Verify makes a trial and tells how it goes. It ends when ctx does.
func (c *Client) Verify(ctx context.Context, req VerifyRequest, progress func(trial.Progress)) (trial.Report, error) {
	resp, err := c.send(ctx, "POST", "verify", req)
	if err != nil {
		return trial.Report{}, err
	}
	defer resp.Body.Close()
	lines := json.NewDecoder(io.LimitReader(resp.Body, maxReport))
	for {
		var line VerifyLine
		if err := lines.Decode(&line); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // the app ended
			}
			return trial.Report{}, fmt.Errorf("read the trial: %w", err)
		}
		switch {
		case line.Report != nil:
			return *line.Report, nil
		case line.Error != nil:
			return trial.Report{}, line.Error
		case line.Progress != nil:
			progress(*line.Progress)
		}
	}
}

// Verifications are the reports that are kept, newest first.
func (c *Client) Verifications(ctx context.Context) ([]trial.Report, error) {
	list, err := call[Verifications](ctx, c, "GET", "verify", nil)
	return list.Reports, err
}
