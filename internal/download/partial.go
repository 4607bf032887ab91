package download

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// file is what a partial file is to us; tests put one in that fails.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
	Stat() (os.FileInfo, error)
	Fd() uintptr
}

func openFile(name string) (file, error) {
	// O_NOFOLLOW: a link would let the bytes land elsewhere.
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
}

// state is what the partial file is a part of. It is written before the first
// byte of it.
type state struct {
	URL          string `json:"url"` // without what redirects added
	Size         int64  `json:"size"`
	ETag         string `json:"etag,omitempty"` // strong ones only
	LastModified string `json:"last_modified,omitempty"`
	SHA256       string `json:"sha256,omitempty"` // what the whole must have; empty = unverified
}

// validator is what If-Range can carry (RFC 9110, 13.1.5); empty when there is none.
func (s state) validator() string {
	if s.ETag != "" {
		return s.ETag
	}
	return s.LastModified
}

// partial is the locked file beside the target.
type partial struct {
	name  string
	file  file
	named bool // it is the target now
}

// PartialName is where an unfinished target lies.
func PartialName(target string) string { return target + ".partial" }

func stateName(partial string) string { return partial + ".json" }

// openPartial opens and locks the partial file. Between opening and locking,
// the holder of the lock may have renamed the file to its target: then another
// one has the name, and it is tried again.
func (d *Downloader) openPartial(target string) (*partial, error) {
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	name := PartialName(target)
	for {
		f, err := d.open(name)
		if err != nil {
			return nil, fmt.Errorf("open partial file: %w", err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, ErrBusy
			}
			return nil, fmt.Errorf("lock partial file: %w", err)
		}
		held, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("look at partial file: %w", err)
		}
		if named, err := os.Lstat(name); err == nil && os.SameFile(held, named) {
			return &partial{name: name, file: f}, nil
		}
		f.Close()
	}
}

// close lets go of the lock. An empty partial file is not left lying about.
func (p *partial) close() {
	if info, err := p.file.Stat(); err == nil && info.Size() == 0 && !p.named {
		p.remove()
	}
	p.file.Close()
}

// remove throws the partial file away; its lock holds until close.
func (p *partial) remove() {
	_ = os.Remove(stateName(p.name)) // first, so that a crash leaves no state without bytes to mistrust
	_ = os.Remove(p.name)
}

// load reads the state; ok is false when there is none that can be read.
func (p *partial) load() (s state, ok bool) {
	text, err := os.ReadFile(stateName(p.name))
	return s, err == nil && json.Unmarshal(text, &s) == nil
}

// save replaces the state in one step.
func (p *partial) save(s state) error {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	next := stateName(p.name) + ".new"
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	if err := os.Rename(next, stateName(p.name)); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return nil
}

// publish gives the whole file its name, for good.
func (p *partial) publish(target string) error {
	if err := p.file.Sync(); err != nil {
		return fmt.Errorf("sync file: %w", err)
	}
	if _, err := os.Lstat(target); !errors.Is(err, os.ErrNotExist) {
		return &ExistsError{Path: target}
	}
	if err := os.Rename(p.name, target); err != nil {
		return fmt.Errorf("name file: %w", err)
	}
	p.named = true
	_ = os.Remove(stateName(p.name)) // a stale one is ignored: its partial file is empty
	dir, err := os.Open(filepath.Dir(target))
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}

// Discard throws away what is there of an unfinished target. ErrBusy while it
// is being downloaded.
func (d *Downloader) Discard(target string) error {
	if _, err := os.Lstat(PartialName(target)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	p, err := d.openPartial(target)
	if err != nil {
		return err
	}
	defer p.close()
	p.remove()
	return nil
}
