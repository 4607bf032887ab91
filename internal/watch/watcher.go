package watch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// Defaults of Config.
const (
	DefaultQuiet    = 200 * time.Millisecond
	DefaultMax      = time.Second
	DefaultMaxPaths = 2000
	DefaultPoll     = 30 * time.Second
	DefaultCheck    = 30 * time.Second
	DefaultReturn   = 2 * time.Second
)

// Config says what to watch. Only Root is required.
type Config struct {
	// Root is an absolute path without symbolic links in it. It need not exist.
	Root string
	// Skip tells which paths are of no interest; a skipped directory is not
	// entered. It is called on the goroutine of Run. Nil skips nothing.
	Skip func(rel string, isDir bool) bool

	Quiet    time.Duration // a batch is handed out after this long without a hint (default 200 ms)
	Max      time.Duration // and at the latest this long after its first hint (default 1 s)
	MaxPaths int           // more paths than this make the batch a rescan (default 2000)
	Poll     time.Duration // how often a directory that cannot be watched is reported (default 30 s)
	Check    time.Duration // how often the root is compared with the one being watched (default 30 s)
	Return   time.Duration // how often a missing root is looked for (default 2 s)

	// Open opens the system's notification (default NewFSNotify).
	Open func() (Notifier, error)
}

// Mode says how changes are noticed.
type Mode string

// Modes.
const (
	ModeStarting Mode = "starting" // the watches are being set
	ModeEvents   Mode = "events"   // every directory is watched
	ModePolling  Mode = "polling"  // some or all directories are looked at again every Config.Poll
	ModeMissing  Mode = "missing"  // the root is not there
)

// String returns the mode as it stands in JSON.
func (m Mode) String() string { return string(m) }

// State is a snapshot for display.
type State struct {
	Mode    Mode   `json:"mode"`
	Reason  string `json:"reason,omitempty"` // why polling, or the last complaint of the notification
	Watched int    `json:"watched"`          // directories
	Polled  int    `json:"polled"`           // directories, each with all below it
	Lost    int    `json:"lost"`             // times that notifications were lost
}

// Watcher watches one root. Only Run touches the tree; the rest are snapshots
// and signals.
type Watcher struct {
	cfg     Config
	out     chan Batch
	refresh chan struct{} // 1-buffered: kicks coalesce
	state   atomic.Pointer[State]
}

// New checks the configuration. It touches no file.
func New(cfg Config) (*Watcher, error) {
	if !filepath.IsAbs(cfg.Root) {
		return nil, errors.New("watch: the root must be an absolute path: " + cfg.Root)
	}
	cfg.Root = filepath.Clean(cfg.Root)
	if cfg.Skip == nil {
		cfg.Skip = func(string, bool) bool { return false }
	}
	if cfg.Open == nil {
		cfg.Open = NewFSNotify
	}
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{
		{&cfg.Quiet, DefaultQuiet}, {&cfg.Max, DefaultMax}, {&cfg.Poll, DefaultPoll},
		{&cfg.Check, DefaultCheck}, {&cfg.Return, DefaultReturn},
	} {
		if *d.v <= 0 {
			*d.v = d.def
		}
	}
	if cfg.MaxPaths <= 0 {
		cfg.MaxPaths = DefaultMaxPaths
	}
	w := &Watcher{cfg: cfg, out: make(chan Batch), refresh: make(chan struct{}, 1)}
	w.state.Store(&State{Mode: ModeStarting})
	return w, nil
}

// Batches hands out the hints. The first batch after the start and after every
// return of the root is a rescan. A slow reader finds the hints merged.
func (w *Watcher) Batches() <-chan Batch { return w.out }

// State says how changes are noticed now.
func (w *Watcher) State() State { return *w.state.Load() }

// Refresh makes Run compare its watches with the directories and with Skip
// again, after the rules behind Skip have changed.
func (w *Watcher) Refresh() {
	select {
	case w.refresh <- struct{}{}:
	default:
	}
}

