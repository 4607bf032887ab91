package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/chunk"
	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/engines"
	"github.com/ondol-app/ondol/internal/extract"
	"github.com/ondol-app/ondol/internal/gateway"
	"github.com/ondol-app/ondol/internal/gpu"
	"github.com/ondol-app/ondol/internal/history"
	"github.com/ondol-app/ondol/internal/indexer"
	"github.com/ondol-app/ondol/internal/journal"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/locations"
	"github.com/ondol-app/ondol/internal/mcpserver"
	"github.com/ondol-app/ondol/internal/models"
	"github.com/ondol-app/ondol/internal/models/pull"
	"github.com/ondol-app/ondol/internal/power"
	"github.com/ondol-app/ondol/internal/search"
	"github.com/ondol-app/ondol/internal/settings"
	"github.com/ondol-app/ondol/internal/sqlite"
	"github.com/ondol-app/ondol/internal/trust"
	"github.com/ondol-app/ondol/internal/upstream"
	"github.com/ondol-app/ondol/internal/vectorcache"
	"github.com/ondol-app/ondol/internal/yielding"
)

// parts is the app put together, ready to run. Every part is built once, in
// the order of the fields, and knows only what wire handed to it.
type parts struct {
	machine  models.Machine // zero when the system does not tell
	ground   *ground
	settings *settings.Live
	level    *slog.LevelVar // of the log
	models   library
	logger   *slog.Logger
	index    *sqlite.DB
	recorder *journal.Recorder
	evidence *evidenceKeeper
	engine   embedder
	engines  *engines.Keeper // nil where somebody else's engine embeds
	idler    *idler          // nil with it
	gate     *admission.Gate
	alone    bool // the engine was never tried with two texts at once: nobody wanted that when the app started
	clock    *power.Clock
	recent   *history.History
	gpu      *gpu.Sampler
	yielder  *yielding.Yielder
	door     *embedding.Service
	cache    *vectorcache.Cache
	roles    []*role // beside embedding
	indexer  *indexer.Indexer
	search   *search.Searcher
	pulls    *pull.Manager
	trials   *trials
	gateway  *gateway.Gateway
	control  *control.Server
	mcp      *mcpserver.Server
}

// wire builds the parts, opens the database and takes the two addresses, so
// that whatever keeps the app from starting is known before anything runs.
// machine is asked for what tells of its GPUs when somebody looks.
func wire(ctx context.Context, sources settings.Config, s *settings.Loaded, paths locations.Paths, logger *slog.Logger, level *slog.LevelVar, machine func() gpu.Source) (*parts, error) {
	p := &parts{logger: logger, level: level}
	if err := p.build(ctx, sources, s, paths, machine); err != nil {
		return nil, errors.Join(startError(err), p.abandon())
	}
	return p, nil
}

// abandon closes what build had opened before it failed.
func (p *parts) abandon() error {
	var err error
	if p.index != nil {
		err = p.index.Close()
	}
	if p.cache != nil {
		err = errors.Join(err, p.cache.Close())
	}
	return err
}

