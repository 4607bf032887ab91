package indexer

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/watch"
)

const (
	// maxUrgent is how many documents of one batch of hints go before the
	// backlog: what a person saves, not what a checkout writes.
	maxUrgent = 200
	// storeRetry is the pause after an error of the store.
	storeRetry = 5 * time.Second
)

// actor owns the scans of one folder: at most one runs, on the goroutine of
// run, which is also the only one that adds, moves or removes its documents.
type actor struct {
	ix      *Indexer
	folder  document.Folder
	log     *slog.Logger
	watcher *watch.Watcher
	rules   atomic.Pointer[rules] // current ones; replaced when a rule file changes
	kick    chan struct{}         // 1-buffered: scan everything
	hints   chan string           // paths that a worker found in disorder; a full channel drops them

	device uint64 // of the root at the last complete scan; belongs to run
}

func newActor(ix *Indexer, f document.Folder) (*actor, error) {
	a := &actor{ix: ix, folder: f, log: ix.cfg.Log.With("folder", f.Path), kick: make(chan struct{}, 1), hints: make(chan string, 64)}
	a.rules.Store(a.freshRules())
	cfg := ix.cfg.Watch
	cfg.Root = f.Path
	cfg.Skip = func(rel string, isDir bool) bool { return a.rules.Load().skip(rel, isDir) }
	w, err := watch.New(cfg)
	a.watcher = w
	return a, err
}

// freshRules has read no rule file yet.
func (a *actor) freshRules() *rules {
	return newRules(a.folder.Path, a.ix.cfg.DefaultIgnores, resolved(a.ix.cfg.Own))
}

// run watches and scans until ctx is done.
func (a *actor) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.watcher.Run(ctx) })
	g.Go(func() error { return a.loop(ctx) })
	return g.Wait()
}

// loop scans on every reason to. The watcher's first batch asks for the first
// scan, once its watches are set.
func (a *actor) loop(ctx context.Context) error {
	periodic := time.NewTimer(a.period())
	defer periodic.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b := <-a.watcher.Batches():
			if b.Rescan {
				err = a.scanAll(ctx)
			} else {
				err = a.scanPaths(ctx, b.Paths)
			}
		case p := <-a.hints:
			err = a.scanPaths(ctx, a.moreHints(p))
		case <-a.kick:
			err = a.scanAll(ctx)
		case <-periodic.C:
			err = a.scanAll(ctx)
			periodic.Reset(a.period())
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			// What the batch told is lost: only a complete scan makes up for it.
			a.log.Error("Scan failed", "err", err)
			a.rescan()
			if err := pause(ctx, storeRetry); err != nil {
				return err
			}
		}
	}
}

// period is the time to the next scan that nothing asked for: spread, so that
// folders do not scan all at once.
func (a *actor) period() time.Duration {
	return time.Duration(float64(a.ix.cfg.Rescan) * (0.75 + rand.Float64()/2))
}

func (a *actor) rescan() {
	select {
	case a.kick <- struct{}{}:
	default:
	}
}

// hint asks for another look at a path. When it does not fit, the complete
// scan that it asks for instead does.
func (a *actor) hint(rel string) {
	select {
	case a.hints <- rel:
	default:
		a.rescan()
	}
}

func (a *actor) moreHints(first string) []string {
	paths := []string{first}
	for {
		select {
		case p := <-a.hints:
			paths = append(paths, p)
		default:
			return paths
		}
	}
}

// scanAll compares the whole tree with the index and records how the root fares.
func (a *actor) scanAll(ctx context.Context) error {
	err := a.compareAll(ctx)
	state, reason, at := document.FolderWatching, "", a.ix.cfg.Now()
	var root *rootError
	if errors.As(err, &root) {
		state, reason, at = root.state, root.reason, time.Time{}
	} else if err != nil {
		return err
	}
	return a.ix.cfg.Store.SetFolderState(ctx, a.folder.ID, state, reason, at)
}

