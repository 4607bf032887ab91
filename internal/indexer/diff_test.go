package indexer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/document"
)

// tree writes files as "path inode size mtime", one a word group: "a.txt 1 10 5".
func tree(t *testing.T, lines ...string) map[string]document.File {
	t.Helper()
	files := make(map[string]document.File)
	for _, line := range lines {
		var f document.File
		var inode string
		var mtime int64
		if _, err := fmt.Sscanf(line, "%s %s %d %d", &f.Path, &inode, &f.Size, &mtime); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if f.FileID = inode; !strings.Contains(inode, ":") {
			f.FileID = "v:" + inode
		}
		f.Modified = time.Unix(mtime, 0).UTC()
		files[f.Path] = f
	}
	return files
}

// remember makes documents of files: ids 1, 2 … in the order of the paths.
func remember(files map[string]document.File) map[string]document.Known {
	known := make(map[string]document.Known)
	var paths []string
	for p := range files {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	for i, p := range paths {
		known[p] = document.Known{ID: document.ID(i + 1), File: files[p], State: document.Indexed}
	}
	return known
}

// tell writes an outcome in the words of the tests.
func tell(o outcome) []string {
	var out []string
	for _, c := range o.Changed {
		out = append(out, fmt.Sprintf("%d changed %s", c.ID, c.File.Path))
	}
	for _, c := range o.Moved {
		out = append(out, fmt.Sprintf("%d moved %s", c.ID, c.File.Path))
	}
	for _, c := range o.Reread {
		out = append(out, fmt.Sprintf("%d reread %s", c.ID, c.File.Path))
	}
	for _, c := range o.Touched {
		out = append(out, fmt.Sprintf("%d touched %s", c.ID, c.File.Path))
	}
	for _, id := range o.Gone {
		out = append(out, fmt.Sprintf("%d gone", id))
	}
	for _, f := range o.Found {
		out = append(out, "found "+f.Path)
	}
	return out
}

func TestDiff(t *testing.T) {
	tests := []struct {
		name   string
		known  []string
		seen   []string
		blind  []string // not judged, with what lies below
		failed string   // path of a document that failed
		hint   string
		want   []string
	}{
		{name: "nothing happened",
			known: []string{"a.t 1 10 1"}, seen: []string{"a.t 1 10 1"}},
		{name: "new file",
			seen: []string{"a.t 1 10 1"}, want: []string{"found a.t"}},
		{name: "deleted",
			known: []string{"a.t 1 10 1"}, want: []string{"1 gone"}},
		{name: "written in place",
			known: []string{"a.t 1 10 1"}, seen: []string{"a.t 1 12 2"}, want: []string{"1 changed a.t"}},
		{name: "same size, later time",
			known: []string{"a.t 1 10 1"}, seen: []string{"a.t 1 10 2"}, want: []string{"1 changed a.t"}},
		{name: "time set back",
			known: []string{"a.t 1 10 5"}, seen: []string{"a.t 1 10 2"}, want: []string{"1 changed a.t"}},
		{name: "renamed",
			known: []string{"a.t 1 10 1"}, seen: []string{"b.t 1 10 1"}, want: []string{"1 moved b.t"}},
		{name: "moved to another directory",
			known: []string{"x/a.t 1 10 1"}, seen: []string{"y/z/a.t 1 10 1"}, want: []string{"1 moved y/z/a.t"}},
		{name: "directory renamed",
			known: []string{"x/a.t 1 10 1", "x/b.t 2 10 1"}, seen: []string{"y/a.t 1 10 1", "y/b.t 2 10 1"},
			want: []string{"1 moved y/a.t", "2 moved y/b.t"}},
		{name: "only the case of the name",
			known: []string{"Note.md 1 10 1"}, seen: []string{"note.md 1 10 1"}, want: []string{"1 moved note.md"}},
		{name: "composed name became decomposed",
			known: []string{"\u00e9.md 1 10 1"}, seen: []string{"e\u0301.md 1 10 1"}, want: []string{"1 moved e\u0301.md"}},
		{name: "atomic save: another file renamed over it is a version of the same document",
			known: []string{"a.t 1 10 1"}, seen: []string{"a.t 2 11 2"}, want: []string{"1 changed a.t"}},
		{name: "atomic save with the time kept",
			known: []string{"a.t 1 10 1"}, seen: []string{"a.t 2 10 1"}, want: []string{"1 changed a.t"}},
		{name: "atomic save that keeps the old file as a backup",
			known: []string{"a.t 1 10 1"}, seen: []string{"a.t 2 11 2", "a.bak 1 10 1"}, want: []string{"1 changed a.t", "found a.bak"}},
		{name: "copy with the time kept is a new file",
			known: []string{"a.t 1 10 1"}, seen: []string{"a.t 1 10 1", "b.t 2 10 1"}, want: []string{"found b.t"}},
		{name: "hard link is a new file",
			known: []string{"a.t 1 10 1"}, seen: []string{"a.t 1 10 1", "b.t 1 10 1"}, want: []string{"found b.t"}},
		{name: "one of two hard links deleted",
			known: []string{"a.t 1 10 1", "b.t 1 10 1"}, seen: []string{"b.t 1 10 1"}, want: []string{"1 gone"}},
		{name: "two hard links renamed",
			known: []string{"a.t 1 10 1", "b.t 1 10 1"}, seen: []string{"c.t 1 10 1", "d.t 1 10 1"}, want: []string{"1 moved c.t", "2 moved d.t"}},
		{name: "names swapped",
			known: []string{"a.t 1 10 1", "b.t 2 20 1"}, seen: []string{"a.t 2 20 1", "b.t 1 10 1"}, want: []string{"1 moved b.t", "2 moved a.t"}},
		{name: "three names in a ring",
			known: []string{"a.t 1 10 1", "b.t 2 20 1", "c.t 3 30 1"}, seen: []string{"a.t 3 30 1", "b.t 1 10 1", "c.t 2 20 1"},
			want: []string{"1 moved b.t", "2 moved c.t", "3 moved a.t"}},
		{name: "b moved on, a took its place",
			known: []string{"a.t 1 10 1", "b.t 2 20 1"}, seen: []string{"b.t 1 10 1", "c.t 2 20 1"}, want: []string{"1 moved b.t", "2 moved c.t"}},
		{name: "renamed over another: the one under it is gone",
			known: []string{"a.t 1 10 1", "b.t 2 20 1"}, seen: []string{"b.t 1 10 1"}, want: []string{"1 moved b.t", "2 gone"}},
		{name: "logs rotated: each name keeps its document, the contents moved on",
			known: []string{"x.log 1 10 1", "x.log.1 2 20 1"}, seen: []string{"x.log 3 5 9", "x.log.1 1 10 1", "x.log.2 2 20 1"},
			want: []string{"1 changed x.log", "2 changed x.log.1", "found x.log.2"}},
		{name: "moved and edited is another document: the number alone may be anybody's",
			known: []string{"a.t 1 10 1"}, seen: []string{"b.t 1 12 2"}, want: []string{"1 gone", "found b.t"}},
		{name: "number used again after a deletion",
			known: []string{"a.t 1 10 1"}, seen: []string{"b.t 1 10 7"}, want: []string{"1 gone", "found b.t"}},
		{name: "moved, and its old name taken by a new file: the name keeps the document",
			known: []string{"a.t 1 10 1"}, seen: []string{"a.t 2 5 2", "b.t 1 10 1"}, want: []string{"1 changed a.t", "found b.t"}},
		{name: "renamed to a name that is read in another way",
			known: []string{"a.txt 1 10 1"}, seen: []string{"a.md 1 10 1"}, want: []string{"1 moved a.md", "1 reread a.md"}},
		{name: "renamed from a name without extension",
			known: []string{"Makefile 1 10 1"}, seen: []string{"notes 1 10 1"}, want: []string{"1 moved notes", "1 reread notes"}},
		{name: "volume numbered anew after a mount",
			known: []string{"a.t v1:1 10 1"}, seen: []string{"a.t v2:1 10 1"}, want: []string{"1 touched a.t"}},
		{name: "unreadable directory deletes nothing below it",
			known: []string{"d/a.t 1 10 1", "e.t 2 10 1"}, blind: []string{"d"}, want: []string{"2 gone"}},
		{name: "what lies in an unreadable directory does not move either",
			known: []string{"d/a.t 1 10 1"}, seen: []string{"b.t 1 10 1"}, blind: []string{"d"}, want: []string{"found b.t"}},
		{name: "failed document is left to its own time",
			known: []string{"a.t 1 10 1"}, seen: []string{"a.t 1 10 1"}, failed: "a.t"},
		{name: "failed document is tried again when somebody points at it",
			known: []string{"a.t 1 10 1", "b.t 2 10 1"}, seen: []string{"a.t 1 10 1", "b.t 2 10 1"}, failed: "a.t", hint: "a.t", want: []string{"1 changed a.t"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			known := remember(tree(t, tt.known...))
			if k, ok := known[tt.failed]; ok {
				k.State = document.Failed
				known[tt.failed] = k
			}
			blind, hinted := make(scope), make(scope)
			for _, b := range tt.blind {
				blind.add(b)
			}
			if tt.hint != "" {
				hinted.add(tt.hint)
			}
			got := diff(known, look{tree(t, tt.seen...), func(p string) bool { return !blind.holds(p) }, hinted.holds})
			if d := cmp.Diff(tt.want, tell(got)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// Whatever happened, applying the outcome makes the documents stand exactly
// for the files seen, and no document is named twice.
func TestDiffLeadsToWhatWasSeen(t *testing.T) {
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 1))
		files := func() map[string]document.File {
			m := make(map[string]document.File)
			for range r.IntN(6) {
				f := document.File{
					Path: string(rune('a' + r.IntN(5))), FileID: fmt.Sprintf("v:%d", r.IntN(5)),
					Size: int64(r.IntN(2)), Modified: time.Unix(int64(r.IntN(2)), 0).UTC(),
				}
				m[f.Path] = f
			}
			return m
		}
		known, seen := remember(files()), files()
		all := func(string) bool { return true }
		out := diff(known, look{seen, all, func(string) bool { return false }})

		byID := make(map[document.ID]document.File)
		for _, k := range known {
			byID[k.ID] = k.File
		}
		named := make(map[document.ID]bool)
		name := func(id document.ID) {
			if named[id] {
				t.Fatalf("seed %d: document %d is named twice: %v", seed, id, tell(out))
			}
			named[id] = true
		}
		for _, id := range out.Gone {
			name(id)
			delete(byID, id)
		}
		for _, c := range slices.Concat(out.Moved, out.Changed, out.Touched) {
			name(c.ID)
			byID[c.ID] = c.File
		}
		next := document.ID(1000)
		for _, f := range out.Found {
			byID[next] = f
			next++
		}
		got := make(map[string]document.File)
		for _, f := range byID {
			if _, twice := got[f.Path]; twice {
				t.Fatalf("seed %d: two documents at %s: %v", seed, f.Path, tell(out))
			}
			got[f.Path] = f
		}
		if d := cmp.Diff(seen, got); d != "" {
			t.Fatalf("seed %d: %v\n(-seen +documents):\n%s", seed, tell(out), d)
		}
	}
}