func (p *parts) build(ctx context.Context, sources settings.Config, s *settings.Loaded, paths locations.Paths, machine func() gpu.Source) error {
	executable, err := os.Executable()
	if err == nil {
		executable, err = filepath.EvalSymlinks(executable)
	}
	if err != nil {
		return fmt.Errorf("find our own program: %w", err)
	}
	if p.machine, err = models.ThisMachine(); err != nil {
		p.logger.Warn("starts are not checked for memory", "error", err)
	}
	p.ground = newGround(p.machine, paths, executable, p.engineVersion)
	if err := p.ground.holds(&s.Settings); err != nil {
		return err
	}
	if p.index, err = sqlite.OpenConfig(ctx, sqlite.Config{
		Path: paths.Database(), Events: s.Journal.Events, EventAge: s.Journal.Age,
	}); err != nil {
		return err
	}
	p.recorder = journal.NewRecorder(p.index, p.logger.With("part", "journal"))
	p.settings = settings.NewLive(settings.LiveConfig{
		Config: sources, Facts: p.ground.facts, Apply: p.apply, Notify: p.recorder.Notify, Logger: p.logger.With("part", "settings"),
	}, s)
	p.models = newLibrary(p.settings, paths, executable, p.machine, func() llamaserver.Status { return p.engine.Snapshot() },
		func() *engines.Keeper { return p.engines })
	p.evidence = &evidenceKeeper{store: p.index, queue: make(chan trust.Evidence, evidenceQueue), logger: p.logger.With("part", "evidence")}
	for _, name := range []upstream.Role{upstream.RoleRerank, upstream.RoleChat} {
		r, err := wireRole(name, s, paths, p.logger, p.recorder.Notify, p.memoryCheck(s, nil))
		if err != nil {
			return err
		}
		if r != nil {
			p.watchOverload(name, r.gate)
			p.roles = append(p.roles, r)
		}
	}
	if p.gate, err = admission.NewGate(gateLimits(&s.Settings)); err != nil {
		return err
	}
	p.alone = s.Admission.Executing == 1
	p.watchOverload(upstream.RoleEmbed, p.gate)
	p.recent = history.New(history.Config{Read: p.figures, Busy: p.gate.Busy()})
	if err := p.watchMachine(&s.Settings, machine); err != nil {
		return err
	}
	engine, err := p.embedEngine(s, paths)
	if err != nil {
		return err
	}
	if p.cache, err = newCache(ctx, s.Cache, paths, p.logger.With("part", "cache")); err != nil {
		return err
	}
	checker, ours := p.engine.(embedding.Checker) // nobody but who runs an engine can look after it
	var woke func() time.Time
	if ours {
		p.clock = power.NewClock(power.ClockConfig{
			Notify: p.recorder.Notify, OnWake: func() { p.door.Doubt() }, Logger: p.logger.With("part", "power"),
		})
		woke = p.clock.Woke
	}
	if p.door, err = embedding.New(embedding.Config{
		Gate: p.gate, Engine: engine, Cache: p.cache, Total: s.Admission.Total,
		Quarantine: p.index, Checker: checker, CheckEvery: s.Engine.CheckEvery, Woke: woke,
		Notify: p.recorder.Notify, Logger: p.logger.With("part", "door"),
	}); err != nil {
		return err
	}
	if p.indexer, err = indexer.New(indexer.Config{
		Store: p.index, Embedder: doorForIndexer{door: p.door, engine: p.inService}, Log: p.logger.With("part", "indexer"),
		DefaultIgnores: true, Own: []string{paths.Data, paths.Logs, paths.Cache, paths.Run},
		Limits:    extract.Limits{MaxBytes: int64(s.Index.MaxFile) << 20},
		ChunkSize: chunk.Size{Min: s.Index.ChunkMin, Max: s.Index.ChunkMax}, Readers: s.Index.Readers,
		Rescan: s.Index.Reconcile, Keep: s.Index.KeepGenerations,
	}); err != nil {
		return err
	}
	if p.search, err = search.New(search.Config{Store: p.index, Embedder: doorForSearch{p.door}, Trust: searchTrust(p.engine.Snapshot)}); err != nil {
		return err
	}
	if p.pulls, err = newPulls(s.Models, paths, p.recorder.Notify, p.logger.With("part", "models")); err != nil {
		return err
	}
	return p.surfaces(s, paths)
}

// embedEngine builds what embeds, and returns it as the door sees it.
func (p *parts) embedEngine(s *settings.Loaded, paths locations.Paths) (embedding.Engine, error) {
	if chosen := s.Roles.Embed; chosen.Remote() {
		engine, err := newRemote(upstream.RoleEmbed, chosen, p.logger, p.recorder.Notify)
		if err != nil {
			return nil, fmt.Errorf("roles.embed: %w", err)
		}
		p.engine = remoteEmbedder{engine}
		return remoteForDoor{engine}, nil
	}
	keeper, err := p.keeper(s, paths)
	if err != nil {
		return nil, err
	}
	p.engine, p.engines = keeper, keeper
	p.idler = newIdler(p)
	return engineForDoor{keeper, s.Engine.LongestInput}, nil
}

