package archtest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// source is one Go file of the repository.
type source struct {
	path            string // slash separated, relative to the root
	dir             string
	pkg             string
	lines           int
	doc             string // package comment
	imports         []string
	startsGoroutine bool
	skips           bool // calls t.Skip, t.Skipf or t.SkipNow
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// internal is the package's path below internal; empty elsewhere.
func (s source) internal() string {
	rest, ok := strings.CutPrefix(s.dir, "internal/")
	if !ok {
		return ""
	}
	return rest
}

// root is the top of the repository, seen from this package's folder.
const root = "../.."

// built are folders that a build or a run makes; they are not part of the source.
var built = map[string]bool{
	".git": true, "build/bin": true, "build/deps": true, "build/home": true,
	"frontend/node_modules": true, "frontend/dist": true,
}

// files lists the repository's files, slash separated, relative to the root.
var files = sync.OnceValues(func() ([]string, error) {
	var list []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case d.IsDir() && (built[rel] || path.Base(rel) == "node_modules"):
			return filepath.SkipDir
		case d.Type().IsRegular():
			list = append(list, rel)
		}
		return nil
	})
	return list, err
})

var parsed = sync.OnceValues(func() ([]source, error) {
	list, err := files()
	if err != nil {
		return nil, err
	}
	var all []source
	for _, name := range list {
		if path.Ext(name) != ".go" || strings.Contains(name, "/testdata/") {
			continue
		}
		s, err := parse(name)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
})

// parse reads one file whatever its build tags say.
func parse(name string) (source, error) {
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return source{}, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
	if err != nil {
		return source{}, err
	}
	s := source{path: name, dir: path.Dir(name), pkg: file.Name.Name, lines: strings.Count(string(text), "\n"), doc: file.Doc.Text()}
	for _, spec := range file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return source{}, err
		}
		s.imports = append(s.imports, p)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			s.startsGoroutine = true
		case *ast.SelectorExpr:
			switch n.Sel.Name {
			case "Skip", "Skipf", "SkipNow":
				if x, ok := n.X.(*ast.Ident); ok && (x.Name == "t" || x.Name == "b" || x.Name == "tb" || x.Name == "f") {
					s.skips = true
				}
			}
		}
		return true
	})
	return s, nil
}

func sources(t *testing.T) []source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("only %d Go files found: the tree was not read", len(all))
	}
	return all
}
