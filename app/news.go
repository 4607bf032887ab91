package app

import (
	"context"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/history"
	"github.com/ondol-app/ondol/internal/process"
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

// figures are what the history keeps.
func (p *parts) figures(ctx context.Context) (history.Reading, error) {
	gate := p.gate.Stats()
	standing, err := p.index.Standing(ctx)
	if err != nil {
		return history.Reading{}, err
	}
	now := history.Reading{
		At: time.Now(), Executing: gate.Executing, Draining: gate.Draining, Waiting: gate.Waiting, Background: gate.BackgroundExecuting,
		OldestWait: time.Duration(gate.OldestWaitMS) * time.Millisecond, Outcomes: make(map[string]uint64, len(gate.Totals)),
		Wait: gate.WaitSeconds, Service: gate.ServiceSeconds, Pending: standing.Pending,
	}
	for outcome, count := range gate.Totals {
		now.Outcomes[outcome.String()] = count
	}
	now.RSS, _ = process.Resident() // 0 where it is not known
	now.GPU = p.gpuFigures()
	return now, nil
}