// surfaces builds what others reach the app by, and takes its addresses.
func (p *parts) surfaces(s *settings.Loaded, paths locations.Paths) error {
	token, err := gateway.Token(paths.Token())
	if err != nil {
		return err
	}
	var keys []gateway.Key
	if s.RequireKey || s.DecodeTokenIDs != "" {
		keys = []gateway.Key{{Name: "token", Secret: token, DecodeTokenIDs: s.DecodeTokenIDs}}
	}
	p.trials = p.newTrials(s, paths, keys)
	if p.control, err = control.New(control.Config{
		Version: Version, Socket: paths.ControlSocket(), Endpoint: p.endpoint,
		Engine: p.engine, Candidates: p.candidates(), Gate: p.gate, Trust: trustForControl{p.door, p.index}, Validity: validityForControl(p.door), Cache: p.door.CacheStats, GPU: p.gpu.Look, Yielding: p.yielder.State,
		Indexer: indexerForControl{p.indexer}, Index: p.index, Journal: p.index, Recent: p.recent, Search: p.search, Pulls: p.pulls, Models: p.models,
		Settings: settingsForControl{p}, Roles: p.roleStatus, Trials: p.trials, Logger: p.logger.With("part", "control"),
	}); err != nil {
		return err
	}
	if p.mcp, err = mcpserver.New(mcpserver.Config{Version: Version, App: p.control.Direct()}); err != nil {
		return err
	}
	config := gateway.Config{
		Embedder: p.door, Listen: s.Listen, Aliases: s.Aliases, AllowedOrigins: s.AllowedOrigins, RequireKey: s.RequireKey, Keys: keys,
		Control: p.control.Handler(), MCP: p.mcp, Token: token, Model: p.modelFacts, Logger: p.logger.With("part", "gateway"),
	}
	if r := p.role(upstream.RoleChat); r != nil {
		config.Chat = r.door
	}
	if r := p.role(upstream.RoleRerank); r != nil {
		config.Reranker = r.door
	}
	if config.Metrics, err = p.metrics(); err != nil {
		return err
	}
	if p.gateway, err = gateway.New(config); err != nil {
		return err
	}
	if err := p.gateway.Listen(); err != nil {
		return listenError(err, s.Listen)
	}
	return p.control.Listen()
}

// endpoint is the base address for clients.
func (p *parts) endpoint() string { return "http://" + p.gateway.Address() + "/v1" }

// stages is the order of life: each stage may rely on those before it, and
// ends before they do. Stop intake, drain HTTP, stop the engine, let the door
// see its last exchanges fail, close the databases.
func (p *parts) stages() [][]service {
	gates := []service{{"gate", p.gate.Run}, {"door", p.door.Run}}
	engines := []service{{"engine", p.engine.Run}}
	for _, r := range p.roles {
		gates = append(gates, service{r.name.String() + " gate", r.gate.Run}, service{r.name.String() + " door", r.door.Run})
		engines = append(engines, service{r.name.String() + " engine", r.engine.Run})
	}
	top := []service{{"announcer", p.announce}, {"history", p.recent.Run}, {"gpu", p.gpu.Run}, {"yielder", p.yielder.Run}, {"indexer", p.indexer.Run}, {"engine watch", p.watchEngine}, {"settings", p.settings.Run}, {"models", p.pulls.Run}, {"trials", p.trials.Run}, {"gateway", p.gateway.Run}, {"mcp", p.mcp.Run}, {"control", p.control.Run}}
	if p.engines != nil {
		top = append(top, service{"power", p.clock.Run}, service{"idle", p.idler.run})
	}
	return [][]service{
		{{"index", func(ctx context.Context) error {
			<-ctx.Done()
			return p.index.Close()
		}}, {"cache", p.cache.Run}},
		{{"journal", p.recorder.Run}, {"evidence", p.evidence.Run}},
		gates,
		engines,
		top,
	}
}
