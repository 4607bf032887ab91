package relay_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/relay"
	"github.com/ondol-app/ondol/internal/upstream"
	"github.com/ondol-app/ondol/internal/vector"
)

// faulty is an engine and its client with faults on demand.
type faulty struct {
	stream   func(ctx context.Context) (*http.Response, error)
	rerank   func() (llamaclient.RerankReply, error)
	away     error
	busy     atomic.Int32
	replaced atomic.Int32
}

func (f *faulty) Current() (relay.Instance, error) {
	if f.away != nil {
		return relay.Instance{}, f.away
	}
	return relay.Instance{Generation: uint64(f.replaced.Load()) + 1, Client: f, Model: "faulty"}, nil
}

func (f *faulty) Replace(context.Context, uint64, string) error {
	f.replaced.Add(1)
	f.busy.Store(0)
	return nil
}

func (f *faulty) Stream(ctx context.Context, _ string, _ []byte) (*http.Response, error) {
	return f.stream(ctx)
}

func (f *faulty) Rerank(context.Context, string, []string) (llamaclient.RerankReply, error) {
	return f.rerank()
}

func (f *faulty) Busy(context.Context) (int, error) { return int(f.busy.Load()), nil }

// remote is a faulty engine that cannot be asked.
type remote struct{ relay.Client }

type remoteEngine struct{ *faulty }

func (e remoteEngine) Current() (relay.Instance, error) {
	now, err := e.faulty.Current()
	now.Client = remote{now.Client}
	return now, err
}

// talk streams pieces, then waits for the end of ctx, or ends with err if that is set.
func talk(err error, pieces ...string) func(context.Context) (*http.Response, error) {
	return func(ctx context.Context) (*http.Response, error) {
		reader, writer := io.Pipe()
		go func() {
			for _, piece := range pieces {
				_, _ = io.WriteString(writer, piece)
			}
			if err != nil {
				writer.CloseWithError(err)
				return
			}
			<-ctx.Done()
			writer.CloseWithError(context.Cause(ctx))
		}()
		return &http.Response{StatusCode: 200, ContentLength: -1, Body: reader,
			Header: http.Header{"Content-Type": {"text/event-stream"}, "Access-Control-Allow-Origin": {"*"}}}, nil
	}
}

// silent answers nothing until ctx ends.
func silent(ctx context.Context) (*http.Response, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// bubble runs a relay in front of the engine on a fake clock.
func bubble(t *testing.T, engine relay.Engine, test func(t *testing.T, r *relay.Relay)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRelay(t, relay.Config{Engine: engine}, 1)
		synctest.Wait() // the gate runs
		test(t, r)
	})
}

func TestPermitOutlivesACallerThatLeft(t *testing.T) {
	f := &faulty{stream: talk(nil, "data: a\n\n")}
	f.busy.Store(1)
	bubble(t, f, func(t *testing.T, r *relay.Relay) {
		ctx, leave := context.WithCancel(t.Context())
		returned := make(chan error, 1)
		go func() { returned <- r.Forward(ctx, httptest.NewRecorder(), relay.ForwardRequest{Stream: true}) }()
		synctest.Wait()
		leave()
		if err := <-returned; !errors.Is(err, context.Canceled) {
			t.Errorf("Forward = %v", err)
		}
		time.Sleep(time.Minute)
		if s := r.Stats(); s.Draining != 1 || s.Executing != 0 {
			t.Errorf("while the slot is busy: %+v", s)
		}
		f.busy.Store(0)
		time.Sleep(2 * time.Second)
		if s := r.Stats(); !idle(s) || s.Totals[admission.CancelledExecuting] != 1 || f.replaced.Load() != 0 {
			t.Errorf("once the slot is free: %+v, replaced %d", s, f.replaced.Load())
		}
	})
}

func TestWorkThatDoesNotEndCostsTheEngine(t *testing.T) {
	f := &faulty{stream: talk(nil, "data: a\n\n")}
	f.busy.Store(1)
	bubble(t, f, func(t *testing.T, r *relay.Relay) {
		ctx, leave := context.WithCancel(t.Context())
		returned := make(chan error, 1)
		go func() { returned <- r.Forward(ctx, httptest.NewRecorder(), relay.ForwardRequest{Stream: true}) }()
		synctest.Wait()
		leave()
		<-returned
		time.Sleep(relay.DefaultSettle - time.Second)
		if s := r.Stats(); s.Draining != 1 || f.replaced.Load() != 0 {
			t.Errorf("before the limit: %+v, replaced %d", s, f.replaced.Load())
		}
		time.Sleep(2 * time.Second)
		if s := r.Stats(); !idle(s) || f.replaced.Load() != 1 {
			t.Errorf("after the limit: %+v, replaced %d", s, f.replaced.Load())
		}
	})
}

func TestTotalOfAReplyInOnePiece(t *testing.T) {
	f := &faulty{stream: silent}
	f.busy.Store(1)
	bubble(t, f, func(t *testing.T, r *relay.Relay) {
		began := time.Now()
		err := r.Forward(t.Context(), httptest.NewRecorder(), relay.ForwardRequest{})
		timeout, ok := errors.AsType[*upstream.TimeoutError](err)
		if !ok || timeout.After != relay.DefaultTotal || time.Since(began) != relay.DefaultTotal {
			t.Errorf("Forward = %v after %v", err, time.Since(began))
		}
		time.Sleep(time.Second)
		if s := r.Stats(); s.Draining != 1 {
			t.Errorf("while the slot is busy: %+v", s)
		}
		f.busy.Store(0)
		time.Sleep(2 * time.Second)
		if s := r.Stats(); !idle(s) || s.Totals[admission.UpstreamTimeout] != 1 {
			t.Errorf("stats = %+v", s)
		}
	})
}

