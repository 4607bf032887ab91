package llamaserver

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ondol-app/ondol/internal/process"
)

// maxSocketPath is the longest path of a unix socket: sun_path holds 104
// bytes on macOS, 108 on Linux, with the closing zero (sys/un.h).
const maxSocketPath = 103

// runFiles are the files of a running engine, all in a folder that only its
// owner may enter.
type runFiles struct{ dir string }

func (f runFiles) socket() string { return filepath.Join(f.dir, "llama.sock") } // the name's end makes llama-server take it for a socket
func (f runFiles) key() string    { return filepath.Join(f.dir, "llama.key") }
func (f runFiles) record() string { return filepath.Join(f.dir, "llama.json") }

// Sweep ends the engine that an app which is no more left running in runDir,
// where there is one; every start does that for its own folder. The error is a
// *Problem.
func Sweep(runDir string) error {
	if p := (runFiles{runDir}).sweep(); p != nil {
		return p
	}
	return nil
}

func (f runFiles) sweep() *Problem {
	_, err := process.Sweep(f.record())
	var owned *process.OwnedError
	var alive *process.StillAliveError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &owned):
		return problem(CodeOtherInstance, "%v", err)
	case errors.As(err, &alive):
		return problem(CodeOrphan, "%v", err)
	}
	return problem(CodeRunDir, "%v", err)
}

// prepare makes the folder safe, ends an orphan, frees the socket and writes a
// new key. Nothing of ours may be running.
func (f runFiles) prepare() (key string, p *Problem) {
	if p := f.secure(); p != nil {
		return "", p
	}
	if p := f.sweep(); p != nil {
		return "", p
	}
	if p := freeSocket(f.socket()); p != nil {
		return "", p
	}
	key = rand.Text()
	if err := writeKey(f.key(), key); err != nil {
		return "", problem(CodeRunDir, "write the engine's key: %v", err)
	}
	return key, nil
}

// secure makes sure that the folder is ours alone: whoever can enter it can
// use the engine, or put a socket of his own there.
func (f runFiles) secure() *Problem {
	if n := len(f.socket()); n > maxSocketPath {
		return problem(CodeSocketTooLong, "the path of the engine's socket has %d bytes, the system allows %d: %s; set ONDOL_HOME to a folder with a shorter path", n, maxSocketPath, f.socket())
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return problem(CodeRunDir, "make the run folder: %v; set ONDOL_HOME to a folder that can be written", err)
	}
	info, err := os.Lstat(f.dir)
	if err != nil {
		return problem(CodeRunDir, "look at the run folder: %v", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(owner.Uid) != os.Geteuid() {
		return problem(CodeRunDir, "%s is not a folder of the user that runs Ondol; remove it, or set ONDOL_HOME elsewhere", f.dir)
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(f.dir, 0o700); err != nil {
			return problem(CodeRunDir, "close the run folder to others: %v", err)
		}
	}
	return nil
}

// freeSocket removes a stale socket, which llama-server leaves behind however
// it ends. One that somebody listens on is left alone.
func freeSocket(path string) *Problem {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return problem(CodeRunDir, "look at the engine's socket: %v", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return problem(CodeSocketTaken, "%s is not a socket and is not ours; move it away", path)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = conn.Close() // it told what was to be known
	}
	if !errors.Is(err, syscall.ECONNREFUSED) { // anything else means that somebody may be there
		return problem(CodeSocketTaken, "another program listens on %s; end it, or set ONDOL_HOME elsewhere", path)
	}
	if err := os.Remove(path); err != nil {
		return problem(CodeRunDir, "remove the stale socket: %v", err)
	}
	return nil
}

// writeKey writes a new file with mode 0600; one that is there, of whatever
// mode, is removed first.
func writeKey(path, key string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, key)
	return errors.Join(err, file.Close())
}
