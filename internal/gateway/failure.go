package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/openai"
	"github.com/ondol-app/ondol/internal/upstream"
	"github.com/ondol-app/ondol/internal/vector"
)

// failure is an answer that is an error: the envelope and what stands around it.
type failure struct {
	body       openai.Error
	status     int
	retryAfter time.Duration // Retry-After, in whole seconds rounded up; 0 = no header
	retryExact time.Duration // retry-after-ms, which SDKs read first; 0 = no header
	noRetry    bool          // x-should-retry: false, which SDKs obey
	allow      string        // Allow, for 405
	close      bool          // Connection: close

	authenticate bool // WWW-Authenticate, for 401
}

// Error lets a failure travel as an error from the place that knows it.
func (f failure) Error() string { return f.body.Message }

// fail writes f.
func (g *Gateway) fail(w http.ResponseWriter, r *http.Request, f failure) {
	h := w.Header()
	if f.retryAfter > 0 {
		h.Set("Retry-After", seconds(f.retryAfter))
	}
	if f.retryExact > 0 {
		h.Set("retry-after-ms", strconv.FormatInt(f.retryExact.Milliseconds(), 10))
	}
	if f.noRetry {
		h.Set("x-should-retry", "false")
	}
	if f.allow != "" {
		h.Set("Allow", f.allow)
	}
	if f.close {
		h.Set("Connection", "close")
	}
	if f.authenticate {
		h.Set("WWW-Authenticate", `Bearer realm="ondol"`)
	}
	g.log.Debug("request refused", "method", r.Method, "route", clip(r.URL.Path), "status", f.status, "code", f.body.Code)
	g.send(w, f.status, errorBody(r, f.body))
}