func TestAStreamHasNoTotal(t *testing.T) {
	bubble(t, &faulty{stream: talk(nil, "data: a\n\n")}, func(t *testing.T, r *relay.Relay) {
		ctx, leave := context.WithTimeout(t.Context(), 2*relay.DefaultTotal)
		defer leave()
		recorder := httptest.NewRecorder()
		if err := r.Forward(ctx, recorder, relay.ForwardRequest{Stream: true}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Forward = %v, want the caller's own end", err)
		}
		if h := recorder.Result().Header; h.Get("Access-Control-Allow-Origin") != "" || recorder.Body.String() != "data: a\n\n" {
			t.Errorf("%v %q", h, recorder.Body)
		}
	})
}

func TestAStreamThatBreaksSaysSo(t *testing.T) {
	broken := &faulty{stream: talk(upstream.ErrBroken, "data: a\n\n")}
	bubble(t, broken, func(t *testing.T, r *relay.Relay) {
		recorder := httptest.NewRecorder()
		err := r.Forward(t.Context(), recorder, relay.ForwardRequest{Stream: true})
		if _, ok := errors.AsType[*upstream.UnavailableError](err); !ok {
			t.Errorf("Forward = %v", err)
		}
		if body := recorder.Body.String(); !strings.HasPrefix(body, "data: a\n\n") || !strings.Contains(body, `data: {"error":{"message":"the stream broke off`) {
			t.Errorf("body = %q", body)
		}
		synctest.Wait()
		if s := r.Stats(); !idle(s) {
			t.Errorf("stats = %+v", s)
		}
	})
}

// A remote engine cannot be asked: closing the connection is the end, and one that did not answer is looked at anew.
func TestRemoteEngine(t *testing.T) {
	f := &faulty{stream: silent}
	f.busy.Store(1)
	bubble(t, remoteEngine{f}, func(t *testing.T, r *relay.Relay) {
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		_ = r.Forward(ctx, httptest.NewRecorder(), relay.ForwardRequest{Stream: true})
		synctest.Wait()
		if s := r.Stats(); !idle(s) || f.replaced.Load() != 0 {
			t.Errorf("after leaving: %+v, replaced %d", s, f.replaced.Load())
		}
		if err := r.Forward(t.Context(), httptest.NewRecorder(), relay.ForwardRequest{}); err == nil {
			t.Error("no timeout")
		}
		synctest.Wait()
		if s := r.Stats(); !idle(s) || f.replaced.Load() != 1 {
			t.Errorf("after the timeout: %+v, replaced %d", s, f.replaced.Load())
		}
	})
}

func TestEngineErrors(t *testing.T) {
	refuse := func(err error) func(context.Context) (*http.Response, error) {
		return func(context.Context) (*http.Response, error) { return nil, err }
	}
	for name, tt := range map[string]struct {
		engine  *faulty
		outcome admission.Outcome
		ok      func(error) bool
	}{
		"no engine": {&faulty{away: &upstream.UnavailableError{State: "failed", RetryAfter: time.Minute}}, admission.EngineUnavailable,
			func(err error) bool {
				e, ok := errors.AsType[*upstream.UnavailableError](err)
				return ok && e.State == "failed" && e.RetryAfter == time.Minute
			}},
		"overloaded": {&faulty{stream: refuse(&upstream.StatusError{Code: 429, RetryAfter: 7 * time.Second})}, admission.EngineUnavailable,
			func(err error) bool {
				e, ok := errors.AsType[*upstream.UnavailableError](err)
				return ok && e.State == "busy" && e.RetryAfter == 7*time.Second
			}},
		"nobody listens": {&faulty{stream: refuse(upstream.ErrConnect)}, admission.EngineUnavailable,
			func(err error) bool { _, ok := errors.AsType[*upstream.UnavailableError](err); return ok }},
		"our key is wrong": {&faulty{stream: refuse(&upstream.StatusError{Code: 401})}, admission.Failed,
			func(err error) bool { _, ok := errors.AsType[*upstream.StatusError](err); return ok }},
		"silence": {&faulty{stream: refuse(upstream.ErrRead)}, admission.UpstreamTimeout,
			func(err error) bool { _, ok := errors.AsType[*upstream.TimeoutError](err); return ok }},
	} {
		bubble(t, tt.engine, func(t *testing.T, r *relay.Relay) {
			recorder := httptest.NewRecorder()
			err := r.Forward(t.Context(), recorder, relay.ForwardRequest{})
			synctest.Wait()
			if s := r.Stats(); !tt.ok(err) || !idle(s) || s.Totals[tt.outcome] != 1 || recorder.Body.Len() > 0 {
				t.Errorf("%s: %v, %q, %+v", name, err, recorder.Body, s)
			}
		})
	}
}

func TestInvalidScores(t *testing.T) {
	for _, scores := range [][]float64{{1}, {1, math.NaN()}, {math.Inf(1), 1}, {1, 2, 3}} {
		f := &faulty{rerank: func() (llamaclient.RerankReply, error) { return llamaclient.RerankReply{Scores: scores}, nil }}
		bubble(t, f, func(t *testing.T, r *relay.Relay) {
			_, err := r.Rerank(t.Context(), relay.RerankRequest{Documents: []string{"a", "b"}})
			if _, ok := errors.AsType[*vector.InvalidError](err); !ok || r.Stats().Totals[admission.InvalidVector] != 1 {
				t.Errorf("%v: %v, %+v", scores, err, r.Stats())
			}
		})
	}
}
