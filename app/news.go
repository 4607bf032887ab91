package app

import (
	"context"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/upstream"
)

// What the app as a whole tells of.
const (
	KindAppStarted  event.Kind = "app.started"  // version
	KindAppStopping event.Kind = "app.stopping" // version
)

// announce records when the app begins to serve and when it was told to stop.
// An app that began twice in a row was killed in between.
func (p *parts) announce(ctx context.Context) error {
	p.recorder.Notify(event.New(KindAppStarted, "version", Version))
	<-ctx.Done()
	p.recorder.Notify(event.New(KindAppStopping, "version", Version))
	return nil
}

// watchOverload records the overloads of a role's gate.
func (p *parts) watchOverload(role upstream.Role, gate *admission.Gate) {
	gate.Watch(func(e admission.Episode) { p.recorder.Notify(e.Event(role.String())) })
}
