package control

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// locate turns a path that somebody filters by, which may end in a pattern,
// into the path by which the index knows it: cleaned, and with links resolved
// where only that leads into a watched folder. Outside of them nothing exists:
// whether it is there on disk is told by no answer.
func (s *Server) locate(ctx context.Context, path string) (string, error) {
	fixed, pattern := path, ""
	if i := strings.IndexAny(path, "*?["); i >= 0 {
		i = strings.LastIndexByte(path[:i], '/') + 1
		fixed, pattern = path[:i], path[i:]
	}
	if hasParent(pattern) {
		return "", outside(path)
	}
	found, err := s.locateFile(ctx, fixed)
	switch {
	case err != nil || pattern == "":
		return found, err
	case found == "" || found == ".":
		return pattern, nil
	}
	return strings.TrimSuffix(found, "/") + "/" + pattern, nil
}

// locateFile is locate for a path whose characters all stand for themselves.
func (s *Server) locateFile(ctx context.Context, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	clean := filepath.Clean(path)
	if !filepath.IsAbs(clean) {
		if hasParent(clean) {
			return "", outside(path)
		}
		return clean, nil
	}
	roots, err := s.roots(ctx)
	if err != nil {
		return "", err
	}
	for _, candidate := range []func() string{func() string { return clean }, func() string { return resolve(clean) }} {
		at := norm.NFC.String(candidate())
		for _, root := range roots {
			if root = norm.NFC.String(root); at == root || strings.HasPrefix(at, strings.TrimSuffix(root, "/")+"/") {
				return at, nil
			}
		}
	}
	return "", outside(path)
}

// resolve follows the links in as much of an absolute path as exists.
func resolve(path string) string {
	rest := ""
	for at := path; ; at = filepath.Dir(at) {
		found, err := filepath.EvalSymlinks(at)
		if err == nil {
			return filepath.Join(found, rest)
		}
		if !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			return path
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

// hasParent reports whether a relative path goes upwards.
func hasParent(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if part == ".." {
			return true
		}
	}
	return false
}

func outside(path string) error {
	return &Error{Status: http.StatusNotFound, Code: CodeOutside, Message: path + " lies in no watched folder",
		Remedy: "give a path below one of them, or one relative to it; `ondol folders list` has them", Args: map[string]string{"path": path}}
}
