package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
)

// Direct is a Client within the same process: it calls the handler and needs
// no socket. Streams of events are not for it.
func (s *Server) Direct() *Client {
	return &Client{http: &http.Client{Transport: direct{s}}, base: "http://localhost" + Prefix}
}

// direct calls the handler as if a connection lay between.
type direct struct{ server *Server }

func (d direct) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	defer func() {
		// As on a connection: the caller left, and nobody is to be answered.
		if cause := recover(); cause == http.ErrAbortHandler {
			resp, err = nil, context.Cause(r.Context())
			if err == nil {
				err = io.ErrUnexpectedEOF
			}
		} else if cause != nil {
			d.server.cfg.Logger.Error("control request panicked", "path", r.URL.Path, "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
			resp, err = nil, errPanic
		}
	}()
	r = r.WithContext(r.Context()) // a copy: it is not ours to change
	if r.Body == nil {
		r.Body = http.NoBody
	}
	defer r.Body.Close()
	w := &answer{header: http.Header{}, status: http.StatusOK}
	d.server.mux.ServeHTTP(w, r)
	return &http.Response{StatusCode: w.status, Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r}, nil
}

var errPanic = errors.New("internal error; the log has more")

// answer is a reply kept in memory.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }
