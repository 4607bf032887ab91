package indexer

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ondol-app/ondol/internal/document"
)

// rootError says why a root cannot be scanned. Nothing is deleted for it.
type rootError struct {
	state  document.FolderState
	reason string
}

func (e *rootError) Error() string { return string(e.state) + ": " + e.reason }

// Reasons of rootError, shown as Folder.Reason. Codes: the words are in the locales.
const (
	reasonMissing     = "missing"           // nothing is there
	reasonNotFolder   = "not_a_folder"      // something else is there
	reasonVolume      = "volume_missing"    // the mount point is there, the volume is not
	reasonDenied      = "permission_denied" // the system refuses to list it
	reasonUnreachable = "unreadable"        // any other error
)

// checkRoot looks at the root of a folder.
func checkRoot(root string) (fs.FileInfo, error) {
	info, err := os.Lstat(root)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &rootError{document.FolderOffline, reasonMissing}
	case errors.Is(err, fs.ErrPermission):
		return nil, &rootError{document.FolderDenied, reasonDenied}
	case err != nil:
		return nil, &rootError{document.FolderOffline, reasonUnreachable}
	case !info.IsDir():
		return nil, &rootError{document.FolderOffline, reasonNotFolder}
	}
	// Only opening tells whether the system lets us list it.
	dir, err := os.Open(root)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, &rootError{document.FolderDenied, reasonDenied}
	case err != nil:
		return nil, &rootError{document.FolderOffline, reasonUnreachable}
	}
	return info, dir.Close()
}

// scanner looks at a tree: names, sizes, times and numbers of files. It opens
// directories and rule files, nothing else, and follows no link.
type scanner struct {
	root   string
	device uint64 // of the root: other file systems are not entered
	rules  *rules
	// readDir lists a directory; tests make it fail.
	readDir func(dir string) ([]fs.DirEntry, error)

	// seen are the files, and the directories that could not be looked at: their
	// paths end in a slash. They are documents of their own, so that the ledger
	// tells of what is missing.
	seen  map[string]document.File
	blind scope // what could not be looked at; nothing there is judged
}

func newScanner(root string, info fs.FileInfo, r *rules, readDir func(string) ([]fs.DirEntry, error)) *scanner {
	return &scanner{root: root, device: deviceOf(info), rules: r, readDir: readDir, seen: make(map[string]document.File), blind: make(scope)}
}

// walk looks at what lies below the directory dir.
func (s *scanner) walk(ctx context.Context, dir string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	inside, err := s.rules.in(dir)
	if err != nil {
		s.lose(dir, err)
		s.account(dir, err)
		return nil
	}
	entries, err := s.readDir(s.abs(dir))
	if err != nil {
		s.lose(dir, err)
		s.account(dir, err) // what was listed is used all the same
	}
	for _, e := range entries {
		rel := path.Join(dir, e.Name())
		if !e.IsDir() && !e.Type().IsRegular() || s.rules.owns(rel) || inside.Ignored(rel, e.IsDir()) {
			continue
		}
		if err := s.entry(ctx, rel, e); err != nil {
			return err
		}
	}
	return nil
}

// entry looks at one directory or regular file that is not ignored.
func (s *scanner) entry(ctx context.Context, rel string, e fs.DirEntry) error {
	info, err := e.Info()
	switch {
	case err != nil:
		s.lose(rel, err)
		s.account(path.Dir(rel), err)
	case info.IsDir() && deviceOf(info) != s.device:
		s.blind.add(rel) // a mount hides what was indexed there before
	case info.IsDir():
		return s.walk(ctx, rel)
	case info.Mode().IsRegular():
		s.seen[rel] = fileOf(rel, info)
	}
	return nil
}

// lose notes that rel could not be looked at, unless it is simply gone.
func (s *scanner) lose(rel string, err error) {
	if !vanished(err) {
		s.blind.add(rel)
	}
}

// account makes the directory dir, which could not be looked at, a document.
// Its size and time say nothing about what is in it, so they stay the same: it
// changes only when it goes or can be looked at again.
func (s *scanner) account(dir string, err error) {
	if vanished(err) {
		return
	}
	rel := dir + "/"
	if f, info, err := statFile(s.root, dir); err == nil && info.IsDir() {
		s.seen[rel] = document.File{Path: rel, FileID: f.FileID, Modified: time.Unix(0, 0).UTC()}
	}
}

// lookAt reports why walk would lose the directory dir; nil when it would not,
// and when dir is gone, which is for a scan to say.
func (s *scanner) lookAt(dir string) error {
	inside, err := s.rules.in(dir)
	if err != nil {
		return keep(err)
	}
	entries, err := s.readDir(s.abs(dir))
	if err != nil {
		return keep(err)
	}
	for _, e := range entries {
		rel := path.Join(dir, e.Name())
		if !e.IsDir() && !e.Type().IsRegular() || s.rules.owns(rel) || inside.Ignored(rel, e.IsDir()) {
			continue
		}
		if _, err := e.Info(); keep(err) != nil {
			return err
		}
	}
	return nil
}

// keep is err unless it only says that something is gone.
func keep(err error) error {
	if err == nil || vanished(err) {
		return nil
	}
	return err
}

// vanished reports whether err says that something is not there.
func vanished(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// targets looks at paths and at everything below them. A path is looked up in
// the listing of its directory, because on a file system that disregards case
// or normal form the name asked for need not be the name that is there.
func (s *scanner) targets(ctx context.Context, paths []string) error {
	listings := make(map[string]map[string]fs.DirEntry)
	for _, p := range paths {
		if err := ctx.Err(); err != nil {
			return err
		}
		dir := path.Dir(p)
		if !s.reaches(dir) {
			continue
		}
		listing, ok := listings[dir]
		if !ok {
			entries, err := s.readDir(s.abs(dir))
			if err != nil {
				s.lose(p, err)
				continue
			}
			listing = make(map[string]fs.DirEntry, len(entries))
			for _, e := range entries {
				listing[e.Name()] = e
			}
			listings[dir] = listing
		}
		e, ok := listing[path.Base(p)]
		if !ok || !e.IsDir() && !e.Type().IsRegular() {
			continue
		}
		ignored, err := s.rules.ignored(p, e.IsDir())
		if err != nil {
			s.lose(p, err)
		}
		if ignored {
			continue
		}
		if err := s.entry(ctx, p, e); err != nil {
			return err
		}
	}
	return nil
}

// reaches reports whether every directory down to dir is a directory on the
// root's file system, and no link. Where that cannot be known, dir is blind.
func (s *scanner) reaches(dir string) bool {
	if dir == "." {
		return true
	}
	if !s.reaches(path.Dir(dir)) {
		return false
	}
	info, err := os.Lstat(s.abs(dir))
	if err != nil {
		s.lose(dir, err)
		return false
	}
	if info.IsDir() && deviceOf(info) != s.device {
		s.blind.add(dir)
		return false
	}
	return info.IsDir()
}

func (s *scanner) abs(rel string) string { return filepath.Join(s.root, filepath.FromSlash(rel)) }

// scope is a set of paths, each standing for everything below it.
type scope map[string]struct{}

func (s scope) add(p string) { s[p] = struct{}{} }

// holds reports whether p or a directory above it is in the set.
func (s scope) holds(p string) bool {
	if _, all := s["."]; all {
		return true
	}
	if _, ok := s[p]; ok {
		return true
	}
	for i := strings.LastIndexByte(p, '/'); i > 0; i = strings.LastIndexByte(p[:i], '/') {
		if _, ok := s[p[:i]]; ok {
			return true
		}
	}
	return false
}
