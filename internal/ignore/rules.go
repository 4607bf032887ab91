package ignore

import (
	"path"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// FileNames are the rule files of a directory, weakest first. A walker reads
// those that exist and hands them to [Rules.Enter].
func FileNames() []string { return []string{".gitignore", ".ignore", ".ondolignore"} }

// Rules is what holds inside one directory: its own rule files and those of
// all directories above it.
type Rules struct {
	parent   *Rules
	dir      string      // relative to the root, "" for the root itself
	patterns [][]pattern // by source: the order of FileNames, then read from strong to weak
	defaults []pattern   // of the root only
}

// New returns the rules of a tree before any rule file was read. With
// defaults, what nobody searches for is left out: see [Defaults].
func New(defaults bool) *Rules {
	r := &Rules{}
	if defaults {
		r.defaults = parse(Defaults)
	}
	return r
}

// Enter returns the rules inside dir, which is relative to the root, slash
// separated, "" for the root. files holds the contents of the rule files found
// there, by name; other names are disregarded. The receiver must be the rules
// of dir's parent directory (for the root: the value from New).
func (r *Rules) Enter(dir string, files map[string][]byte) *Rules {
	child := &Rules{parent: r, dir: normal(dir)}
	found := false
	for _, name := range FileNames() {
		ps := parse(string(files[name]))
		child.patterns = append(child.patterns, ps)
		found = found || len(ps) > 0
	}
	if !found && child.dir == r.dir {
		return r
	}
	return child
}

// Ignored reports whether rel, a path relative to the root inside this
// directory, is left out. Every directory between this one and rel is tested
// first; this one itself is taken as entered, hence not ignored.
func (r *Rules) Ignored(rel string, isDir bool) bool {
	rel = normal(rel)
	rest := rel
	if r.dir != "" {
		rest = strings.TrimPrefix(rel, r.dir+"/")
	}
	for i := 0; i < len(rest); i++ {
		if rest[i] == '/' && r.matched(rel[:len(rel)-len(rest)+i], true) {
			return true
		}
	}
	return r.matched(rel, isDir)
}

// matched asks the sources from strong to weak and, in each, from the deepest
// directory up; the first pattern that matches decides.
func (r *Rules) matched(rel string, isDir bool) bool {
	for source := len(FileNames()) - 1; source >= 0; source-- {
		for at := r; at != nil; at = at.parent {
			if at.patterns == nil {
				continue
			}
			if ignored, ok := decide(at.patterns[source], at.dir, rel, isDir); ok {
				return ignored
			}
		}
	}
	for at := r; at != nil; at = at.parent {
		if ignored, ok := decide(at.defaults, at.dir, rel, isDir); ok {
			return ignored
		}
	}
	return false
}

// decide returns the verdict of the last pattern of one rule file that matches.
func decide(patterns []pattern, dir, rel string, isDir bool) (ignored, ok bool) {
	if len(patterns) == 0 {
		return false, false
	}
	if dir != "" {
		inside, below := strings.CutPrefix(rel, dir+"/")
		if !below {
			return false, false
		}
		rel = inside
	}
	base := path.Base(rel)
	for i := len(patterns) - 1; i >= 0; i-- {
		if patterns[i].match(rel, base, isDir) {
			return !patterns[i].negated, true
		}
	}
	return false, false
}

func normal(rel string) string {
	rel = strings.Trim(rel, "/")
	if rel == "." {
		return ""
	}
	return norm.NFC.String(rel)
}
