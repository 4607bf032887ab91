package cli

import (
	"context"
	"time"

	"github.com/ondol-app/ondol/internal/control"
)

// redrawEvery is the shortest time between two looks at the whole status.
const redrawEvery = 250 * time.Millisecond

// watchStatus shows the status and keeps it current, by what the app tells: a
// screen that is drawn anew, or a status for each change (JSON), or the status
// and then a line for each event, where nothing can be drawn over.
func (c *commands) watchStatus(ctx context.Context, client *control.Client) error {
	w := &watching{commands: c, client: client}
	return client.Events(ctx, control.EventsQuery{Samples: true, Lost: c.lost}, func(m control.Message) error { return w.take(ctx, m) })
}

// watching is what is shown, and whether the app knows more.
type watching struct {
	*commands
	client *control.Client
	status control.Status
	looked time.Time // when status was read
	stale  bool      // an event came since
}

func (w *watching) take(ctx context.Context, m control.Message) error {
	lines := !w.asJSON && !w.term.interactive
	switch {
	case m.Status != nil:
		w.status, w.looked, w.stale = *m.Status, time.Now(), false
	case m.Event != nil && lines:
		w.showEvent(*m.Event)
		return nil
	case m.Event != nil:
		w.stale = true
	case m.Sample != nil && lines:
		return nil
	case m.Sample != nil:
		m.Sample.Apply(&w.status)
	}
	// Samples come at least once a second, so a change waits no longer.
	if w.stale && time.Since(w.looked) >= redrawEvery {
		status, err := w.client.Status(ctx)
		if err != nil {
			return nil // it is going away; the stream will say so
		}
		w.status, w.looked, w.stale = status, time.Now(), false
	}
	if w.stale {
		return nil
	}
	if w.asJSON {
		return w.json(w.status, true)
	}
	if w.term.interactive {
		w.term.clear()
	}
	w.showStatus(w.status)
	return nil
}
