package pull

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ondol-app/ondol/internal/download"
	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/models/hub"
)

// schedule starts queued pulls, oldest first, as long as there is a place. One
// whose goroutine has not let go of its file yet waits for that.
func (m *Manager) schedule(ctx context.Context, workers *sync.WaitGroup) {
	for _, p := range m.pulls {
		if len(m.active) >= m.cfg.Parallel || ctx.Err() != nil {
			return
		}
		if p.State != Queued || m.active[p.ID] != nil {
			continue
		}
		work, stop := context.WithCancel(ctx)
		m.active[p.ID] = &worker{stop: stop}
		m.become(p, Downloading)
		m.cfg.Notify(event.New(KindStarted, "model", p.Model))
		m.keep()
		workers.Add(1)
		go func(p Pull) {
			defer workers.Done()
			defer stop()
			m.work(work, ctx, p)
		}(*p)
	}
}

// work fetches one pull. Its reports are dropped when life, the context of
// Run, has ended.
func (m *Manager) work(ctx, life context.Context, p Pull) {
	tell := func(r report) {
		r.id = p.ID
		select {
		case m.reports <- r:
		case <-life.Done():
		}
	}
	token, err := m.cfg.Hub.Token(ctx)
	var result download.Result
	if err == nil {
		result, err = m.cfg.Downloader.Fetch(ctx, download.Request{
			URL: m.cfg.Hub.URL(p.Repo, p.Revision, p.File), Target: p.Path, Size: p.Total,
			SHA256: p.SHA256, Unverified: p.HashFrom == FromNobody, Token: token, Check: checkMagic,
		}, func(progress download.Progress) { tell(report{progress: progress}) })
	}
	tell(report{ended: true, result: result, err: err})
}

var errNotGGUF = errors.New("the file is no GGUF model")

// checkMagic looks at the first four bytes of a file (ggml's docs/gguf.md).
func checkMagic(file io.ReaderAt) error {
	var magic [4]byte
	if _, err := file.ReadAt(magic[:], 0); err != nil || string(magic[:]) != "GGUF" {
		return errNotGGUF
	}
	return nil
}

// progress takes over how far a pull is. What a stopped one still says does
// not count.
func (m *Manager) progress(r report) {
	p := m.byID(r.id)
	if p == nil || (p.State != Downloading && p.State != Verifying) {
		return
	}
	state := Downloading
	if r.progress.Phase == download.Verifying {
		state = Verifying
	}
	if p.State != state {
		m.become(p, state)
		m.keep()
	}
	p.Done, p.Total, p.Rate, p.Retry = r.progress.Done, r.progress.Total, r.progress.Rate, ""
	p.Left = int64(r.progress.Left / time.Second)
	if r.progress.Err != nil {
		p.Retry = r.progress.Err.Error()
	}
}

// finish takes over how a pull ended. A file that is there is there, even when
// somebody paused the pull in its last moment.
func (m *Manager) finish(r report) {
	w, p := m.active[r.id], m.byID(r.id)
	delete(m.active, r.id)
	if p == nil {
		return
	}
	switch {
	case w.remove:
		if err := m.drop(p); err != nil {
			m.cfg.Logger.Error("Pull not removed", "model", p.Model, "err", err)
		}
		return
	case r.err == nil:
		m.become(p, Done)
		p.Done, p.Total, p.SHA256 = r.result.Size, r.result.Size, r.result.SHA256
		m.cfg.Notify(event.New(KindDone, "model", p.Model, "size", strconv.FormatInt(p.Total, 10)))
		m.cfg.Logger.Info("Model pulled", "model", p.Model, "bytes", p.Total, "sha256", p.SHA256)
	case p.State != Downloading && p.State != Verifying:
		p.Done = partialSize(p.Path) // paused, or resumed again meanwhile
	default:
		reason, args := reasonOf(r.err, *p, m.cfg.Hub.Page(p.Repo))
		m.become(p, Failed)
		p.Reason, p.Args, p.Done = reason, args, partialSize(p.Path)
		m.cfg.Notify(event.New(KindFailed, "model", p.Model, "reason", reason.String()))
		m.cfg.Logger.Warn("Pull failed", "model", p.Model, "reason", reason, "err", r.err)
	}
	m.keep()
}

// drop takes a pull off the list, with what is there of an unfinished file.
func (m *Manager) drop(p *Pull) error {
	if p.State != Done {
		if err := m.cfg.Downloader.Discard(p.Path); err != nil {
			return err
		}
	}
	m.pulls = slices.DeleteFunc(m.pulls, func(q *Pull) bool { return q == p })
	return m.save()
}

func partialSize(path string) int64 {
	info, err := os.Stat(download.PartialName(path))
	if err != nil {
		return 0 // nothing is there
	}
	return info.Size()
}

// reasonOf is what a person is told of an error.
func reasonOf(err error, p Pull, page string) (Reason, map[string]string) {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	if e, ok := errors.AsType[*download.SpaceError](err); ok {
		return ReasonDisk, map[string]string{"need": number(e.Need), "free": number(e.Free), "folder": e.Dir}
	}
	if e, ok := errors.AsType[*download.HashError](err); ok {
		return ReasonHash, map[string]string{"want": e.Want, "got": e.Got}
	}
	if e, ok := errors.AsType[*download.SizeError](err); ok {
		return ReasonSize, map[string]string{"want": number(e.Want), "got": number(e.Got)}
	}
	if e, ok := errors.AsType[*download.ExistsError](err); ok {
		return ReasonExists, map[string]string{"path": e.Path}
	}
	if _, ok := errors.AsType[*hub.AccessError](err); ok {
		return ReasonAccess, map[string]string{"repo": p.Repo, "page": page}
	}
	if e, ok := errors.AsType[*download.GaveUpError](err); ok {
		return ReasonNetwork, map[string]string{"detail": e.Err.Error()}
	}
	if e, ok := errors.AsType[*download.StatusError](err); ok {
		switch e.Status {
		case 401, 403:
			return ReasonAccess, map[string]string{"repo": p.Repo, "page": page}
		case 404, 410:
			return ReasonNotFound, map[string]string{"repo": p.Repo}
		}
		return ReasonRefused, map[string]string{"detail": e.Error()}
	}
	switch {
	case errors.Is(err, errNotGGUF):
		return ReasonNotGGUF, map[string]string{"file": p.File}
	case errors.Is(err, download.ErrRedirect), errors.Is(err, download.ErrNoSize):
		return ReasonRefused, map[string]string{"detail": err.Error()}
	}
	return ReasonInternal, map[string]string{"detail": err.Error()}
}
