package indexer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ondol-app/ondol/internal/chunk"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/extract"
	"github.com/ondol-app/ondol/internal/watch"
)

// Defaults of Config.
const (
	DefaultRescan = 10 * time.Minute
	DefaultHold   = time.Second
	DefaultKeep   = 7 * 24 * time.Hour
	// retryTick is how often failed documents are looked through for those due.
	retryTick = 30 * time.Second
)

// Config is what an Indexer needs. Store and Embedder are required.
type Config struct {
	Store    Store
	Embedder Embedder
	Log      *slog.Logger // default slog.Default()

	DefaultIgnores bool           // leave out what nobody searches for; see ignore.Defaults
	Own            []string       // directories that Ondol writes to, absolute: never indexed, never entered
	Limits         extract.Limits // zero means extract.DefaultLimits
	ChunkSize      chunk.Size     // zero means chunk.DefaultSize
	Readers        int            // files read at a time (default: the cores, at most 4)
	Rescan         time.Duration  // between complete scans that nothing asked for, ± 25 % (default 10 min)
	Hold           time.Duration  // aimed at as the longest hold of the engine's permit (default 1 s)
	Keep           time.Duration  // how long vectors are kept whose engine is not there any more (default 7 days)
	Watch          watch.Config   // times and notifier of the watchers; Root and Skip are set here

	Now     func() time.Time                        // default time.Now
	ReadDir func(dir string) ([]fs.DirEntry, error) // lists a directory of a folder (default os.ReadDir)
}

// Indexer keeps watched folders searchable. Run must be running for Add,
// Remove, Rescan and Retry to return.
type Indexer struct {
	cfg      Config
	queue    *queue
	engine   *engineGate
	filler   *filler
	speed    *speeds
	stats    counters
	requests chan request  // to the goroutine of supervise
	requeue  chan struct{} // 1-buffered: the engine may give other vectors now
	whole    chan struct{} // 1-buffered: the generation in service may be whole now

	collectNow chan struct{} // 1-buffered: the generation in service is known

	serving sync.Mutex                          // one at a time tells the store which generation is in service
	served  atomic.Pointer[document.Generation] // the one it was told last, as it stood then; nil before; written with serving held

	mu     sync.RWMutex // guards actors, which only supervise writes
	actors map[document.FolderID]*running
}

// running is an actor and the means to end it.
type running struct {
	*actor
	cancel context.CancelFunc
	ended  chan struct{}
}

// request is a function for the goroutine of supervise.
type request struct {
	do    func(ctx context.Context) error
	reply chan error // 1-buffered
}

// New checks the configuration. It touches neither store nor files.
func New(cfg Config) (*Indexer, error) {
	if cfg.Store == nil || cfg.Embedder == nil {
		return nil, errors.New("indexer: Store and Embedder are required")
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.ReadDir == nil {
		cfg.ReadDir = os.ReadDir
	}
	if cfg.Readers <= 0 {
		cfg.Readers = min(runtime.NumCPU(), 4)
	}
	if cfg.Rescan <= 0 {
		cfg.Rescan = DefaultRescan
	}
	if cfg.Hold <= 0 {
		cfg.Hold = DefaultHold
	}
	if cfg.Keep <= 0 {
		cfg.Keep = DefaultKeep
	}
	ix := &Indexer{
		cfg: cfg, queue: newQueue(cfg.Store, cfg.Now), engine: newEngineGate(), speed: newSpeeds(),
		requests: make(chan request), requeue: make(chan struct{}, 1), whole: make(chan struct{}, 1), collectNow: make(chan struct{}, 1),
		actors: make(map[document.FolderID]*running),
	}
	ix.filler = newFiller(ix)
	return ix, nil
}

// Run scans, watches, reads and embeds until ctx is done, and returns its
// error. Errors of the store are logged and tried again: they end nothing.
func (ix *Indexer) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return ix.supervise(ctx) })
	for range ix.cfg.Readers {
		g.Go(func() error { return ix.readText(ctx) })
	}
	g.Go(func() error {
		e := &embedder{ix: ix, pace: pacer{hold: ix.cfg.Hold}}
		return e.run(ctx)
	})
	g.Go(func() error { return ix.filler.run(ctx) })
	g.Go(func() error { return ix.maintain(ctx) })
	g.Go(func() error { return ix.collect(ctx) })
	return g.Wait()
}

