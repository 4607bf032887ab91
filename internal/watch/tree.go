package watch

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// tree is the set of directories below the root that are watched or polled.
// It belongs to the goroutine of Watcher.Run.
type tree struct {
	root   string
	device uint64 // of the root; other devices are not entered
	skip   func(rel string, isDir bool) bool
	n      Notifier // nil: everything is polled
	deaf   string   // why n is nil

	// watched are rel paths, "." for the root, with the number of the directory
	// that was watched under the path; at holds the same the other way round.
	watched map[string]uint64
	at      map[uint64]string
	polled  map[string]struct{} // rel paths whose notification the system refused; each stands for all below
	reason  string              // why there are polled ones, or what the notifier last complained of
	lost    int                 // times that notifications were lost
}

func newTree(root string, device uint64, skip func(string, bool) bool, n Notifier) *tree {
	return &tree{root: root, device: device, skip: skip, n: n,
		watched: make(map[string]uint64), at: make(map[uint64]string), polled: make(map[string]struct{})}
}

// abs is the absolute path of a relative one.
func (t *tree) abs(rel string) string {
	if rel == "." {
		return t.root
	}
	return t.root + string(filepath.Separator) + filepath.FromSlash(rel)
}

// rel is the path of abs below the root, and false when it is not below it.
func (t *tree) rel(abs string) (string, bool) {
	if abs == t.root {
		return ".", true
	}
	rest, ok := strings.CutPrefix(abs, strings.TrimSuffix(t.root, string(filepath.Separator))+string(filepath.Separator))
	if !ok || rest == "" {
		return "", false
	}
	return filepath.ToSlash(rest), true
}

// add watches the directory rel and everything below it. What vanishes on the
// way or may not be listed is left out: the scan reports it.
func (t *tree) add(rel string) {
	if t.n == nil {
		t.poll(rel, t.deaf)
		return
	}
	info, err := os.Lstat(t.abs(rel))
	if err != nil || !info.IsDir() || deviceOf(info) != t.device {
		return
	}
	if rel != "." && t.skip(rel, true) {
		return
	}
	// A directory that moved is met under its new path before the notification
	// of its going is read, when its new parent was not watched yet. The system
	// knows one watch a directory: it would go on under the old path, and end
	// with that notification.
	inode := inodeOf(info)
	if old, ok := t.at[inode]; ok && old != rel {
		t.drop(old)
	}
	// The watch comes first and the listing second: a directory made in
	// between is seen by one of the two.
	if err := t.n.Add(t.abs(rel)); err != nil {
		if rel == "." || outOfRoom(err) {
			t.poll(rel, err.Error())
		}
		return
	}
	delete(t.polled, rel)
	t.forget(rel) // another directory may have been there
	t.watched[rel], t.at[inode] = inode, rel
	if t.n.Recursive() {
		return
	}
	entries, _ := os.ReadDir(t.abs(rel)) // a partial listing is still worth following
	for _, e := range entries {
		if e.IsDir() {
			t.add(path.Join(rel, e.Name()))
		}
	}
}

func (t *tree) poll(rel, reason string) {
	t.polled[rel] = struct{}{}
	t.reason = reason
}

// drop ends the watches of rel and of everything below it and reports whether
// there were any.
func (t *tree) drop(rel string) bool {
	found := false
	below := rel + "/"
	under := func(p string) bool { return rel == "." || p == rel || strings.HasPrefix(p, below) }
	for p := range t.watched {
		if under(p) {
			found = true
			t.unwatch(p)
		}
	}
	for p := range t.polled {
		if under(p) {
			found = true
			delete(t.polled, p)
		}
	}
	return found
}

// unwatch ends the watch of one directory.
func (t *tree) unwatch(rel string) {
	t.forget(rel)
	if t.n != nil {
		_ = t.n.Remove(t.abs(rel)) // gone already when the directory is
	}
}

// forget takes one directory off the books.
func (t *tree) forget(rel string) {
	if inode, ok := t.watched[rel]; ok && t.at[inode] == rel {
		delete(t.at, inode)
	}
	delete(t.watched, rel)
}

// refresh adds what is not watched yet and ends what is to be skipped now.
func (t *tree) refresh() {
	for p := range t.watched {
		if p != "." && t.skippedAbove(p) {
			t.unwatch(p)
		}
	}
	clear(t.polled)
	t.add(".")
}

// skippedAbove reports whether rel or a directory above it is skipped.
func (t *tree) skippedAbove(rel string) bool {
	for i := 0; i < len(rel); i++ {
		if rel[i] == '/' && t.skip(rel[:i], true) {
			return true
		}
	}
	return t.skip(rel, true)
}

// deviceOf is the number of the file system that info lies on.
func deviceOf(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Dev)
	}
	return 0
}

// inodeOf is the number of a directory on its file system; 0 where there is none.
func inodeOf(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}

// outOfRoom reports whether the system has no room for another watch.
func outOfRoom(err error) bool {
	for _, full := range []error{syscall.ENOSPC, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, full) {
			return true
		}
	}
	return false
}
