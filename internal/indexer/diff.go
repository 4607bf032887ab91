package indexer

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/ondol-app/ondol/internal/document"
)

// identity tells two files apart without opening them. The size and the time
// belong to it because file systems give the number of a deleted file to the
// next one at once.
type identity struct {
	fileID string
	size   int64
	mtime  int64 // nanoseconds
}

func identityOf(f document.File) identity {
	return identity{f.FileID, f.Size, f.Modified.UnixNano()}
}

// look is one scan's answer: what it saw, and what its silence means.
type look struct {
	seen map[string]document.File // by path
	// judged reports whether the scan would have seen a file at path, so that
	// not seeing it means that it is gone. False below what could not be listed.
	judged func(path string) bool
	// hinted reports whether somebody pointed at path: a failed document there
	// is tried again although its file looks the same.
	hinted func(path string) bool
}

// outcome is what a scan means.
type outcome struct {
	document.Changes
	// Reread are those of Moved whose text must be made again, because the new
	// name is read in another way (notes.txt became notes.md).
	Reread []document.Change
}

// diff decides what a scan means for the documents of a folder. It is pure.
// design.md has the cases as a table; in short:
//
//   - A file at the same path with the same file number is the same document,
//     changed when size or time differ.
//   - Another file at a known path is a new version of that document (editors
//     save by renaming a new file over the old one), unless that file is
//     itself a known document that moved there.
//   - A document whose path holds nothing, or a file that moved there, follows
//     its own file (number, size and time the same) to a path that has none.
//   - A file that moved and was changed at once is a new document: the number
//     alone may belong to anything, and old text must not stand under its name.
//   - What is left is found or gone. A copy has its own number: it is found.
func diff(known map[string]document.Known, l look) outcome {
	var out outcome
	free := make(map[string]document.Known) // documents that may follow their file elsewhere
	open := make(map[string]document.File)  // files that no document stands for yet
	for p, f := range l.seen {
		if _, ok := known[p]; !ok {
			open[p] = f
		}
	}
	for p, k := range known {
		f, here := l.seen[p]
		switch {
		case !here && l.judged(p):
			free[p] = k
		case !here:
		case inode(k.File) != inode(f):
			free[p], open[p] = k, f
		case k.File.Size != f.Size || !k.File.Modified.Equal(f.Modified),
			k.State == document.Failed && l.hinted(p):
			out.Changed = append(out.Changed, document.Change{ID: k.ID, File: f})
		case k.File.FileID != f.FileID: // the volume got another number
			out.Touched = append(out.Touched, document.Change{ID: k.ID, File: f})
		}
	}
	out.Changed = append(out.Changed, replaced(free, open)...)
	follow(free, open, &out)
	for _, p := range slices.Sorted(maps.Keys(open)) {
		out.Found = append(out.Found, open[p])
	}
	for _, k := range free {
		out.Gone = append(out.Gone, k.ID)
	}
	byID := func(a, b document.Change) int { return cmp.Compare(a.ID, b.ID) }
	slices.SortFunc(out.Changed, byID)
	slices.SortFunc(out.Moved, byID)
	slices.SortFunc(out.Touched, byID)
	slices.SortFunc(out.Reread, byID)
	slices.Sort(out.Gone)
	return out
}

// replaced takes out of free and open the documents whose path holds another
// file that did not come from a free document. It repeats: a document that
// stays no longer claims the file it had, which then is new where it stands.
func replaced(free map[string]document.Known, open map[string]document.File) []document.Change {
	var out []document.Change
	for again := true; again; {
		again = false
		owners := make(map[identity]bool, len(free))
		for _, k := range free {
			owners[identityOf(k.File)] = true
		}
		for p, k := range free {
			f, here := open[p]
			if !here || owners[identityOf(f)] {
				continue
			}
			out = append(out, document.Change{ID: k.ID, File: f})
			delete(free, p)
			delete(open, p)
			again = true
		}
	}
	return out
}

// follow lets each free document go to the first open path that holds its
// file. Where the new name is read in another way, it is to be read again.
func follow(free map[string]document.Known, open map[string]document.File, out *outcome) {
	owners := make(map[identity][]string, len(free)) // paths in order: hard links share an identity
	for _, p := range slices.Sorted(maps.Keys(free)) {
		id := identityOf(free[p].File)
		owners[id] = append(owners[id], p)
	}
	for _, p := range slices.Sorted(maps.Keys(open)) {
		id := identityOf(open[p])
		from := owners[id]
		if len(from) == 0 {
			continue
		}
		change := document.Change{ID: free[from[0]].ID, File: open[p]}
		out.Moved = append(out.Moved, change)
		if !sameFormat(from[0], p) {
			out.Reread = append(out.Reread, change)
		}
		owners[id] = from[1:]
		delete(free, from[0])
		delete(open, p)
	}
}

// inode is the file's number without its volume's: volumes are renumbered when
// they are mounted again, and a scan never leaves the volume of its root.
func inode(f document.File) string {
	return f.FileID[strings.LastIndexByte(f.FileID, ':')+1:]
}

// sameFormat reports whether two names are read in the same way.
func sameFormat(a, b string) bool {
	x, y := path.Ext(a), path.Ext(b)
	if x == "" && y == "" {
		return path.Base(a) == path.Base(b) // Makefile, Dockerfile
	}
	return strings.EqualFold(x, y)
}
