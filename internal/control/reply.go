package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/engines"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/search"
	"github.com/ondol-app/ondol/internal/settings"
	"github.com/ondol-app/ondol/internal/trial"
	"github.com/ondol-app/ondol/internal/vector"
)

// lines is a reply of plain text, one line each.
type lines []string

// reply writes what an action returned.
func (s *Server) reply(w http.ResponseWriter, r *http.Request, value any) {
	switch v := value.(type) {
	case nil:
		w.WriteHeader(http.StatusNoContent)
	case http.HandlerFunc: // it writes by itself
		v(w, r)
	case lines:
		text := strings.Join(v, "\n")
		if text != "" {
			text += "\n"
		}
		send(w, http.StatusOK, "text/plain; charset=utf-8", []byte(text))
	case stream:
		s.replyStream(w, r, v)
	default:
		body, err := json.Marshal(value)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		send(w, http.StatusOK, "application/json", append(body, '\n'))
	}
}

// send writes a whole body. An error of Write means that the caller left.
func send(w http.ResponseWriter, status int, kind string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// errStopping is the cause with which Run cuts requests that outlast the grace time.
var errStopping = errors.New("the app is stopping")

// fail writes an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := s.explain(r, err)
	if wait := waitOf(err); wait > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
	}
	body, _ := json.Marshal(errorBody{e}) // a struct of strings always marshals
	send(w, e.Status, "application/json", append(body, '\n'))
}

// explain is the API's error for err, which it logs when it is a defect. A
// caller that left has its connection dropped: a handler that just returns
// would send an empty 200.
func (s *Server) explain(r *http.Request, err error) *Error {
	if errors.Is(err, errStopping) || errors.Is(context.Cause(r.Context()), errStopping) || errors.Is(err, admission.ErrClosed) || errors.Is(err, llamaserver.ErrClosed) || errors.Is(err, engines.ErrClosed) {
		err = &Error{Status: http.StatusServiceUnavailable, Code: CodeStopping, Message: "Ondol is stopping", Remedy: "start it again"}
	} else if r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	e := errorOf(err)
	if e.Code == CodeInternal {
		s.cfg.Logger.Error("control request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	return e
}

// errorOf maps the errors of the parts to the API's.
func errorOf(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*document.FolderOverlapError](err); ok {
		return overlap(e)
	}
	if e, ok := errors.AsType[*document.FolderRefusedError](err); ok {
		return &Error{Status: http.StatusForbidden, Code: CodeFolderRefused, Message: e.Error(), Remedy: e.Remedy(),
			Args: map[string]string{"path": e.Path, "holder": e.Holder, "reason": string(e.Reason)}}
	}
	if e, ok := errors.AsType[*engines.RefusedError](err); ok {
		return refusedByEngines(e)
	}
	if e, ok := errors.AsType[*settings.ProblemsError](err); ok {
		return refusedSettings(e)
	}
	if e, ok := errors.AsType[*search.InvalidError](err); ok {
		return invalid(e.Field, "is not possible: "+e.Message, e.Remedy)
	}
	if e, ok := errors.AsType[*admission.RejectedError](err); ok {
		return &Error{Status: http.StatusTooManyRequests, Code: string(e.Reason), Message: err.Error(), Remedy: "try again in a moment"}
	}
	if e, ok := errors.AsType[*vector.InvalidError](err); ok {
		return &Error{Status: http.StatusBadGateway, Code: CodeInvalidVector, Message: e.Error(), Remedy: "see `ondol engine logs`; `ondol engine restart` starts it afresh"}
	}
	if e, ok := errors.AsType[*trial.TooShortError](err); ok {
		return &Error{Status: http.StatusConflict, Code: CodeVerifyTooShort, Message: e.Error(), Remedy: "give the engine a longer context (-c) or fewer slots (-np)",
			Args: map[string]string{"max": strconv.Itoa(e.MaxTokens), "need": strconv.Itoa(e.Need)}}
	}
	if state, ok := unavailable(err); ok {
		return &Error{Status: http.StatusServiceUnavailable, Code: CodeEngineUnavailable,
			Message: "the engine is " + state, Remedy: "`ondol engine status` says why", Args: map[string]string{"state": state}}
	}
	switch {
	case errors.Is(err, document.ErrFolderExists):
		return &Error{Status: http.StatusConflict, Code: CodeFolderExists, Message: err.Error(), Remedy: "nothing is to be done; `ondol folders rescan` looks at it again"}
	case errors.Is(err, document.ErrNotFound):
		return &Error{Status: http.StatusNotFound, Code: CodeNotFound, Message: err.Error(), Remedy: "the lists of folders and documents have the ids"}
	case errors.Is(err, fs.ErrNotExist):
		return aboutPath(err, http.StatusBadRequest, CodePathNotFound, "does not exist", "check the path")
	case errors.Is(err, fs.ErrPermission):
		return aboutPath(err, http.StatusForbidden, CodePermissionDenied, "may not be read",
			"allow Ondol to read it in the system's privacy settings, or change its mode")
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Status: http.StatusGatewayTimeout, Code: CodeInternal, Message: err.Error(), Remedy: "try again"}
	}
	return &Error{Status: http.StatusInternalServerError, Code: CodeInternal, Message: err.Error(), Remedy: "the log has more"}
}

// unavailable is the state of the engine when that is what err tells of.
func unavailable(err error) (state string, ok bool) {
	if e, ok := errors.AsType[*embedding.UnavailableError](err); ok {
		return e.State, true
	}
	if e, ok := errors.AsType[*llamaserver.NotReadyError](err); ok {
		return e.State.String(), true
	}
	return "", false
}

func overlap(e *document.FolderOverlapError) *Error {
	inside := "false"
	if e.Inside {
		inside = "true"
	}
	return &Error{Status: http.StatusConflict, Code: CodeFolderOverlaps, Message: e.Error(),
		Args: map[string]string{"path": e.Path, "existing": e.Existing, "inside": inside}}
}

// aboutPath is the error of a path, which err names where it comes from the system.
func aboutPath(err error, status int, code, what, remedy string) *Error {
	e := &Error{Status: status, Code: code, Message: err.Error(), Remedy: remedy}
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		e.Message, e.Args = at.Path+" "+what, map[string]string{"path": at.Path}
	}
	return e
}

// notFound is the error of an id that a request names.
func notFound(kind string, id int64) *Error {
	return &Error{Status: http.StatusNotFound, Code: CodeNotFound, Message: fmt.Sprintf("%s %d was not found in the index", kind, id),
		Remedy: "the list of " + kind + "s has the ids", Args: map[string]string{"kind": kind, "id": strconv.FormatInt(id, 10)}}
}

// waitOf is how long to wait before another try; 0 when nothing is known.
func waitOf(err error) time.Duration {
	if e, ok := errors.AsType[*embedding.UnavailableError](err); ok {
		return e.RetryAfter
	}
	if e, ok := errors.AsType[*llamaserver.NotReadyError](err); ok {
		return e.RetryAfter
	}
	if _, ok := errors.AsType[*admission.RejectedError](err); ok {
		return time.Second
	}
	return 0
}
