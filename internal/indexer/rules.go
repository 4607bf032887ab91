package indexer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/ondol-app/ondol/internal/ignore"
)

// maxRuleFile bounds the size of a rule file, in bytes. A larger one is an
// error: to obey half of it would index what its owner wants left out.
const maxRuleFile = 1 << 20

// rules are the ignore rules of one folder, read from its rule files as
// directories are met and then kept. A change of a rule file needs a new value.
type rules struct {
	root string
	own  scope // directories of Ondol's own, in the form of plain

	mu     sync.Mutex // guards inside; the watcher and the actor both ask
	top    *ignore.Rules
	inside map[string]*ignore.Rules // by directory, "." for the root
}

// newRules returns the rules of the folder at root; own are the directories
// that are left out whatever they say.
func newRules(root string, defaults bool, own []string) *rules {
	return &rules{root: root, own: ownBelow(runtime.GOOS, root, own), top: ignore.New(defaults), inside: make(map[string]*ignore.Rules)}
}

// in returns the rules that hold inside the directory dir.
func (r *rules) in(dir string) (*ignore.Rules, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.load(dir)
}

// load is in with r.mu held.
func (r *rules) load(dir string) (*ignore.Rules, error) {
	if known, ok := r.inside[dir]; ok {
		return known, nil
	}
	above, key := r.top, ""
	if dir != "." {
		var err error
		if above, err = r.load(path.Dir(dir)); err != nil {
			return nil, err
		}
		key = dir
	}
	files, err := readRuleFiles(filepath.Join(r.root, filepath.FromSlash(dir)))
	if err != nil {
		return nil, err
	}
	entered := above.Enter(key, files)
	r.inside[dir] = entered
	return entered, nil
}

// ignored reports whether rel is left out, by a rule about it or about a
// directory above it. Where rules cannot be read, nothing is known and
// everything is left out.
func (r *rules) ignored(rel string, isDir bool) (bool, error) {
	if r.owns(rel) {
		return true, nil
	}
	for i := 0; i < len(rel); i++ {
		if rel[i] != '/' {
			continue
		}
		above, err := r.in(path.Dir(rel[:i]))
		if err != nil {
			return true, err
		}
		if above.Ignored(rel[:i], true) {
			return true, nil
		}
	}
	at, err := r.in(path.Dir(rel))
	if err != nil {
		return true, err
	}
	return at.Ignored(rel, isDir), nil
}

// skip is ignored for the watcher, which must hear of the rule files
// themselves although they are hidden.
func (r *rules) skip(rel string, isDir bool) bool {
	if !isDir && isRuleFile(rel) {
		return r.owns(rel)
	}
	ignored, err := r.ignored(rel, isDir)
	return ignored && err == nil
}

func isRuleFile(rel string) bool { return slices.Contains(ignore.FileNames(), path.Base(rel)) }

// readRuleFiles reads the rule files of a directory. Links and anything else
// that is not a regular file are no rule files.
func readRuleFiles(dir string) (map[string][]byte, error) {
	var files map[string][]byte
	for _, name := range ignore.FileNames() {
		p := filepath.Join(dir, name)
		info, err := os.Lstat(p)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue
		}
		var content []byte
		if err == nil {
			content, err = readSmall(p)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read rules: %w", err)
		}
		if files == nil {
			files = make(map[string][]byte)
		}
		files[name] = content
	}
	return files, nil
}

func readSmall(p string) ([]byte, error) {
	f, err := os.Open(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxRuleFile+1))
	if err == nil && len(content) > maxRuleFile {
		err = fmt.Errorf("%s is larger than %d bytes: shorten it", p, maxRuleFile)
	}
	return content, err
}
