package locations

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Make creates the folders, closed to everybody but their owner, and checks
// those that are there already.
func (p Paths) Make() error {
	for _, dir := range []string{p.Data, p.Models(), p.Logs, p.Cache, p.Run, filepath.Dir(p.Settings)} {
		if err := private(dir); err != nil {
			return err
		}
	}
	return nil
}

// CheckRun reports whether Run can be trusted: a folder of this user that
// nobody else can enter. A client asks before it talks to a socket inside,
// since the fallback lies in a folder where everybody may write. A folder that
// is not there yet is no error of its own: errors.Is(err, fs.ErrNotExist).
func (p Paths) CheckRun() error {
	info, err := os.Lstat(p.Run)
	if err != nil {
		return fmt.Errorf("look at %s: %w", p.Run, err)
	}
	return trusted(p.Run, info)
}

// private makes dir with mode 0700 and closes one that was open to others.
func private(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("look at folder: %w", err)
	}
	if info.Mode()&os.ModeSymlink != 0 && filepath.Dir(dir) != tempDir {
		// A person may keep a folder elsewhere through a link of his own, but
		// not in the folder where anybody can put one.
		if info, err = os.Stat(dir); err != nil {
			return fmt.Errorf("look at folder: %w", err)
		}
	}
	if info.IsDir() && owned(info) && info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(dir, 0o700); err != nil {
			return fmt.Errorf("close folder to others: %w", err)
		}
		if info, err = os.Stat(dir); err != nil {
			return fmt.Errorf("look at folder: %w", err)
		}
	}
	return trusted(dir, info)
}

func trusted(dir string, info os.FileInfo) error {
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder; move it away", dir)
	case !owned(info):
		return fmt.Errorf("%s belongs to another user; remove it or set ONDOL_HOME to a folder of your own", dir)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s is open to other users (mode %04o); run: chmod 700 %q", dir, info.Mode().Perm(), dir)
	}
	return nil
}

func owned(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}
