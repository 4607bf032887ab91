package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/engines"
	"github.com/ondol-app/ondol/internal/indexer"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/settings"
	"github.com/ondol-app/ondol/internal/vector"
)

// indexForEngines is the index as a promotion needs it: the candidate's
// generation of vectors is whole before the candidate is live.
type indexForEngines struct{ p *parts }

// fillLook is the time between two looks at how far a generation has come.
const fillLook = 250 * time.Millisecond

func (i indexForEngines) Fill(ctx context.Context, setup engines.Setup, candidate *llamaserver.Server, progress func(engines.Progress)) error {
	ix := i.p.indexer
	ix.Build(candidateForIndexer{parts: i.p, setup: setup, server: candidate})
	ticker := time.NewTicker(fillLook)
	defer ticker.Stop()
	for {
		whole, err := i.whole(ctx, candidate, progress)
		if err != nil {
			ix.Build(nil)
			return err
		}
		if whole {
			return nil // Switched ends the filling: until then edits are followed
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			ix.Build(nil)
			return context.Cause(ctx)
		}
	}
}

// whole says whether the candidate's generation can serve.
func (i indexForEngines) whole(ctx context.Context, candidate *llamaserver.Server, progress func(engines.Progress)) (bool, error) {
	generations, err := i.p.indexer.Generations(ctx)
	if err != nil {
		return false, fmt.Errorf("look at the generations of vectors: %w", err)
	}
	fingerprint := candidate.Snapshot().Fingerprint
	for _, g := range generations {
		if g.Fingerprint == fingerprint {
			progress(engines.Progress{Step: engines.StepFill, Done: int(g.Embedded), Total: int(g.Texts), Waits: waits(i.p.gate.Stats())})
			return g.Serves(), nil
		}
	}
	progress(engines.Progress{Step: engines.StepFill, Waits: waits(i.p.gate.Stats())}) // it has not begun
	return false, nil
}

// waits is why work in the background lane does not go on.
func waits(now admission.Stats) engines.Wait {
	switch {
	case now.Limits.Background == 0:
		return engines.WaitsNoPermit
	case now.BackgroundWaiting > 0 && now.BackgroundExecuting == 0 && now.Waiting > 0:
		return engines.WaitsClients
	}
	return engines.NoWait
}

func (i indexForEngines) Switched(ctx context.Context) {
	if _, err := i.p.indexer.Follow(ctx); err != nil {
		i.p.logger.Info("The index follows the engine later", "error", err) // when that is ready
	}
	i.p.indexer.Build(nil)
}

// candidateForIndexer is an engine beside the one in service, whose vectors
// fill a generation of their own. It works in the background lane, as indexing
// does.
type candidateForIndexer struct {
	parts  *parts
	setup  engines.Setup
	server *llamaserver.Server
}

func (c candidateForIndexer) Embed(ctx context.Context, texts []string) ([][]float32, string, error) {
	permit, err := c.parts.gate.Acquire(ctx, admission.LaneBackground)
	if err != nil {
		return nil, "", err
	}
	defer permit.Release(admission.Uncounted)
	engine, err := c.server.Current()
	if err != nil {
		return nil, "", notReady(err)
	}
	reply, err := engine.Client.Embed(ctx, texts, vector.Expect{Count: len(texts), Dim: engine.Dim, Normalized: engine.Normalized})
	if _, long := errors.AsType[*llamaclient.ContextError](err); long && len(texts) == 1 {
		return nil, "", &indexer.RefusedError{Reason: document.ReasonTooLong, Err: err}
	}
	if err != nil {
		return nil, "", err
	}
	return reply.Vectors, engine.Fingerprint, nil
}

func (c candidateForIndexer) CountTokens(ctx context.Context, texts []string) ([]int, error) {
	engine, err := c.server.Current()
	if err != nil {
		return nil, notReady(err)
	}
	return engine.Client.CountTokens(ctx, texts)
}

func (c candidateForIndexer) Maker() (document.Maker, error) {
	engine, err := c.server.Current()
	if err != nil {
		return document.Maker{}, notReady(err)
	}
	now := c.server.Snapshot()
	return document.Maker{Fingerprint: engine.Fingerprint, Dim: engine.Dim, Model: engine.ModelName,
		Build: now.Version, Recipe: recipeOf(c.setup, now).String()}, nil
}

// inService is the engine behind the door, and how it is started again.
func (p *parts) inService() (llamaserver.Status, recipe) {
	if p.engines == nil {
		return p.engine.Snapshot(), recipe{}
	}
	setup, now := p.engines.Live()
	return now, recipeOf(setup, now)
}

// recipeOf is how the engine of that setup and status is started again.
func recipeOf(setup engines.Setup, now llamaserver.Status) recipe {
	profile, err := chooseProfile(settings.Engine{Profile: setup.Profile, Flags: setup.Flags}, now.Model.Path)
	if err != nil {
		return recipe{} // it runs, so its profile was known
	}
	return recipe{Server: setup.Server, Model: now.Model.Path, Profile: profile.Name, Flags: profile.Flags}
}
