package pull

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ondol-app/ondol/internal/download"
	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/models/catalog"
	"github.com/ondol-app/ondol/internal/models/hub"
)

// Hub tells what a file is and where it lies.
type Hub interface {
	Ask(ctx context.Context, repo, file string) (hub.File, error)
	URL(repo, revision, file string) string
	Page(repo string) string
	Token(ctx context.Context) (string, error)
}

// Downloader fetches one file.
type Downloader interface {
	Fetch(ctx context.Context, req download.Request, progress func(download.Progress)) (download.Result, error)
	Discard(target string) error
}

// Config of a Manager. Everything but Parallel and Notify is required.
type Config struct {
	Dir        string // models folder, absolute
	Hub        Hub
	Downloader Downloader
	Parallel   int               // pulls at once; 0 = 1
	Notify     func(event.Event) // returns at once; nil = nobody listens
	Logger     *slog.Logger
}

// Manager owns the pulls. Its methods may be called from any goroutine; but
// for List and Catalogue they wait for Run.
type Manager struct {
	cfg      Config
	ops      chan op
	reports  chan report
	ended    chan struct{} // closed when Run returns
	snapshot atomic.Pointer[[]Pull]

	// Below is Run's alone.
	pulls  []*Pull
	nextID int64
	active map[int64]*worker // those whose goroutine has not returned
}

// worker is one download under way.
type worker struct {
	stop   context.CancelFunc
	remove bool // what is there is to be thrown away when it has stopped
}

// op is a change that somebody asked for, done by Run.
type op struct {
	do   func() (Pull, error)
	done chan answer // 1-buffered
}

type answer struct {
	pull Pull
	err  error
}

// report is what a worker tells: progress, or its end.
type report struct {
	id       int64
	progress download.Progress
	ended    bool
	result   download.Result // of the end
	err      error           // likewise
}

// New reads the list; Run starts what it holds.
func New(cfg Config) (*Manager, error) {
	if !filepath.IsAbs(cfg.Dir) || cfg.Hub == nil || cfg.Downloader == nil || cfg.Logger == nil {
		return nil, errors.New("pull needs every part of its Config")
	}
	if cfg.Parallel == 0 {
		cfg.Parallel = 1
	}
	if cfg.Notify == nil {
		cfg.Notify = func(event.Event) {}
	}
	m := &Manager{cfg: cfg, ops: make(chan op), reports: make(chan report), ended: make(chan struct{}), active: map[int64]*worker{}}
	if err := m.load(); err != nil {
		return nil, err
	}
	m.publish()
	return m, nil
}

// Run works the queue off until ctx ends. What is under way then is stopped
// and goes on at the next start.
func (m *Manager) Run(ctx context.Context) error {
	defer close(m.ended)
	var workers sync.WaitGroup
	defer workers.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop() // before the wait: a worker's report is dropped once ctx has ended
	for {
		m.schedule(ctx, &workers)
		m.publish()
		select {
		case <-ctx.Done():
			return nil
		case o := <-m.ops:
			p, err := o.do()
			m.publish()
			o.done <- answer{p, err}
		case r := <-m.reports:
			if r.ended {
				m.finish(r)
			} else {
				m.progress(r)
			}
		}
	}
}

// List is every pull, oldest first, as it stands.
func (m *Manager) List() []Pull { return *m.snapshot.Load() }

// Catalogue is the list of models known by name.
func (m *Manager) Catalogue() []catalog.Model { return catalog.Models() }

// Pause stops a pull and keeps what came. One that has ended stays as it is.
func (m *Manager) Pause(ctx context.Context, id int64) (Pull, error) {
	return m.on(ctx, id, func(p *Pull) error {
		if p.State.Ended() {
			return nil
		}
		if w := m.active[id]; w != nil {
			w.stop()
		}
		m.become(p, Paused)
		m.cfg.Notify(event.New(KindPaused, "model", p.Model))
		return m.save()
	})
}

// Resume queues a pull that was paused or failed; one that is done stays so.
func (m *Manager) Resume(ctx context.Context, id int64) (Pull, error) {
	return m.on(ctx, id, func(p *Pull) error {
		if p.State != Paused && p.State != Failed {
			return nil
		}
		m.become(p, Queued)
		return m.save()
	})
}

// Remove takes a pull off the list and throws away what is there of an
// unfinished file. The model of a done one stays.
func (m *Manager) Remove(ctx context.Context, id int64) error {
	_, err := m.on(ctx, id, func(p *Pull) error {
		w := m.active[id]
		if w == nil {
			return m.drop(p)
		}
		w.remove = true
		w.stop()
		m.become(p, Paused) // until its goroutine has let go of the file
		return m.save()
	})
	return err
}

// on lets Run do something to the pull named id.
func (m *Manager) on(ctx context.Context, id int64, do func(*Pull) error) (Pull, error) {
	return m.ask(ctx, func() (Pull, error) {
		p := m.byID(id)
		if w := m.active[id]; p == nil || (w != nil && w.remove) {
			return Pull{}, ErrNotFound
		}
		if err := do(p); err != nil {
			return Pull{}, err
		}
		return *p, nil
	})
}

func (m *Manager) ask(ctx context.Context, do func() (Pull, error)) (Pull, error) {
	o := op{do: do, done: make(chan answer, 1)}
	select {
	case m.ops <- o:
	case <-m.ended:
		return Pull{}, ErrClosed
	case <-ctx.Done():
		return Pull{}, context.Cause(ctx)
	}
	a := <-o.done // Run answers an op that it took
	return a.pull, a.err
}

func (m *Manager) byID(id int64) *Pull {
	for _, p := range m.pulls {
		if p.ID == id {
			return p
		}
	}
	return nil
}

// become changes a pull's state and forgets what belonged to the old one.
func (m *Manager) become(p *Pull, s State) {
	p.State, p.Reason, p.Args, p.Rate, p.Left, p.Retry = s, "", nil, 0, 0, ""
	p.Changed = time.Now().UTC()
}

// target is where a file of the hub lies below the models folder.
func (m *Manager) target(ref catalog.Reference) string {
	return filepath.Join(m.cfg.Dir, filepath.FromSlash(ref.Repo), filepath.FromSlash(strings.TrimPrefix(ref.File, "/")))
}
