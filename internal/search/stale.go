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

// check compares a hit with its file. A file that is gone is no result, unless
// its whole folder is away: then it is kept and marked, as the folder keeps
// its documents. An error that says nothing about the file changes nothing.
func (s *search) check(file string, p document.Passage) (stale, gone bool) {
	now, err := s.cfg.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		if state := s.folders[p.Document.FolderID]; state == document.FolderOffline || state == document.FolderDenied {
			return true, false
		}
		return false, true
	case err != nil:
		return false, false
	case !now.Regular:
		return false, true
	}
	return now.Size != p.Document.Size || !now.Modified.Equal(p.Document.Modified), false
}
