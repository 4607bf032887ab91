package pull

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ondol-app/ondol/internal/models/catalog"
	"github.com/ondol-app/ondol/internal/models/hub"
)

// Pull queues a model, or resumes the pull of it. Errors: *catalog.ReferenceError,
// those of Hub, *LicenceError, *NoHashError, ErrClosed.
//
// What the hub says is asked in the caller's goroutine, so that a hub that does
// not answer holds nobody else up.
func (m *Manager) Pull(ctx context.Context, req Request) (Pull, error) {
	ref, err := catalog.Parse(req.Model)
	if err != nil {
		return Pull{}, err
	}
	if p, known := m.known(ref); known && (p.State != Done || isFile(p.Path)) {
		if p.State == Done {
			return p, nil
		}
		// Its licence was accepted before. One that is being removed is no more.
		if p, err := m.Resume(ctx, p.ID); !errors.Is(err, ErrNotFound) {
			return p, err
		}
	}
	file, from, err := m.about(ctx, ref)
	if err != nil {
		return Pull{}, err
	}
	page := m.cfg.Hub.Page(ref.Repo)
	if !strings.EqualFold(req.AcceptLicence, file.Licence) {
		return Pull{}, &LicenceError{Model: ref.Name, Licence: file.Licence, URL: file.LicenceURL, Page: page, Size: file.Size, Given: req.AcceptLicence}
	}
	if file.SHA256 == "" {
		if !req.Unverified {
			return Pull{}, &NoHashError{Model: ref.Name, Page: page}
		}
		from = FromNobody
	}
	return m.ask(ctx, func() (Pull, error) { return m.add(ref, file, from) })
}

// known is the pull of a file that is on the list.
func (m *Manager) known(ref catalog.Reference) (Pull, bool) {
	for _, p := range m.List() {
		if p.Repo == ref.Repo && p.File == ref.File {
			return p, true
		}
	}
	return Pull{}, false
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// about is what is known of a file: from the catalogue, else from the hub.
func (m *Manager) about(ctx context.Context, ref catalog.Reference) (hub.File, string, error) {
	if c := ref.Model; c != nil {
		return hub.File{
			Revision: c.Revision, URL: m.cfg.Hub.URL(c.Repo, c.Revision, c.File), Size: c.Size, SHA256: c.SHA256,
			Licence: c.Licence, LicenceURL: c.LicenceURL,
		}, FromCatalogue, nil
	}
	file, err := m.cfg.Hub.Ask(ctx, ref.Repo, ref.File)
	return file, FromHub, err
}

// add puts a pull onto the list. It is Run's.
func (m *Manager) add(ref catalog.Reference, file hub.File, from string) (Pull, error) {
	var p *Pull
	for _, have := range m.pulls { // another caller was faster, or its file was deleted
		if have.Repo == ref.Repo && have.File == ref.File {
			p = have
		}
	}
	if p != nil && !p.State.Ended() {
		return *p, nil
	}
	before := slices.Clone(m.pulls)
	if p == nil {
		m.nextID++
		p = &Pull{ID: m.nextID, Model: ref.Name, Path: m.target(ref), Repo: ref.Repo, File: ref.File, Added: time.Now().UTC()}
		m.pulls = append(m.pulls, p)
	}
	p.Revision, p.SHA256, p.HashFrom, p.Licence = file.Revision, file.SHA256, from, file.Licence
	p.Done, p.Total = 0, file.Size
	m.become(p, Queued)
	if w := m.active[p.ID]; w != nil {
		w.remove = false // it was being removed, and is wanted again
	}
	if err := m.save(); err != nil {
		m.pulls = before
		return Pull{}, err
	}
	return *p, nil
}
