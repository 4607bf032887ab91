package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/engines"
	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/gateway"
	"github.com/ondol-app/ondol/internal/gpu"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/locations"
	"github.com/ondol-app/ondol/internal/settings"
	"github.com/ondol-app/ondol/internal/trial"
	"github.com/ondol-app/ondol/internal/upstream"
	"github.com/ondol-app/ondol/internal/vector"
)

// keptReports is how many reports of trials are kept.
const keptReports = 20

// trials makes trials of the app's own engine, one at a time.
type trials struct {
	server   *engines.Keeper // nil when others run the engine
	gate     *admission.Gate
	cache    func() embedding.CacheStats
	gpu      *gpu.Sampler
	endpoint func() string // base address for clients
	key      string        // to show there; empty = none
	total    time.Duration // longest exchange, from its permit
	shelf    trial.Shelf
	notify   func(event.Event)
	logger   *slog.Logger

	busy     sync.Mutex         // held by the trial under way
	stopping context.Context    // ends when Run does
	stop     context.CancelFunc // ends it
}

// newTrials joins what a trial needs; keys are those the gateway knows.
func (p *parts) newTrials(s *settings.Loaded, paths locations.Paths, keys []gateway.Key) *trials {
	t := &trials{
		gate: p.gate, cache: p.door.CacheStats, gpu: p.gpu, endpoint: p.endpoint, total: s.Admission.Total,
		shelf: trial.Shelf{Dir: paths.Trials(), Keep: keptReports}, notify: p.recorder.Notify, logger: p.logger.With("part", "trials"),
	}
	t.server = p.engines
	if len(keys) > 0 {
		t.key = keys[0].Secret
	}
	t.stopping, t.stop = context.WithCancel(context.Background())
	return t
}

// Run ends what outlasts its caller when ctx ends.
func (t *trials) Run(ctx context.Context) error {
	<-ctx.Done()
	t.stop()
	return nil
}

// Verify makes a trial and keeps its report.
func (t *trials) Verify(ctx context.Context, options trial.Options, progress func(trial.Progress)) (trial.Report, error) {
	if t.server == nil {
		return trial.Report{}, notOurs()
	}
	if !t.busy.TryLock() {
		return trial.Report{}, &control.Error{Status: http.StatusConflict, Code: control.CodeVerifyRunning,
			Message: "a trial is running already", Remedy: "wait for its end", Args: map[string]string{"part": "verify"}}
	}
	defer t.busy.Unlock()
	if err := t.server.Awaken(ctx); err != nil {
		return trial.Report{}, err
	}
	now, done, err := t.server.Borrow() // a promotion meanwhile does not end it
	if err != nil {
		return trial.Report{}, err
	}
	defer done()
	endpoint := trial.NewEndpoint(t.endpoint(), t.key, now.ModelName, now.Dim)
	defer endpoint.Close()
	report, err := trial.Run(ctx, trial.Config{
		Options: options, Version: Version, Count: now.Client.CountTokens, Machine: trial.ThisMachine(), Settle: t.total, Progress: progress,
		GPU: func() func() trial.GPU { return othersOnGPU(t.gpu) },
		Cache: func() trial.CacheCounts {
			stats := t.cache()
			return trial.CacheCounts{Hits: stats.Hits, Joins: stats.Joins, Misses: stats.Misses}
		},
		Targets: []trial.Target{
			{Name: "direct", Embedder: directPath{now}, Engine: t.engine, Hold: t.hold},
			{Name: "gateway", Embedder: endpoint, Engine: t.engine, Gate: t.gate},
		},
	})
	if err != nil {
		return trial.Report{}, err
	}
	t.notify(report.News())
	t.logger.Info("Trial ended", "id", report.ID, "pass", report.Verdict.Pass, "took", report.Ended.Sub(report.Started))
	if err := t.shelf.Save(report); err != nil {
		t.logger.Error("The report of a trial is not kept", "error", err) // its reader has it all the same
	}
	return report, nil
}

func (t *trials) Reports() ([]trial.Report, error) { return t.shelf.List() }

// engine is what makes the vectors now.
func (t *trials) engine() (trial.Engine, error) {
	now, err := t.server.Current()
	if err != nil {
		return trial.Engine{}, err
	}
	status := t.server.Snapshot()
	return trial.Engine{
		Generation: now.Generation, Fingerprint: now.Fingerprint, Model: now.ModelName, Dimension: now.Dim,
		MaxTokens: now.MaxTokens, Normalized: now.Normalized, Build: status.Version, Profile: status.Profile, Flags: status.Flags,
	}, nil
}

// directPath is the engine's own connection, past the gate.
type directPath struct{ now llamaserver.Instance }

func (d directPath) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	reply, err := d.now.Client.Embed(ctx, texts, vector.Expect{Dim: d.now.Dim, Normalized: d.now.Normalized})
	return reply.Vectors, err
}

// hold takes every permit of the gate, so that requests past the gate meet
// nobody at the engine. It queues as a client for the first, and has the others
// as they become free: whoever stands behind it came later.
func (t *trials) hold(ctx context.Context) (free func(abandoned bool), err error) {
	limit, cancel := context.WithTimeout(ctx, t.total) // nobody holds one longer
	defer cancel()
	var permits []*admission.Permit
	release := func() {
		for _, permit := range permits {
			permit.Release(admission.Uncounted)
		}
	}
	lane := admission.LaneClient
	for range t.gate.Stats().Limits.Executing {
		permit, err := t.gate.Acquire(limit, lane)
		if err != nil {
			release()
			return nil, err
		}
		permits, lane = append(permits, permit), admission.LaneUpkeep
	}
	since := time.Now()
	now, err := t.server.Current()
	if err != nil {
		release()
		return nil, err
	}
	return func(abandoned bool) {
		if abandoned {
			for _, permit := range permits {
				permit.Drain()
			}
			t.outlast(now, t.total-time.Since(since))
		}
		release()
	}, nil
}

// Between two questions whether the engine is at rest; it looks for callers
// that left once a second.
const restPause = 500 * time.Millisecond

// outlast returns when the engine is at rest: it says so twice in a row, since
// requests that wait inside it are in no slot. One that does not come to rest
// within limit is replaced.
func (t *trials) outlast(now llamaserver.Instance, limit time.Duration) {
	ctx, cancel := context.WithTimeout(t.stopping, limit)
	defer cancel()
	for quiet := 0; quiet < 2; {
		select {
		case <-time.After(restPause):
		case <-ctx.Done():
			if t.stopping.Err() == nil {
				t.replace(now.Generation)
			}
			return
		}
		busy, err := now.Client.Busy(ctx)
		switch {
		case err == nil && busy == 0:
			quiet++
		case err == nil:
			quiet = 0
		case errors.Is(err, upstream.ErrConnect) || t.gone(now.Generation):
			return
		}
	}
}

func (t *trials) gone(generation uint64) bool {
	now, err := t.server.Current()
	return err == nil && now.Generation != generation
}

func (t *trials) replace(generation uint64) {
	err := t.server.Replace(t.stopping, generation, "work given up by a trial does not end")
	if err != nil && t.stopping.Err() == nil {
		t.logger.Error("Replace an engine that does not end its work", "generation", generation, "error", err)
	}
}
