package watch

import (
	"slices"
	"strings"
	"time"
)

// Batch is one bundle of hints.
type Batch struct {
	// Paths are relative to the root, slash separated, sorted, without
	// duplicates and without a path below another one. Each may be a file, a
	// directory (meaning everything below it) or gone. Empty when Rescan is set.
	Paths []string
	// Rescan means that anything may have changed, the root itself included.
	Rescan bool
}

// aggregator gathers hints until they have been quiet for a while, or have
// waited for the longest time allowed. It is a plain state machine: the caller
// tells it the time. The zero deadline means that nothing is held.
type aggregator struct {
	quiet    time.Duration
	max      time.Duration
	maxPaths int

	paths  map[string]struct{}
	rescan bool
	first  time.Time // of the oldest hint held; zero when none is held
	last   time.Time // of the newest hint held
}

// add holds the hint that path changed. The root's own path is a rescan.
func (a *aggregator) add(path string, now time.Time) {
	a.stamp(now)
	if a.rescan {
		return
	}
	if path == "." || path == "" {
		a.setRescan()
		return
	}
	if a.paths == nil {
		a.paths = make(map[string]struct{})
	}
	a.paths[path] = struct{}{}
	if len(a.paths) > a.maxPaths {
		a.setRescan()
	}
}

// addRescan holds the hint that anything changed.
func (a *aggregator) addRescan(now time.Time) {
	a.stamp(now)
	a.setRescan()
}

func (a *aggregator) setRescan() {
	a.rescan = true
	a.paths = nil
}

func (a *aggregator) stamp(now time.Time) {
	if a.first.IsZero() {
		a.first = now
	}
	a.last = now
}

// deadline is when the hints held are due, and false when none are held.
func (a *aggregator) deadline() (time.Time, bool) {
	if a.first.IsZero() {
		return time.Time{}, false
	}
	quiet, longest := a.last.Add(a.quiet), a.first.Add(a.max)
	if longest.Before(quiet) {
		return longest, true
	}
	return quiet, true
}

// peek is the batch that take would drop.
func (a *aggregator) peek() Batch {
	if a.rescan {
		return Batch{Rescan: true}
	}
	paths := make([]string, 0, len(a.paths))
	for p := range a.paths {
		if !a.covered(p) {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return Batch{Paths: paths}
}

// covered reports whether a directory above path is held as well.
func (a *aggregator) covered(path string) bool {
	for i := strings.LastIndexByte(path, '/'); i > 0; i = strings.LastIndexByte(path[:i], '/') {
		if _, ok := a.paths[path[:i]]; ok {
			return true
		}
	}
	return false
}

// clear drops what is held, after the batch was handed over.
func (a *aggregator) clear() {
	a.paths, a.rescan = nil, false
	a.first, a.last = time.Time{}, time.Time{}
}
