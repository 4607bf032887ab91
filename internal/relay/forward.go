package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/ondol-app/ondol/internal/openai"
	"github.com/ondol-app/ondol/internal/upstream"
)

// chunkSize is the most that is passed on at once, bytes; a chunk of a stream
// is far smaller.
const chunkSize = 16 << 10

// Forward implements Forwarder.
func (r *Relay) Forward(ctx context.Context, w http.ResponseWriter, request ForwardRequest) error {
	total := r.config.Total
	if request.Stream {
		total = 0
	}
	e, err := r.begin(ctx, total)
	if err != nil {
		return err
	}
	// A copy: net/http may still be reading it after the caller has left.
	response, err := e.instance.Client.Stream(e.ctx, request.Path, bytes.Clone(request.Body))
	if err != nil {
		return refuse(w, e.finish(err))
	}
	if request.Stream {
		r.live.add(e)
	}
	out := reply{w: w, limit: r.config.Write}
	err = out.copy(response)
	response.Body.Close()
	r.live.remove(e)
	err = e.finish(err)
	// A caller that left by itself reads no explanation.
	if left := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded); err != nil && out.begun && !left {
		out.explain(err)
	}
	return err
}

// reply is what the client gets.
type reply struct {
	w      http.ResponseWriter
	limit  time.Duration // for one write
	events bool          // the reply is a stream of events
	begun  bool          // a byte was written
	gone   bool          // the client does not take any more
}

// copy passes the reply on as it comes. The status line waits for the first
// byte, so that a reply that breaks before it can still become an error.
func (o *reply) copy(response *http.Response) error {
	buffer := make([]byte, chunkSize)
	for {
		n, err := response.Body.Read(buffer)
		if n > 0 || err == io.EOF && !o.begun {
			if !o.begun {
				o.header(response)
			}
			if writeErr := o.write(buffer[:n]); writeErr != nil {
				o.gone = true
				return fmt.Errorf("%w: %w", errLeft, writeErr)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// header lets nothing of the engine's pass but what the reply is.
func (o *reply) header(response *http.Response) {
	o.begun = true
	kind := response.Header.Get("Content-Type")
	if kind == "" {
		kind = "application/json"
	}
	o.events = strings.HasPrefix(kind, "text/event-stream")
	h := o.w.Header()
	h.Set("Content-Type", kind)
	if o.events {
		h.Set("Cache-Control", "no-cache")
	}
	if n := response.ContentLength; n >= 0 {
		h.Set("Content-Length", fmt.Sprint(n))
	}
	o.w.WriteHeader(response.StatusCode)
}

func (o *reply) write(chunk []byte) error {
	controller := http.NewResponseController(o.w)
	// A writer without deadlines or flushing (a test's recorder) needs neither.
	_ = controller.SetWriteDeadline(time.Now().Add(o.limit))
	if _, err := o.w.Write(chunk); err != nil {
		return err
	}
	if err := controller.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// explain tells a client that reads events why there are no more.
func (o *reply) explain(err error) {
	if !o.events || o.gone {
		return
	}
	body := (&openai.Error{Type: openai.TypeServer, Code: openai.CodeUpstreamError,
		Message: "the stream broke off: " + err.Error() + "; try again"}).Envelope()
	_ = o.write([]byte("\n\ndata: " + string(body) + "\n\n")) // the connection is dropped either way
}

// refuse answers what the client has to change, in OpenAI's shape; every other
// error is returned.
func refuse(w http.ResponseWriter, err error) error {
	var status *upstream.StatusError
	var long *upstream.ContextError
	var unavailable *upstream.UnavailableError
	answer, code := openai.Error{Type: openai.TypeInvalidRequest}, http.StatusBadRequest
	switch {
	case errors.As(err, &unavailable):
		return err
	case errors.As(err, &long):
		answer.Code = openai.CodeContextLength
		answer.Message = fmt.Sprintf("the request has %d tokens and the engine takes at most %d; shorten it, nothing is cut silently", long.Tokens, long.Limit)
	case errors.As(err, &status) && clientsFault(status.Code):
		code = status.Code
		answer.Code, answer.Message = openai.CodeInvalidValue, "the engine refused the request: "+status.Message
		switch code {
		case http.StatusNotFound:
			answer.Type, answer.Code = openai.TypeNotFound, openai.CodeUnknownURL
		case http.StatusRequestEntityTooLarge:
			answer.Code = openai.CodeTooLarge
		case http.StatusNotImplemented:
			answer.Type, answer.Code = openai.TypeServer, openai.CodeNotImplemented
			w.Header().Set("x-should-retry", "false") // SDKs repeat every 5xx
		}
	default:
		return err
	}
	body := answer.Envelope()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body) // an error means that the client left
	return nil
}

// clientsFault tells the statuses a client can do something about from those
// that are between us and the engine (our key, its load, its defects).
func clientsFault(code int) bool {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired,
		http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	case http.StatusNotImplemented:
		return true
	}
	return code >= 400 && code < 500
}
