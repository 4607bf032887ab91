package pull

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// saved is pulls.json.
type saved struct {
	Next  int64   `json:"next"` // the last id that was given
	Pulls []*Pull `json:"pulls"`
}

func (m *Manager) file() string { return filepath.Join(m.cfg.Dir, "pulls.json") }

// load reads the list. What was under way when the app ended is queued again.
// A file that cannot be read is moved aside: the partial files it told of are
// found again when their models are asked for.
func (m *Manager) load() error {
	text, err := os.ReadFile(m.file())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read list of pulls: %w", err)
	}
	var s saved
	if err := json.Unmarshal(text, &s); err != nil {
		m.cfg.Logger.Error("List of pulls cannot be read and is moved aside", "err", err)
		if err := os.Rename(m.file(), m.file()+".damaged"); err != nil {
			return fmt.Errorf("move list of pulls aside: %w", err)
		}
		return nil
	}
	m.pulls, m.nextID = s.Pulls, s.Next
	for _, p := range m.pulls {
		if !p.State.Ended() {
			m.become(p, Queued)
		}
		if p.State == Done {
			continue
		}
		p.Done = partialSize(p.Path)
		if p.HashFrom == FromNobody && p.Done == 0 && isFile(p.Path) {
			// It got its name, and the app died before this was written. With a
			// hash, the download itself finds that out.
			m.become(p, Done)
		}
	}
	return nil
}

// save replaces the list on the disk in one step.
func (m *Manager) save() error {
	text, err := json.MarshalIndent(saved{Next: m.nextID, Pulls: m.pulls}, "", "  ")
	if err != nil {
		return fmt.Errorf("write list of pulls: %w", err)
	}
	if err := os.MkdirAll(m.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("write list of pulls: %w", err)
	}
	next := m.file() + ".new"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write list of pulls: %w", err)
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(next, m.file())
	}
	if err != nil {
		return fmt.Errorf("write list of pulls: %w", err)
	}
	return nil
}

// keep saves where nobody waits for an error. A list that is older than the
// truth costs at most a look at a file that is done already.
func (m *Manager) keep() {
	if err := m.save(); err != nil {
		m.cfg.Logger.Error("List of pulls not saved", "err", err)
	}
}

// publish makes the list that List returns.
func (m *Manager) publish() {
	list := make([]Pull, len(m.pulls))
	for i, p := range m.pulls {
		list[i] = *p
	}
	m.snapshot.Store(&list)
}
