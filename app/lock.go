package app

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ondol-app/ondol/app/cli"
)

// lock is held while the app runs. The kernel lets go of it however the
// process dies, so a stale file means nothing.
type lock struct{ file *os.File }

// takeLock takes the one lock of this home. *cli.RunningError when another holds it.
func takeLock(path string) (*lock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) // close-on-exec, so no child keeps it
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer file.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("take lock %s: %w", path, err)
		}
		text, _ := os.ReadFile(path) // the process id is a courtesy; the lock is what counts
		pid := strings.TrimSpace(string(text))
		if pid == "" {
			pid = "?"
		}
		return nil, &cli.RunningError{PID: pid}
	}
	// Truncated after locking, or it would wipe the holder's process id.
	err = file.Truncate(0)
	if err == nil {
		_, err = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("write lock %s: %w", path, err)
	}
	return &lock{file: file}, nil
}

// release lets the next app start. The file stays: removing it would let two
// apps lock two files of one name.
func (l *lock) release() { l.file.Close() }