// Run watches until ctx is done and returns its error.
func (w *Watcher) Run(ctx context.Context) error {
	held := aggregator{quiet: w.cfg.Quiet, max: w.cfg.Max, maxPaths: w.cfg.MaxPaths}
	for {
		info, err := os.Lstat(w.cfg.Root)
		if err == nil && info.IsDir() {
			err = w.watchRoot(ctx, info, &held)
		} else {
			err = w.awaitRoot(ctx, &held)
		}
		if err != nil {
			return err
		}
		held.addRescan(time.Now()) // the root came or went
	}
}

// awaitRoot hands out what is held until the root is a directory.
func (w *Watcher) awaitRoot(ctx context.Context, held *aggregator) error {
	w.state.Store(&State{Mode: ModeMissing})
	held.addRescan(time.Now())
	look := time.NewTicker(w.cfg.Return)
	defer look.Stop()
	for {
		due, out, stop := w.delivery(held)
		select {
		case <-ctx.Done():
			stop()
			return ctx.Err()
		case <-look.C:
			if info, err := os.Lstat(w.cfg.Root); err == nil && info.IsDir() {
				stop()
				return nil
			}
		case <-due:
		case out <- held.peek():
			held.clear()
		}
		stop()
	}
}

// watchRoot hands out hints until the root is no longer the directory that
// root describes; nil means so.
func (w *Watcher) watchRoot(ctx context.Context, root fs.FileInfo, held *aggregator) error {
	var (
		events <-chan Event
		errs   <-chan error
	)
	w.state.Store(&State{Mode: ModeStarting})
	n, err := w.cfg.Open()
	if err == nil {
		events, errs = n.Events(), n.Errors()
		defer n.Close()
	} else {
		n = nil
	}
	t := newTree(w.cfg.Root, deviceOf(root), w.cfg.Skip, n)
	if err != nil {
		t.deaf = err.Error()
	}
	t.add(".")
	held.addRescan(time.Now())

	poll, check := time.NewTicker(w.cfg.Poll), time.NewTicker(w.cfg.Check)
	defer poll.Stop()
	defer check.Stop()
	for {
		w.publish(t)
		due, out, stop := w.delivery(held)
		suspect := false
		select {
		case <-ctx.Done():
			stop()
			return ctx.Err()
		case ev, ok := <-events:
			if !ok {
				events, errs = nil, nil
				t.deafen(held)
				break
			}
			suspect = t.handle(ev, held)
		case err, ok := <-errs:
			if !ok {
				errs = nil
				break
			}
			t.complain(err, held)
		case <-w.refresh:
			t.refresh()
		case <-poll.C:
			t.pollAll(held)
		case <-check.C:
			suspect = true
		case <-due:
		case out <- held.peek():
			held.clear()
		}
		stop()
		if suspect && !isStill(w.cfg.Root, root) {
			return nil
		}
	}
}

// delivery arms either the timer of the batch held or, when it is due, the
// channel it goes out on. stop must be called after the select.
func (w *Watcher) delivery(held *aggregator) (due <-chan time.Time, out chan<- Batch, stop func()) {
	at, ok := held.deadline()
	if !ok {
		return nil, nil, func() {}
	}
	wait := time.Until(at)
	if wait <= 0 {
		return nil, w.out, func() {}
	}
	timer := time.NewTimer(wait)
	return timer.C, nil, func() { timer.Stop() }
}

func (w *Watcher) publish(t *tree) {
	s := State{Mode: ModeEvents, Reason: t.reason, Watched: len(t.watched), Polled: len(t.polled), Lost: t.lost}
	if len(t.polled) > 0 {
		s.Mode = ModePolling
	}
	if *w.state.Load() != s {
		w.state.Store(&s)
	}
}

// isStill reports whether path is still the directory that root describes.
func isStill(path string, root fs.FileInfo) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir() && os.SameFile(info, root)
}
