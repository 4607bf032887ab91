package download

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// freeSpace is what an ordinary user may still write into the file system of
// dir, bytes.
func freeSpace(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("ask for free space: %w", err)
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

// room refuses a file whose missing part does not fit.
func (d *Downloader) room(j *job) error {
	dir := filepath.Dir(j.req.Target)
	free, err := d.cfg.Free(dir)
	if err != nil {
		return err
	}
	if need := j.size - j.have + d.cfg.Reserve; need > free {
		return &SpaceError{Dir: dir, Need: need, Free: free}
	}
	return nil
}

// full reports whether a write failed for want of space.
func full(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}