// supervise owns the set of actors: it starts those of the known folders, then
// serves requests. It returns when every actor has.
func (ix *Indexer) supervise(ctx context.Context) error {
	defer func() {
		for _, r := range ix.actors {
			r.cancel()
		}
		for _, r := range ix.actors {
			<-r.ended
		}
	}()
	for {
		folders, err := ix.cfg.Store.Folders(ctx)
		if err == nil {
			for _, f := range folders {
				if err := ix.start(ctx, f); err != nil {
					return err
				}
			}
			break
		}
		if err := ix.storeFailed(ctx, "List folders", err); err != nil {
			return err
		}
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case r := <-ix.requests:
			r.reply <- r.do(ctx)
		}
	}
}

// start runs the actor of a folder. On the goroutine of supervise.
func (ix *Indexer) start(ctx context.Context, f document.Folder) error {
	a, err := newActor(ix, f)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &running{actor: a, cancel: cancel, ended: make(chan struct{})}
	ix.mu.Lock()
	ix.actors[f.ID] = r
	ix.mu.Unlock()
	ix.queue.addFolder(f.ID)
	go func() {
		defer close(r.ended)
		if err := a.run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			ix.cfg.Log.Error("Folder stopped", "folder", f.Path, "err", err)
		}
	}()
	return nil
}

// maintain follows the engine in service, switches to its generation when that
// is whole, and looks for failed documents that are due. EngineChanged, the
// workers and the clock are its only reasons.
func (ix *Indexer) maintain(ctx context.Context) error {
	tick := time.NewTicker(retryTick)
	defer tick.Stop()
	ix.EngineChanged() // what the engine gives now may differ from the last time
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			ix.queue.kick(stageText)
			ix.filler.kick()
			signal(ix.whole)
		case <-ix.whole:
			if err = ix.finish(ctx); err != nil {
				signal(ix.whole)
			}
		case <-ix.requeue:
			maker, down := ix.cfg.Embedder.Maker()
			if down != nil {
				continue // the engine tells when it is there
			}
			if _, err = ix.serve(ctx, maker); err != nil {
				signal(ix.requeue)
			} else {
				signal(ix.collectNow)
			}
		}
		if err == nil {
			continue
		}
		if err := ix.storeFailed(ctx, "Follow the engine", err); err != nil {
			return err
		}
	}
}

// signal fills a 1-buffered channel.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// EngineChanged tells that the engine came, went or gives other vectors now.
// It returns at once.
func (ix *Indexer) EngineChanged() {
	ix.engine.changed()
	if c := ix.filler.current(); c != nil {
		c.gate.changed()
	}
	signal(ix.requeue)
}

// do runs f on the goroutine of supervise.
func (ix *Indexer) do(ctx context.Context, f func(ctx context.Context) error) error {
	r := request{f, make(chan error, 1)}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case ix.requests <- r:
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-r.reply:
		return err
	}
}

// Retry makes documents, failed or not, be read again now.
func (ix *Indexer) Retry(ctx context.Context, ids ...document.ID) error {
	if err := ix.queue.retry(ctx, ids); err != nil {
		return fmt.Errorf("retry: %w", err)
	}
	return nil
}

// Watching says for each folder how its changes are noticed.
func (ix *Indexer) Watching() map[document.FolderID]watch.State {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	states := make(map[document.FolderID]watch.State, len(ix.actors))
	for id, r := range maps.All(ix.actors) {
		states[id] = r.watcher.State()
	}
	return states
}

// rootOf is the path of a folder, and false when it is not watched any more.
func (ix *Indexer) rootOf(id document.FolderID) (string, bool) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	r := ix.actors[id]
	if r == nil {
		return "", false
	}
	return r.folder.Path, true
}

// lookAt reports why the directory rel of a folder cannot be looked at. Where
// it can be, a scan of the folder is on its way and it returns nil.
func (ix *Indexer) lookAt(id document.FolderID, rel string) error {
	ix.mu.RLock()
	r := ix.actors[id]
	ix.mu.RUnlock()
	if r == nil {
		return nil
	}
	s := scanner{root: r.folder.Path, rules: r.rules.Load(), readDir: ix.cfg.ReadDir}
	err := s.lookAt(rel)
	if err == nil {
		r.rescan()
	}
	return err
}

// hint makes the folder's actor look at a path again.
func (ix *Indexer) hint(id document.FolderID, rel string) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	if r := ix.actors[id]; r != nil {
		r.hint(rel)
	}
}

// storeFailed logs an error of the store, waits a little and returns nil, or
// returns the error of ctx. The owner of a loop calls it.
func (ix *Indexer) storeFailed(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	ix.cfg.Log.Error("Index is not available", "during", what, "err", err)
	return pause(ctx, storeRetry)
}
