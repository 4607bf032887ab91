package app

import (
	"context"
	"log/slog"

	"github.com/ondol-app/ondol/internal/trust"
)

// evidenceQueue bounds what waits for the database; an engine that fails
// faster than that has told enough.
const evidenceQueue = 16

// evidenceKeeper stores what engines leave behind when they fail. keep may be
// called from any goroutine and returns at once.
type evidenceKeeper struct {
	store interface {
		AddEvidence(ctx context.Context, e trust.Evidence) error
	}
	queue  chan trust.Evidence
	logger *slog.Logger
}

func (k *evidenceKeeper) keep(e trust.Evidence) {
	select {
	case k.queue <- e:
	default:
		k.logger.Warn("Evidence is not kept: too much at once", "code", e.Code)
	}
}

// Run stores until ctx ends, and then what is left.
func (k *evidenceKeeper) Run(ctx context.Context) error {
	for {
		select {
		case e := <-k.queue:
			k.save(ctx, e)
		case <-ctx.Done():
			for {
				select {
				case e := <-k.queue:
					k.save(ctx, e)
				default:
					return nil
				}
			}
		}
	}
}

func (k *evidenceKeeper) save(ctx context.Context, e trust.Evidence) {
	if err := k.store.AddEvidence(context.WithoutCancel(ctx), e); err != nil {
		k.logger.Error("Keep evidence", "code", e.Code, "err", err)
	}
}
