package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/power"
)

// idler unloads the engine when nobody has used it for as long as its owner
// keeps it on what the machine lives on. Whoever needs it again starts it.
type idler struct {
	engine interface {
		Unused() (since time.Time, ok bool)
		Unload(ctx context.Context, since time.Time) error
	}
	source func() power.Source
	limit  func(power.Source) time.Duration // as set now; 0 = it stays
	logger *slog.Logger
}

func newIdler(p *parts) *idler {
	return &idler{engine: p.engines, source: power.Now, limit: p.keepLoaded, logger: p.logger.With("part", "idle")}
}

// keepLoaded is how long an unused engine is kept on that source; 0 = always.
func (p *parts) keepLoaded(source power.Source) time.Duration {
	now := p.settings.Now().Engine
	if source == power.Battery {
		return now.UnloadOnBattery
	}
	return now.UnloadOnPower
}

// idleLook is the longest time between two looks: the machine may be unplugged
// meanwhile, or the settings changed.
const idleLook = time.Minute

// run looks until ctx ends.
func (i *idler) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		timer.Reset(i.look(ctx))
	}
}

// look unloads the engine if that is due, and says when it may be next.
func (i *idler) look(ctx context.Context) time.Duration {
	source := i.source()
	limit := i.limit(source)
	if limit == 0 {
		return idleLook
	}
	again := min(limit, idleLook)
	since, ok := i.engine.Unused()
	if !ok {
		return again
	}
	unused := time.Since(since)
	if unused < limit {
		return min(limit-unused, again)
	}
	err := i.engine.Unload(ctx, since)
	switch {
	case err == nil:
		i.logger.Info("The engine is unloaded", "unused", unused.Round(time.Second), "power", source)
	case !errors.Is(err, llamaserver.ErrInUse) && ctx.Err() == nil:
		i.logger.Error("Unload the engine", "error", err)
	}
	return again
}
