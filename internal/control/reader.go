package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/ondol-app/ondol/internal/event"
)

// Message is one message of the stream of events. Name says which field is set.
type Message struct {
	Name   string       // MessageEvent, MessageSnapshot, MessageReset, MessageSample
	Event  *event.Event // MessageEvent
	Status *Status      // MessageSnapshot, MessageReset
	Sample *Sample      // MessageSample
}

// Seq is the number up to which f knows everything with this message; 0 for a sample.
func (m Message) Seq() uint64 {
	switch {
	case m.Event != nil:
		return m.Event.Seq
	case m.Status != nil:
		return m.Status.Seq
	}
	return 0
}

// EventsQuery chooses what a stream begins with and holds.
type EventsQuery struct {
	Since   *uint64 // number of the last event that is known; nil = begin with a snapshot
	Samples bool    // samples too

	// Lost is called when a connection breaks that was made; it is tried
	// again until there is another one. May be nil.
	Lost func(error)
}

const (
	// silence is how long a stream may be quiet before it is taken for dead:
	// three heartbeats.
	silence = 3 * heartbeat
	// Between tries to connect again.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
	// maxMessage bounds one message, in bytes: a snapshot of very many folders.
	maxMessage = 16 << 20
)

// errSilent is the cause with which a dead stream is given up.
var errSilent = errors.New("the stream of events went silent")

// Events calls f with every message, in order, until ctx ends or f returns an
// error, which it returns. A stream that breaks, as when the app starts anew,
// is taken up again after the last event that f saw, so f sees each event
// once. Only the first connection may fail: with ErrNotRunning or an *Error.
func (c *Client) Events(ctx context.Context, q EventsQuery, f func(Message) error) error {
	r := &reader{client: c, query: q, f: f}
	if q.Since != nil {
		r.after, r.begun = *q.Since, true
	}
	pause := firstRetry
	for {
		came, err := r.connect(ctx)
		var stop *stopError
		var refused *Error
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &stop):
			return stop.err
		case !r.connected, errors.As(err, &refused) && refused.Status < http.StatusInternalServerError:
			return err
		}
		if came {
			pause = firstRetry
			if q.Lost != nil {
				q.Lost(err)
			}
		}
		// Spread, so that many readers do not come back all at once.
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		pause = min(2*pause, lastRetry)
	}
}

// reader is one call of Events.
type reader struct {
	client    *Client
	query     EventsQuery
	f         func(Message) error
	connected bool   // it has been, once
	begun     bool   // after is known
	after     uint64 // number of the last event or snapshot that f saw
}

// stopError ends it all: it is f's, or about a message that cannot be read.
type stopError struct{ err error }

func (e *stopError) Error() string { return e.err.Error() }

// connect reads one connection to its end, which is always an error. came says
// whether a message did.
func (r *reader) connect(ctx context.Context) (came bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	path := "events"
	if r.query.Samples {
		path += "?samples=1"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.client.base+path, nil)
	if err != nil {
		return false, fmt.Errorf("make request of events: %w", err)
	}
	if r.begun {
		req.Header.Set("Last-Event-ID", strconv.FormatUint(r.after, 10))
	}
	watchdog := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer watchdog.Stop()
	resp, err := r.client.open(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxBody)) // what there is of it
		return false, readError(resp.StatusCode, body)
	}
	r.connected = true
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 64<<10), maxMessage)
	var m rawMessage
	for lines.Scan() {
		watchdog.Reset(silence)
		if line := lines.Bytes(); len(line) > 0 {
			m.add(line)
			continue
		}
		if m.name != "" {
			came = true
			if err := r.deliver(m); err != nil {
				return came, err
			}
		}
		m = rawMessage{data: m.data[:0]}
	}
	if err := lines.Err(); err != nil {
		return came, fmt.Errorf("read events: %w", err)
	}
	return came, io.ErrUnexpectedEOF
}

// rawMessage is a message as it stands in the stream.
type rawMessage struct {
	name string
	id   uint64
	data []byte
}

// add takes a line; comments and what is not known are left out.
func (m *rawMessage) add(line []byte) {
	field, value, _ := bytes.Cut(line, []byte(": "))
	switch string(field) {
	case "event":
		m.name = string(value)
	case "id":
		m.id, _ = strconv.ParseUint(string(value), 10, 64) // ours are numbers
	case "data":
		m.data = append(m.data[:0], value...)
	}
}

func (r *reader) deliver(raw rawMessage) error {
	m := Message{Name: raw.name}
	var into any
	switch raw.name {
	case MessageEvent:
		m.Event = new(event.Event)
		into = m.Event
	case MessageSnapshot, MessageReset:
		m.Status = new(Status)
		into = m.Status
	case MessageSample:
		m.Sample = new(Sample)
		into = m.Sample
	default:
		return nil // a newer app's
	}
	if err := json.Unmarshal(raw.data, into); err != nil {
		return &stopError{fmt.Errorf("read %s: %w", raw.name, err)} // another try would end the same
	}
	if err := r.f(m); err != nil {
		return &stopError{err}
	}
	if raw.name != MessageSample {
		r.after, r.begun = raw.id, true
	}
	return nil
}
