package archtest_test

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fileBudget is the longest a source file may be, lines; a longer one does
// more than one thing.
const fileBudget = 400

func TestFilesStaySmall(t *testing.T) {
	for _, f := range sources(t) {
		if !f.isTest() && f.lines > fileBudget {
			t.Errorf("%s has %d lines, at most %d: split it", f.path, f.lines, fileBudget)
		}
	}
}

func TestEveryPackageHasOneDoc(t *testing.T) {
	docs := map[string][]string{}
	for _, f := range sources(t) {
		if f.isTest() {
			if f.doc != "" {
				t.Errorf("%s: a package comment belongs in a file that is no test", f.path)
			}
			continue
		}
		if docs[f.dir] == nil {
			docs[f.dir] = []string{}
		}
		if f.doc == "" {
			continue
		}
		docs[f.dir] = append(docs[f.dir], f.path)
		want := "Package " + f.pkg + " "
		if f.pkg == "main" {
			want = "Command " + path.Base(f.dir) + " "
			if f.dir == "." {
				want = "Command ondol "
			}
		}
		if !strings.HasPrefix(f.doc, want) {
			t.Errorf("%s: the package comment starts %q, not %q", f.path, strings.SplitN(f.doc, "\n", 2)[0], want)
		}
	}
	for dir, where := range docs {
		if len(where) != 1 {
			t.Errorf("%s has %d package comments %v, want 1", dir, len(where), where)
		}
	}
}

func TestNothingIsSkipped(t *testing.T) {
	for _, f := range sources(t) {
		if f.skips {
			t.Errorf("%s skips a test: what cannot run is a failure with a remedy", f.path)
		}
	}
}

// forbidden is text that has no place in the repository. The words are put
// together here so that this file does not hold them.
var forbidden = []struct {
	pattern *regexp.Regexp
	why     string
}{
	{regexp.MustCompile(`(^|[\s=(:,` + "`" + `]|[^\w}"]"|')/` + `(root|work)/`), "a path of one machine"},
	{regexp.MustCompile(`deb\.` + `debian\.org|proxy\.` + `golang\.org|registry\.` + `npmjs\.org|sum\.` + `golang\.org`), "the host of a package registry: use the machine's own settings"},
	{regexp.MustCompile(`"` + `resolved"\s*:`), "an address in a lock file: it would bypass the machine's own registry"},
	{regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`), "unfinished work: finish it or open an issue"},
}

func TestForbiddenText(t *testing.T) {
	list, err := files()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range list {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.IndexByte(text, 0) >= 0 || strings.HasSuffix(name, ".sum") {
			continue
		}
		for n, line := range strings.Split(string(text), "\n") {
			for _, f := range forbidden {
				if found := f.pattern.FindString(line); found != "" {
					t.Errorf("%s:%d: %q is %s", name, n+1, found, f.why)
				}
			}
		}
	}
}

// topLevel is what the repository's first folder may hold. What a machine
// leaves there by itself (hidden files) is no concern of ours, but for .ci and .github.
var topLevel = map[string]bool{
	"app": true, "frontend": true, "build": true, "internal": true, "assets": true, "docs": true,
	"wails.json": true, "go.mod": true, "go.sum": true, "main.go": true,
	"README.md": true, "Makefile": true, "LICENSE": true,
}

func TestTopLevel(t *testing.T) {
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !topLevel[e.Name()] {
			t.Errorf("%s does not belong at the top level", e.Name())
		}
	}
}