func (a *actor) compareAll(ctx context.Context) error {
	info, err := checkRoot(a.folder.Path)
	if err != nil {
		return err
	}
	if err := a.ix.cfg.Store.SetFolderState(ctx, a.folder.ID, document.FolderScanning, "", time.Time{}); err != nil {
		return err
	}
	a.rules.Store(a.freshRules())
	a.watcher.Refresh()
	s := newScanner(a.folder.Path, info, a.rules.Load(), a.ix.cfg.ReadDir)
	if err := s.walk(ctx, "."); err != nil {
		return err
	}
	// The root must still be what was walked: a volume that went away half-way
	// looks like a tree whose files were deleted.
	if again, err := checkRoot(a.folder.Path); err != nil {
		return err
	} else if !os.SameFile(info, again) {
		a.rescan()
		return nil
	}
	a.device = s.device
	_, err = a.ix.queue.compare(ctx, a.folder.ID, func() (outcome, error) {
		known, err := a.ix.cfg.Store.Files(ctx, a.folder.ID)
		if err == nil && len(s.seen) == 0 && movedVolume(known, s.device) {
			err = &rootError{document.FolderOffline, reasonVolume}
		}
		if err != nil {
			return outcome{}, err
		}
		return diff(known, look{
			seen:   s.seen,
			judged: func(p string) bool { return !s.blind.holds(p) },
			hinted: func(string) bool { return false },
		}), nil
	})
	return err
}

// movedVolume reports whether every known file lies on another device.
func movedVolume(known map[string]document.Known, device uint64) bool {
	prefix := devicePrefix(device)
	for _, k := range known {
		if strings.HasPrefix(k.File.FileID, prefix) {
			return false
		}
	}
	return len(known) > 0
}

// scanPaths compares some paths, and what lies below them, with the index.
func (a *actor) scanPaths(ctx context.Context, paths []string) error {
	info, err := checkRoot(a.folder.Path)
	if err != nil || deviceOf(info) != a.device {
		return a.scanAll(ctx)
	}
	paths = slices.Clone(paths)
	for i, p := range paths {
		if !isRuleFile(p) {
			continue
		}
		// New rules hold for the whole directory.
		a.rules.Store(a.freshRules())
		a.watcher.Refresh()
		if paths[i] = path.Dir(p); paths[i] == "." {
			return a.scanAll(ctx)
		}
	}
	s := newScanner(a.folder.Path, info, a.rules.Load(), a.ix.cfg.ReadDir)
	asked, hinted := make(scope), make(scope)
	for _, p := range paths {
		hinted.add(p)
	}
	for {
		out, more, err := a.comparePaths(ctx, s, asked, hinted, paths)
		if err != nil {
			return err
		}
		if len(more) == 0 {
			return a.urge(ctx, out)
		}
		paths = more
	}
}

// comparePaths looks at paths and compares everything asked for so far with
// the index, unless a file turned up that the index knows under a path not
// asked for: more are those paths, so that a rename is seen from both ends.
func (a *actor) comparePaths(ctx context.Context, s *scanner, asked, hinted scope, paths []string) (out outcome, more []string, err error) {
	for _, p := range paths {
		asked.add(p)
	}
	if err := s.targets(ctx, paths); err != nil {
		return outcome{}, nil, err
	}
	ids := make([]string, 0, len(s.seen))
	for _, f := range s.seen {
		ids = append(ids, f.FileID)
	}
	out, err = a.ix.queue.compare(ctx, a.folder.ID, func() (outcome, error) {
		known, err := a.ix.cfg.Store.Lookup(ctx, a.folder.ID, slices.Collect(maps.Keys(asked)), ids)
		if err != nil {
			return outcome{}, err
		}
		for p := range known {
			if !asked.holds(p) {
				more = append(more, strings.TrimSuffix(p, "/"))
			}
		}
		if len(more) > 0 {
			return outcome{}, nil
		}
		return diff(known, look{
			seen:   s.seen,
			judged: func(p string) bool { return !s.blind.holds(p) },
			hinted: hinted.holds,
		}), nil
	})
	return out, more, err
}

// urge puts the few documents of a hint before the backlog.
func (a *actor) urge(ctx context.Context, out outcome) error {
	n := len(out.Found) + len(out.Changed) + len(out.Reread)
	if n == 0 || n > maxUrgent {
		return nil
	}
	var ids []document.ID
	for _, ch := range slices.Concat(out.Changed, out.Reread) {
		ids = append(ids, ch.ID)
	}
	if len(out.Found) > 0 {
		var paths []string
		for _, f := range out.Found {
			paths = append(paths, f.Path)
		}
		known, err := a.ix.cfg.Store.Lookup(ctx, a.folder.ID, paths, nil)
		if err != nil {
			return err
		}
		for _, k := range known {
			ids = append(ids, k.ID)
		}
	}
	work, err := a.ix.cfg.Store.Work(ctx, ids...)
	if err != nil {
		return err
	}
	a.ix.queue.urge(work)
	return nil
}

// pause waits or returns the error of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
