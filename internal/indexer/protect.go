package indexer

import (
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/ondol-app/ondol/internal/document"
)

// systemFolder is a directory that holds the system, or everything.
type systemFolder struct {
	path  string
	below bool // what lies in it is the system's too
}

// systemFolders are those of an operating system. Temporary folders of macOS
// lie in /private/var and volumes in /System/Volumes: single ones may be chosen.
func systemFolders(goos string) []systemFolder {
	if goos == "darwin" {
		return []systemFolder{{"/", false}, {"/System", false}, {"/System/Library", true}, {"/System/Volumes", false},
			{"/System/Volumes/Data", false}, {"/dev", true}, {"/private", false}, {"/private/var", false}, {"/private/var/db", true}}
	}
	return []systemFolder{{"/", false}, {"/proc", true}, {"/sys", true}, {"/dev", true}}
}

// refuse says why a directory is not to be watched: it is, or lies in, one of
// own, whose files change because they are indexed, or it belongs to the
// system. Paths are absolute and without links. nil means that it may be. A
// directory around one of own may be watched: see ownBelow.
func refuse(goos, root string, own []string) error {
	for _, dir := range own {
		if within(goos, root, dir) {
			return &document.FolderRefusedError{Path: root, Reason: document.RefusedOwn, Holder: dir}
		}
	}
	for _, s := range systemFolders(goos) {
		if same(goos, root, s.path) || s.below && within(goos, root, s.path) {
			return &document.FolderRefusedError{Path: root, Reason: document.RefusedSystem, Holder: s.path}
		}
	}
	return nil
}

// ownBelow are the paths of own, relative to root and slash separated, that
// lie in it; "." alone where root itself lies in one of them.
func ownBelow(goos, root string, own []string) scope {
	out := make(scope)
	for _, dir := range own {
		switch {
		case within(goos, root, dir):
			return scope{".": {}}
		case within(goos, dir, root):
			prefix := strings.TrimSuffix(plain(goos, root), "/") + "/"
			out.add(filepath.ToSlash(strings.TrimPrefix(plain(goos, dir), prefix)))
		}
	}
	return out
}

// within reports whether path is dir or lies in it.
func within(goos, path, dir string) bool {
	return same(goos, path, dir) || strings.HasPrefix(plain(goos, path), strings.TrimSuffix(plain(goos, dir), "/")+"/")
}

func same(goos, a, b string) bool { return plain(goos, a) == plain(goos, b) }

// plain is a path for comparison: one normal form, and on macOS, whose file
// systems disregard case, lower case.
func plain(goos, path string) string {
	path = norm.NFC.String(path)
	if goos == "darwin" {
		path = strings.ToLower(path)
	}
	return path
}

// resolved are directories without links. One that is not there yet is
// resolved as far as it is.
func resolved(dirs []string) []string {
	out := make([]string, 0, len(dirs))
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		rest, at := "", filepath.Clean(dir)
		for {
			real, err := filepath.EvalSymlinks(at)
			if err == nil {
				out = append(out, filepath.Join(real, rest))
				break
			}
			if filepath.Dir(at) == at {
				out = append(out, filepath.Clean(dir))
				break
			}
			rest, at = filepath.Join(filepath.Base(at), rest), filepath.Dir(at)
		}
	}
	return out
}

// owns reports whether rel is, or lies in, a directory of Ondol's own.
func (r *rules) owns(rel string) bool { return len(r.own) > 0 && r.own.holds(plain(runtime.GOOS, rel)) }