// seconds is d in whole seconds, rounded up so that a client never comes early.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// send writes a whole JSON reply. An error of Write means that the client
// left; there is nobody to tell.
func (g *Gateway) send(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	// A client that stops reading must not pin the reply. Writers without
	// deadlines (a test's recorder) cannot stall either.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// writeTime is how long a client may take to read one reply. It is longer than
// bodyTime, which may pass between send and the first byte when the rest of a
// refused body is read away.
const writeTime = 60 * time.Second

// unknownWait is what a client is told to wait when the engine cannot say.
const unknownWait = 5 * time.Second

// errStopping is the cause with which Run cuts requests that outlast the grace time.
var errStopping = errors.New("the app is stopping")

// refuse answers with what err becomes. When nobody is left to answer, the
// connection is dropped: a handler that just returns would send an empty 200.
func (g *Gateway) refuse(w http.ResponseWriter, r *http.Request, err error) {
	f, answer := g.failureOf(r.Context(), err)
	if !answer {
		panic(http.ErrAbortHandler)
	}
	g.fail(w, r, f)
}

// failureOf maps an error of the door to its answer (contract sections 1 and
// 2). The second result is false when nobody is left to answer: the request's
// own context has ended.
func (g *Gateway) failureOf(ctx context.Context, err error) (failure, bool) {
	// A body that came too slowly ends the context as well, yet its client is
	// there and waits for the answer.
	if f, ok := errors.AsType[failure](err); ok {
		return f, true
	}
	if errors.Is(context.Cause(ctx), errStopping) || errors.Is(err, admission.ErrClosed) {
		return failure{status: http.StatusServiceUnavailable, retryAfter: unknownWait, close: true, body: openai.Error{
			Type: openai.TypeServer, Code: openai.CodeEngineUnavailable,
			Message: "Ondol is stopping; try again once it runs"}}, true
	}
	if ctx.Err() != nil || errors.Is(err, errClientGone) {
		return failure{}, false
	}
	if e, ok := errors.AsType[*openai.Error](err); ok {
		return failure{status: http.StatusBadRequest, body: *e}, true
	}
	if e, ok := errors.AsType[*admission.RejectedError](err); ok {
		return rejected(e), true
	}
	if e, ok := errors.AsType[*embedding.TooLongError](err); ok {
		return tooLong(e), true
	}
	if e, ok := errors.AsType[*upstream.UnavailableError](err); ok {
		return unavailable(e), true
	}
	if e, ok := errors.AsType[*upstream.TimeoutError](err); ok {
		return failure{status: http.StatusGatewayTimeout, body: openai.Error{
			Type: openai.TypeServer, Code: openai.CodeUpstreamTimeout,
			Message: fmt.Sprintf("the engine did not finish this request within %s; send fewer or shorter inputs at a time", e.After)}}, true
	}
	if e, ok := errors.AsType[*vector.InvalidError](err); ok {
		return invalidVector(e), true
	}
	if e, ok := errors.AsType[*upstream.ContextError](err); ok {
		return failure{status: http.StatusBadRequest, body: openai.Error{
			Type: openai.TypeInvalidRequest, Code: openai.CodeContextLength,
			Message: fmt.Sprintf("the request has %d tokens and the engine takes at most %d; shorten it, nothing is cut silently", e.Tokens, e.Limit)}}, true
	}
	if e, ok := errors.AsType[*upstream.StatusError](err); ok {
		switch e.Code { // others are between us and the engine
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
			return refused(e), true
		}
	}
	g.log.Warn("engine failed on a request", "error", err)
	return failure{status: http.StatusBadGateway, body: openai.Error{
		Type: openai.TypeServer, Code: openai.CodeUpstreamError,
		Message: "the engine failed on this request: " + err.Error() + "; `ondol engine logs` has more"}}, true
}

// refused passes on why an engine, mostly a remote one, did not take a request.
func refused(e *upstream.StatusError) failure {
	return failure{status: http.StatusBadRequest, body: openai.Error{
		Type: openai.TypeInvalidRequest, Code: openai.CodeInvalidValue, Message: "the engine refused the request: " + e.Message}}
}

func rejected(e *admission.RejectedError) failure {
	f := failure{status: http.StatusTooManyRequests, retryAfter: time.Second,
		retryExact: min(max(e.RetryAfter, time.Millisecond), time.Minute),
		body:       openai.Error{Type: openai.TypeRateLimit, Code: openai.CodeQueueFull}}
	f.body.Message = "the queue is full; try again after the time in Retry-After, with fewer requests at once"
	if e.Reason == openai.CodeQueueTimeout {
		f.body.Code = openai.CodeQueueTimeout
		f.body.Message = "no turn came within the longest waiting time; try again after the time in Retry-After, with fewer requests at once"
	}
	return f
}

func tooLong(e *embedding.TooLongError) failure {
	return failure{status: http.StatusBadRequest, body: openai.Error{
		Type: openai.TypeInvalidRequest, Param: "input", Code: openai.CodeContextLength,
		Message: fmt.Sprintf("input[%d] has %s tokens and the engine takes at most %d in one input; split the text, nothing is cut silently",
			e.Index, e.Count(), e.Limit)}}
}

func unavailable(e *upstream.UnavailableError) failure {
	f := failure{status: http.StatusServiceUnavailable, retryAfter: e.RetryAfter,
		body: openai.Error{Type: openai.TypeServer, Code: openai.CodeEngineUnavailable}}
	if f.retryAfter <= 0 {
		f.retryAfter = unknownWait
	}
	what, remedy := "is not ready ("+e.State+")", "try again after the time in Retry-After"
	switch e.State {
	case upstream.StateLost: // it is ready as far as anybody knows
		what = "does not answer"
		if errors.Is(e.Err, upstream.ErrBroken) {
			what = "broke off before its answer was whole"
		}
		remedy += "; if it happens again, `ondol engine logs` says why"
	case "stopped":
		remedy = "start it with `ondol engine start`"
	case "failed":
		remedy = "`ondol engine logs` says why, `ondol engine restart` tries again"
	}
	f.body.Message = "the engine " + what + "; " + remedy
	return f
}

// maxNamed bounds how many inputs a message lists.
const maxNamed = 32

func invalidVector(e *vector.InvalidError) failure {
	return invalidReply(e, "vector", "input", openai.CodeInvalidVector)
}

// invalidReply names the items of field for which the engine gave no valid what.
func invalidReply(e *vector.InvalidError, what, field, code string) failure {
	named := make([]string, 0, min(len(e.Problems), maxNamed))
	for _, p := range e.Problems[:cap(named)] {
		where := field + "[" + strconv.Itoa(p.Index) + "]"
		if p.Index == vector.WholeReply {
			where = "the whole reply"
		}
		named = append(named, where+" ("+p.Reason.String()+")")
	}
	list := strings.Join(slices.Compact(named), ", ")
	if more := len(e.Problems) - len(named); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	if e.Problems[0].Reason == vector.ReasonQuarantined { // then all are
		return failure{status: http.StatusBadGateway, noRetry: true, body: openai.Error{
			Type: openai.TypeServer, Param: field, Code: code,
			Message: "the engine is not asked for " + list + ": what stands there harmed it before and is in quarantine; leave it out, or let it be tried again with `ondol engine quarantine clear`"}}
	}
	return failure{status: http.StatusBadGateway, noRetry: true, body: openai.Error{
		Type: openai.TypeServer, Param: field, Code: code,
		Message: "the engine gave no valid " + what + " for " + list + "; nothing was served or stored, leave these inputs out and check `ondol status`"}}
}

// clip shortens what a client sent before it is repeated to it.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strconv.QuoteToGraphic(s)
}
