// Package locations says where Ondol keeps what it keeps on this machine:
// settings, data, logs, cache, sockets.
//
// Any package may import it, but only app and the tests need to. The answer
// is a pure function of the environment (Resolve), so that the command line
// and the running app always agree; nothing is created before Make, and what
// Make creates only its owner can enter (mode 0700).
package locations

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Paths are absolute. Folders end in no separator.
type Paths struct {
	Settings string // the settings file
	Data     string // database, models, lock
	Logs     string // the app's and the engine's logs
	Cache    string // may be deleted at any time
	Run      string // sockets and process records; short enough for a socket's name
}

// Database is the index.
func (p Paths) Database() string { return filepath.Join(p.Data, "ondol.db") }

// VectorCache holds vectors that can be computed again.
func (p Paths) VectorCache() string { return filepath.Join(p.Cache, "vectors.cache.db") }

// Models is where downloaded and chosen models lie.
func (p Paths) Models() string { return filepath.Join(p.Data, "models") }

// Trials is where the reports of trials are kept.
func (p Paths) Trials() string { return filepath.Join(p.Data, "verify") }

// Candidates is what is remembered of engines that were tried.
func (p Paths) Candidates() string { return filepath.Join(p.Data, "candidates.json") }

// Lock is held by the running app.
func (p Paths) Lock() string { return filepath.Join(p.Data, "app.lock") }

// Log is the app's own log.
func (p Paths) Log() string { return filepath.Join(p.Logs, "ondol.log") }

// Token is the file with the key that clients show where one is required.
func (p Paths) Token() string { return filepath.Join(p.Data, "token") }

// ControlSocket is where the command line reaches the running app.
func (p Paths) ControlSocket() string { return filepath.Join(p.Run, "control.sock") }

// Environment is what the answer depends on.
type Environment struct {
	GOOS   string                  // "darwin" follows macOS, anything else XDG
	UID    int                     // of the person running us
	Home   string                  // the home folder; empty is an error unless ONDOL_HOME is set
	Getenv func(key string) string // ONDOL_HOME and, on Linux, XDG_*; required
}

// Current is the environment of this process.
func Current() Environment {
	home, _ := os.UserHomeDir() // an unknown home is reported by Resolve, and only when it is needed
	return Environment{GOOS: runtime.GOOS, UID: os.Getuid(), Home: home, Getenv: os.Getenv}
}

// sunPathMax is the longest socket path on macOS: sun_path holds 104 bytes
// with the closing NUL (sys/un.h). Linux allows four more; one rule serves both.
const sunPathMax = 103

// socketNameMax is the room kept for the name of a socket inside Run, bytes.
const socketNameMax = 32

// tempDir is where Run goes when its proper place is too deep. Fixed rather
// than TMPDIR, which may differ between a terminal and a login item.
const tempDir = "/tmp"

// Resolve says where everything lies. It looks at the disk only to follow
// symbolic links in ONDOL_HOME, so that two names of one folder are one home.
func Resolve(env Environment) (Paths, error) {
	var p Paths
	switch dir := env.Getenv("ONDOL_HOME"); {
	case dir != "":
		// A shell leaves the tilde as it is in quotes and in files of settings.
		if dir == "~" || strings.HasPrefix(dir, "~/") {
			if env.Home == "" {
				return Paths{}, errors.New("resolve ONDOL_HOME: it begins with ~, but HOME is not set; write the whole path")
			}
			dir = filepath.Join(env.Home, strings.TrimPrefix(dir, "~"))
		}
		abs, err := filepath.Abs(dir)
		if err != nil {
			return Paths{}, fmt.Errorf("resolve ONDOL_HOME: %w", err)
		}
		root := follow(abs)
		p = Paths{
			Settings: filepath.Join(root, "settings.toml"),
			Data:     filepath.Join(root, "data"),
			Logs:     filepath.Join(root, "logs"),
			Cache:    filepath.Join(root, "cache"),
			Run:      filepath.Join(root, "run"),
		}
	case env.Home == "":
		return Paths{}, errors.New("find the home folder: HOME is not set; set HOME, or ONDOL_HOME to a folder for Ondol")
	case env.GOOS == "darwin":
		library := filepath.Join(env.Home, "Library")
		support := filepath.Join(library, "Application Support", "Ondol")
		p = Paths{
			Settings: filepath.Join(support, "settings.toml"),
			Data:     support,
			Logs:     filepath.Join(library, "Logs", "Ondol"),
			Cache:    filepath.Join(library, "Caches", "Ondol"),
			Run:      filepath.Join(support, "run"),
		}
	default:
		data := xdg(env, "XDG_DATA_HOME", ".local/share")
		p = Paths{
			Settings: filepath.Join(xdg(env, "XDG_CONFIG_HOME", ".config"), "settings.toml"),
			Data:     data,
			Logs:     filepath.Join(xdg(env, "XDG_STATE_HOME", ".local/state"), "logs"),
			Cache:    xdg(env, "XDG_CACHE_HOME", ".cache"),
			Run:      filepath.Join(data, "run"),
		}
	}
	if len(p.Run)+1+socketNameMax > sunPathMax {
		sum := sha256.Sum256([]byte(p.Run))
		p.Run = filepath.Join(tempDir, "ondol-"+strconv.Itoa(env.UID)+"-"+hex.EncodeToString(sum[:6]))
	}
	return p, nil
}

// xdg is the base folder of the XDG specification with our name below it; a
// relative value is ignored, as the specification demands.
func xdg(env Environment, key, fallback string) string {
	if dir := env.Getenv(key); filepath.IsAbs(dir) {
		return filepath.Join(dir, "ondol")
	}
	return filepath.Join(env.Home, fallback, "ondol")
}

// follow resolves the symbolic links of the part of path that exists.
func follow(path string) string {
	rest := ""
	for dir := path; ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == filepath.Dir(dir) {
			return path
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}
