package search

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/ondol-app/ondol/internal/document"
)

// Stat is what a look at a file on disk says.
type Stat struct {
	Size     int64
	Modified time.Time
	Regular  bool
}

func statFile(path string) (Stat, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return Stat{}, err
	}
	return Stat{Size: info.Size(), Modified: info.ModTime(), Regular: info.Mode().IsRegular()}, nil
}

// check compares a hit with its file; empty means that it is what was read. A
// file that is gone is no result, unless its whole folder is away: then it is
// kept and marked, as the folder keeps its documents. That is so before a scan
// has seen that the folder is away. Another error says nothing about the file.
func (s *search) check(file string, p document.Passage) StaleReason {
	now, err := s.cfg.Stat(file)
	state := s.standing.Folders[p.Document.FolderID]
	away := state == document.FolderOffline || state == document.FolderDenied
	switch {
	case err != nil && away:
		return StaleOffline
	case notThere(err):
		if _, err := s.cfg.Stat(p.Folder); notThere(err) {
			return StaleOffline
		}
		return StaleGone
	case err != nil:
		return ""
	case !now.Regular:
		return StaleGone
	case now.Size != p.Document.Size || !now.Modified.Equal(p.Document.Modified):
		return StaleChanged
	}
	return ""
}

func notThere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
