package indexer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ondol-app/ondol/internal/document"
)

// Place is what a generation of vectors has to do with the engines that run.
type Place string

const (
	InService Place = "in_service" // queries are embedded by its engine
	Candidate Place = "candidate"  // its engine runs beside the one in service and fills it
	Kept      Place = "kept"       // its engine does not run
)

// String returns the place as it stands in JSON.
func (p Place) String() string { return string(p) }

// Generation is a generation of vectors with what the indexer knows of it.
type Generation struct {
	document.Generation
	Place Place `json:"place"`
	// Remaining is about how many seconds its engine needs for what is missing,
	// at the speed of the last minutes; nil when nothing is, or none was measured.
	Remaining *int64 `json:"remaining_s,omitempty"`
	// Refused is how many of the missing ones a candidate gives no vector for,
	// as far as it has come; 0 for any other.
	Refused int64 `json:"refused,omitempty"`
}

// Serves reports whether queries can be compared with it as with the one in
// service: it was whole once, and nothing is missing now that can be had.
func (g Generation) Serves() bool { return g.Whole() && g.Missing() <= g.Refused }

// Generations lists the generations, oldest first.
func (ix *Indexer) Generations(ctx context.Context) ([]Generation, error) {
	stored, err := ix.cfg.Store.Generations(ctx)
	if err != nil {
		return nil, err
	}
	served := ix.served.Load()
	candidate, refused := ix.filler.fingerprint()
	all := make([]Generation, len(stored))
	for i, g := range stored {
		all[i] = Generation{Generation: g, Place: Kept}
		switch {
		case served != nil && g.Fingerprint == served.Fingerprint:
			all[i].Place = InService
		case g.Fingerprint == candidate:
			all[i].Place, all[i].Refused = Candidate, refused
		default:
			continue
		}
		if left, ok := ix.speed.left(g.Fingerprint, g.Missing(), ix.cfg.Now()); ok {
			seconds := int64(left.Round(time.Second) / time.Second)
			all[i].Remaining = &seconds
		}
	}
	return all, nil
}

// Follow takes the generation of the engine in service into use at once, as
// EngineChanged does soon after: its state, and that of every document, are
// those of the engine that queries are embedded by now.
func (ix *Indexer) Follow(ctx context.Context) (document.Generation, error) {
	maker, err := ix.cfg.Embedder.Maker()
	if err != nil {
		return document.Generation{}, fmt.Errorf("follow the engine: %w", err)
	}
	ix.engine.changed()
	return ix.serve(ctx, maker)
}

// serve tells the store which vectors queries are embedded to now.
func (ix *Indexer) serve(ctx context.Context, maker document.Maker) (document.Generation, error) {
	ix.serving.Lock()
	defer ix.serving.Unlock()
	g, embedding, err := ix.cfg.Store.Serve(ctx, maker)
	if err != nil {
		return g, err
	}
	ix.noteServed(g)
	if embedding > 0 {
		ix.cfg.Log.Info("Documents are embedded again", "count", embedding, "model", g.Model, "fingerprint", g.Fingerprint)
	}
	ix.queue.kick(stageText)
	ix.queue.kick(stageVectors)
	ix.filler.kick()
	return g, nil
}

// noteServed remembers the generation in service. With ix.serving held.
func (ix *Indexer) noteServed(g document.Generation) {
	if before := ix.served.Swap(&g); before == nil || before.Fingerprint != g.Fingerprint || before.State != g.State {
		ix.cfg.Log.Info("Generation of vectors in service", "model", g.Model, "fingerprint", g.Fingerprint, "state", g.State, "missing", g.Missing())
	}
}

// ensure is serve for vectors that the store has not been told of.
func (ix *Indexer) ensure(ctx context.Context, maker document.Maker) error {
	if served := ix.served.Load(); served != nil && served.Fingerprint == maker.Fingerprint {
		return nil
	}
	_, err := ix.serve(ctx, maker)
	return err
}

// finish asks the store whether the generation in service has become whole.
func (ix *Indexer) finish(ctx context.Context) error {
	ix.serving.Lock()
	defer ix.serving.Unlock()
	served := ix.served.Load()
	if served == nil || !served.Completed.IsZero() {
		return nil
	}
	g, err := ix.cfg.Store.Finish(ctx, served.Fingerprint, true, 0)
	if err == nil {
		ix.noteServed(g)
	}
	return err
}

// lookWhole asks for finish, where there is anything to ask.
func (ix *Indexer) lookWhole() {
	if served := ix.served.Load(); served != nil && served.Completed.IsZero() {
		signal(ix.whole)
	}
}

const (
	// collectEvery is how often generations whose time has come are looked for.
	collectEvery = time.Hour
	// collectStep is how many vectors one transaction removes.
	collectStep = 256
	// collectPause leaves the store to others between two of those.
	collectPause = 50 * time.Millisecond
)

// collect removes the vectors of generations that have not been in use for
// long, a few at a time.
func (ix *Indexer) collect(ctx context.Context) error {
	tick := time.NewTicker(collectEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ix.collectNow: // the engine in service is known from now on
		case <-tick.C:
		}
		for more := true; more; {
			served := ix.served.Load()
			if served == nil {
				break // it may be the one whose time has come
			}
			inUse := []string{served.Fingerprint}
			if candidate, _ := ix.filler.fingerprint(); candidate != "" && !slices.Contains(inUse, candidate) {
				inUse = append(inUse, candidate)
			}
			var err error
			if more, err = ix.cfg.Store.Collect(ctx, ix.cfg.Keep, inUse, collectStep); err != nil {
				if err := ix.storeFailed(ctx, "Remove vectors", err); err != nil {
					return err
				}
				break
			}
			if more {
				if err := pause(ctx, collectPause); err != nil {
					return err
				}
			}
		}
	}
}
