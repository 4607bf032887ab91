package app

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/gateway"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/prom"
)

// ledgerWait bounds how long a scrape waits for the index; without it the
// scrape goes out with everything else.
const ledgerWait = 2 * time.Second

// metrics is what GET /metrics answers, from the parts' own numbers.
func (p *parts) metrics() (http.Handler, error) {
	config := prom.Config{
		Roles: []prom.Role{{Name: "embed", Admission: p.gate.Stats, Validity: p.door.Validity, Engine: p.engineState}},
		Cache: func() prom.Cache {
			now := p.door.CacheStats()
			return prom.Cache{Hits: now.Hits, Misses: now.Misses, Joins: now.Joins, Entries: int64(now.Entries), Bytes: now.Bytes}
		},
		Index: p.indexState,
		GPU:   p.gpuState, Yielding: p.yieldState,
	}
	for _, r := range p.roles {
		config.Roles = append(config.Roles, prom.Role{Name: r.name.String(), Admission: r.gate.Stats})
	}
	collector, err := prom.New(config)
	if err != nil {
		return nil, err
	}
	return prom.Handler(collector)
}

func (p *parts) engineState() prom.Engine {
	now := p.engine.Snapshot()
	return prom.Engine{Ready: now.State == llamaserver.Ready, Restarts: now.Restarts}
}

func (p *parts) indexState() (prom.Index, error) {
	ctx, cancel := context.WithTimeout(context.Background(), ledgerWait)
	defer cancel()
	folders, err := p.index.Folders(ctx)
	if err != nil {
		return prom.Index{}, err
	}
	var counts document.Counts
	for _, f := range folders {
		counts = counts.Add(f.Counts)
	}
	stats := p.indexer.Stats()
	return prom.Index{Counts: counts, Folders: len(folders), EmbeddedChunks: stats.EmbeddedChunks, ReusedChunks: stats.ReusedChunks}, nil
}

// modelFacts is what Ollama's lists show of the model. A remote engine's model
// has no file here: its lists show the name alone.
func (p *parts) modelFacts() gateway.ModelFacts {
	model := p.engine.Snapshot().Model
	facts := gateway.ModelFacts{Architecture: model.Architecture, SHA256: model.SHA256}
	if !filepath.IsAbs(model.Path) {
		return facts
	}
	if file, err := os.Stat(model.Path); err == nil {
		facts.Bytes, facts.Modified = file.Size(), file.ModTime()
	}
	return facts
}
