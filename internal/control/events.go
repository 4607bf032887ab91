package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/journal"
)

// Names of the messages of GET events. Only those of the journal carry an id.
const (
	MessageEvent    = "event"    // an event.Event; id is its number
	MessageSnapshot = "snapshot" // a Status, first where no number was given; id is its seq
	MessageReset    = "reset"    // a Status in place of events that cannot be told any more; id is its seq
	MessageSample   = "sample"   // a Sample, where samples were asked for
)

const (
	// heartbeat is how often a stream without news shows that it lives.
	heartbeat = 15 * time.Second
	// streamWrite is how long a reader may take no bytes before its connection
	// is closed; it can come back and go on where it was.
	streamWrite = 2 * time.Minute
	// maxStreams bounds the streams at once. Each costs a goroutine and a
	// connection, and nothing of a producer.
	maxStreams = 1000
	// retryMS is what a browser waits before it connects again.
	retryMS = 1000
)

// appendEvent writes an event as one message of the stream.
func appendEvent(dst []byte, e event.Event) []byte {
	body, _ := json.Marshal(e) // texts and a time always marshal
	return appendMessage(dst, MessageEvent, e.Seq, body)
}

// appendMessage writes a message; its body is JSON, which has no line breaks.
func appendMessage(dst []byte, name string, id uint64, body []byte) []byte {
	if name != MessageSample {
		dst = append(dst, "id: "...)
		dst = strconv.AppendUint(dst, id, 10)
		dst = append(dst, '\n')
	}
	dst = append(append(append(dst, "event: "...), name...), "\ndata: "...)
	return append(append(dst, body...), "\n\n"...)
}

// streamQuery is what GET events was asked for.
type streamQuery struct {
	since   uint64
	fresh   bool // no number was given
	samples bool
}

func readStreamQuery(r *http.Request) (q streamQuery, err error) {
	values, err := params(r, "since", "samples")
	if err != nil {
		return q, err
	}
	// Whoever connects again gives the number it has come to beside the
	// address it began with.
	name, text := "Last-Event-ID", r.Header.Get("Last-Event-ID")
	if text == "" {
		name, text = "since", values["since"]
	}
	q.fresh = text == ""
	if !q.fresh {
		if q.since, err = strconv.ParseUint(text, 10, 64); err != nil {
			return q, invalid(name, "is no event's number", "send the seq of the last event that arrived, or 0 for all")
		}
	}
	switch values["samples"] {
	case "", "0":
	case "1":
		q.samples = true
	default:
		return q, invalid("samples", "is neither 0 nor 1", "send 1 for samples")
	}
	return q, nil
}

// events answers GET events with a stream of server-sent events.
func (s *Server) events(r *http.Request) (any, error) {
	q, err := readStreamQuery(r)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.streams.Add(1) > maxStreams {
			s.streams.Add(-1)
			s.fail(w, r, &Error{Status: http.StatusServiceUnavailable, Code: CodeTooManyStreams,
				Message: "too many readers of events", Remedy: "close some of them"})
			return
		}
		defer s.streams.Add(-1)
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		f := &feed{server: s, ctx: ctx, w: w, control: http.NewResponseController(w), after: q.since}
		defer context.AfterFunc(s.ending, func() {
			cancel()
			_ = f.control.SetWriteDeadline(time.Now()) // a reader that takes no bytes is not waited for
		})()
		if err := f.run(q); err != nil && ctx.Err() == nil {
			s.cfg.Logger.Debug("stream of events ended", "error", err)
		}
	}), nil
}

// feed is one stream. It owns its position; a reader that is slow is behind,
// and reads on in the journal when it takes bytes again.
type feed struct {
	server  *Server
	ctx     context.Context
	w       http.ResponseWriter
	control *http.ResponseController
	after   uint64 // number of the last event that was written
}

func (f *feed) run(q streamQuery) error {
	s := f.server
	defer s.stream.Join()()
	if q.samples {
		defer s.sampler.join()()
	}
	h := f.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	f.w.WriteHeader(http.StatusOK)
	if err := f.write(fmt.Appendf(nil, "retry: %d\n\n", retryMS)); err != nil {
		return err
	}
	if q.fresh {
		if err := f.snapshot(MessageSnapshot); err != nil {
			return err
		}
	}
	return f.follow(q.samples)
}

// follow writes what comes until the reader or the app goes.
func (f *feed) follow(samples bool) error {
	s := f.server
	beat := time.NewTimer(heartbeat)
	defer beat.Stop()
	var sampled <-chan struct{} // nil = not asked for
	for f.ctx.Err() == nil {
		changed := s.stream.Changed()
		if samples {
			sampled = s.sampler.changed()
		}
		encoded, last, err := s.stream.Read(f.ctx, f.after)
		switch {
		case errors.Is(err, journal.ErrGone):
			err = f.snapshot(MessageReset)
		case err == nil && last > f.after:
			if err = f.write(encoded); err == nil {
				f.after = last
			}
		case err == nil:
			select {
			case <-f.ctx.Done():
				return nil
			case <-changed:
			case <-sampled:
				err = f.write(s.sampler.latest())
			case <-beat.C:
				err = f.write([]byte(": alive\n\n"))
			}
			beat.Reset(heartbeat)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// snapshot writes the status as a message, from which the stream goes on.
func (f *feed) snapshot(name string) error {
	status, err := f.server.snapshot(f.ctx)
	if err != nil {
		return err
	}
	body, err := json.Marshal(status)
	if err != nil {
		return err
	}
	f.after = status.Seq
	return f.write(appendMessage(nil, name, status.Seq, body))
}

func (f *feed) write(message []byte) error {
	if err := f.control.SetWriteDeadline(time.Now().Add(streamWrite)); err != nil {
		return err
	}
	if _, err := f.w.Write(message); err != nil {
		return err
	}
	return f.control.Flush()
}
