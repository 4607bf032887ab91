package control

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/search"
	"github.com/ondol-app/ondol/internal/vector"
)

// lines is a reply of plain text, one line each.
type lines []string

// reply writes what an action returned.
func (s *Server) reply(w http.ResponseWriter, r *http.Request, value any) {
	switch v := value.(type) {
	case nil:
		w.WriteHeader(http.StatusNoContent)
	case lines:
		text := strings.Join(v, "\n")
		if text != "" {
			text += "\n"
		}
		send(w, http.StatusOK, "text/plain; charset=utf-8", []byte(text))
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

// fail writes an error. A caller that left has its connection dropped: a
// handler that just returns would send an empty 200.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(context.Cause(r.Context()), errStopping) || errors.Is(err, admission.ErrClosed) {
		err = &Error{http.StatusServiceUnavailable, CodeStopping, "Ondol is stopping", "start it again"}
	} else if r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	e := errorOf(err)
	if e.Code == CodeInternal {
		s.cfg.Logger.Error("control request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	if wait := waitOf(err); wait > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
	}
	body, _ := json.Marshal(errorBody{e}) // a struct of strings always marshals
	send(w, e.Status, "application/json", append(body, '\n'))
}

// errorOf maps the errors of the parts to the API's.
func errorOf(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*document.FolderOverlapError](err); ok {
		return &Error{http.StatusConflict, CodeFolderOverlaps, e.Error(), ""}
	}
	if e, ok := errors.AsType[*search.InvalidError](err); ok {
		return invalid(e.Field, "is not possible: "+e.Message, e.Remedy)
	}
	if e, ok := errors.AsType[*admission.RejectedError](err); ok {
		return &Error{http.StatusTooManyRequests, string(e.Reason), err.Error(), "try again in a moment"}
	}
	if e, ok := errors.AsType[*vector.InvalidError](err); ok {
		return &Error{http.StatusBadGateway, CodeInvalidVector, e.Error(), "see `ondol engine logs`; `ondol engine restart` starts it afresh"}
	}
	switch {
	case isUnavailable(err):
		return &Error{http.StatusServiceUnavailable, CodeEngineUnavailable, err.Error(), "`ondol engine status` says why"}
	case errors.Is(err, document.ErrFolderExists):
		return &Error{http.StatusConflict, CodeFolderExists, err.Error(), "nothing is to be done; `ondol folders rescan` looks at it again"}
	case errors.Is(err, document.ErrNotFound):
		return &Error{http.StatusNotFound, CodeNotFound, err.Error(), "the lists of folders and documents have the ids"}
	case errors.Is(err, fs.ErrNotExist):
		return &Error{http.StatusBadRequest, CodePathNotFound, err.Error(), "check the path"}
	case errors.Is(err, fs.ErrPermission):
		return &Error{http.StatusForbidden, CodePermissionDenied, err.Error(), "allow Ondol to read it in the system's privacy settings, or change its mode"}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{http.StatusGatewayTimeout, CodeInternal, err.Error(), "try again"}
	}
	return &Error{http.StatusInternalServerError, CodeInternal, err.Error(), "the log has more"}
}

func isUnavailable(err error) bool {
	if _, ok := errors.AsType[*embedding.UnavailableError](err); ok {
		return true
	}
	_, ok := errors.AsType[*llamaserver.NotReadyError](err)
	return ok
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
