package watch

import (
	"maps"
	"os"
	"time"
)

// handle follows one notification: it keeps the watches in step and holds the
// hint. It reports whether the root itself is in doubt.
func (t *tree) handle(ev Event, held *aggregator) (suspect bool) {
	rel, ok := t.rel(ev.Path)
	if !ok {
		return ev.Path != "" // about something above the root
	}
	now := time.Now()
	if rel == "." {
		held.add(rel, now)
		return ev.Op == OpGone
	}
	if ev.Op == OpGone {
		if t.drop(rel) || !t.skip(rel, false) {
			held.add(rel, now)
		}
		return false
	}
	info, err := os.Lstat(ev.Path)
	isDir := err == nil && info.IsDir()
	if t.skip(rel, isDir) {
		return false
	}
	if isDir && t.n != nil && !t.n.Recursive() {
		_, known := t.watched[rel]
		if ev.Op == OpCreated || !known {
			// Another directory may have had this name: its watches would
			// report under a name that is no longer theirs.
			t.drop(rel)
			t.add(rel)
		}
	}
	held.add(rel, now)
	return false
}

// complain follows an error of the notifier. Lost events may have been about
// new directories, so the watches are compared with the tree.
func (t *tree) complain(err error, held *aggregator) {
	t.lost++
	t.refresh()
	t.reason = err.Error()
	held.addRescan(time.Now())
}

// deafen goes on without the notifier, which ended by itself.
func (t *tree) deafen(held *aggregator) {
	t.n, t.deaf = nil, "notification ended"
	clear(t.watched)
	clear(t.at)
	t.add(".")
	held.addRescan(time.Now())
}

// pollAll holds a hint for every directory that cannot be watched, after another
// attempt to watch it.
func (t *tree) pollAll(held *aggregator) {
	for rel := range maps.Clone(t.polled) {
		t.add(rel)
		held.add(rel, time.Now())
	}
}
