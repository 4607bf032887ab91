package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/text/unicode/norm"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/search"
)

// A path is what the index calls it, or outside of everything that exists.
func TestPathsOutsideDoNotExist(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root, secret := filepath.Join(base, "docs"), filepath.Join(base, "secret")
	for _, dir := range []string{filepath.Join(root, "한글"), secret, filepath.Join(base, "docs2")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{filepath.Join(base, "way"): root, filepath.Join(root, "hole"): secret, filepath.Join(base, "loop"): "loop"} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	p := newParts()
	p.list = []document.Folder{{ID: 1, Path: root}}
	s := setup(t, p, nil)
	for _, tt := range []struct{ path, want string }{ // want: empty = outside
		{root, root},
		{root + "/", root},
		{root + "/a.md", root + "/a.md"},
		{root + "/../docs/./a.md", root + "/a.md"},
		{base + "/way/a.md", root + "/a.md"},
		{base + "/way/sub/*.md", root + "/sub/*.md"},
		{root + "/**/*.md", root + "/**/*.md"},
		{root + "/" + norm.NFD.String("한글"), root + "/한글"},
		{root + "/hole/key", root + "/hole/key"}, // the index follows no links: nothing lies there
		{"sub/a.md", "sub/a.md"},
		{"./sub//a.md", "sub/a.md"},
		{"sub/../a.md", "a.md"},
		{"**/*.md", "**/*.md"},
		{"sub/x*/b", "sub/x*/b"},
		{base, ""},
		{secret, ""},
		{secret + "/missing", ""},
		{base + "/docs2", ""},
		{base + "/missing", ""},
		{root + "/../secret/key", ""},
		{base + "/loop", ""},
		{"/", ""},
		{"/etc/passwd", ""},
		{"/**/*.md", ""},
		{base + "/doc*/a.md", ""},
		{root + "/*/../../secret/*", ""},
		{"..", ""},
		{"../secret", ""},
		{"sub/../../secret", ""},
		{"*/../../secret", ""},
	} {
		for _, in := range []string{"path", "search"} {
			p.query, p.request = document.DocumentQuery{}, search.Request{}
			w := call(s, "GET", "documents?path="+url.QueryEscape(tt.path), "")
			got := p.query.Path
			if in == "search" {
				body, _ := json.Marshal(search.Request{Query: "x", Path: tt.path})
				w = call(s, "POST", "search", string(body))
				got = p.request.Path
			}
			if outside := w.Code == 404; outside != (tt.want == "") || got != tt.want {
				t.Errorf("%s %q: status %d, %q, want %q", in, tt.path, w.Code, got, tt.want)
			}
		}
	}
	if w := call(s, "GET", "documents?file="+url.QueryEscape(base+"/way/n[1].md"), ""); w.Code != 200 || p.query.File != root+"/n[1].md" {
		t.Errorf("a file with brackets: %d, %q", w.Code, p.query.File)
	}
}

func TestDirectClientNeedsNoSocket(t *testing.T) {
	p := newParts()
	c := setup(t, p, nil).Direct()
	page, err := c.Documents(t.Context(), control.DocumentsQuery{Path: "sub", Kinds: []document.Kind{document.KindText, document.KindCode}, File: "a b", Limit: 2})
	if err != nil || len(page.Documents) != 2 || page.Next != "5" {
		t.Errorf("%+v, %v", page, err)
	}
	if p.query.Path != "sub" || p.query.File != "a b" || len(p.query.Kinds) != 2 {
		t.Errorf("query %+v", p.query)
	}
	reading, err := c.Text(t.Context(), 9, document.Range{Line: 2, LastLine: 3, Bytes: 50})
	if err != nil || reading.ID != 9 || reading.Folder != "/home/a" || reading.Text.Text != "two\n" || !reading.Stale {
		t.Errorf("%+v, %v", reading, err)
	}
	if _, err := c.Text(t.Context(), 9, document.Range{Offset: 4}); err != nil {
		t.Error(err)
	}
	var refused *control.Error
	if _, err := c.Document(t.Context(), 77); !errors.As(err, &refused) || refused.Code != control.CodeNotFound {
		t.Errorf("no such document: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p.hold = func(ctx context.Context) {
		cancel()
		<-ctx.Done()
		p.err = ctx.Err()
	}
	if _, err := c.Search(ctx, search.Request{Query: "x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that left: %v", err)
	}
	p.hold = func(context.Context) { panic("broken") }
	if _, err := c.Search(t.Context(), search.Request{Query: "x"}); err == nil {
		t.Error("a panic became an answer")
	}
	if _, err := c.Search(ctx, search.Request{Query: "x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that had left: %v", err)
	}
}

func TestAClientAsksForTrust(t *testing.T) {
	doubt := errors.New("not mine")
	c := control.NewClient(filepath.Join(shortDir(t), "control.sock"), func() error { return doubt })
	if _, err := c.Status(t.Context()); !errors.Is(err, doubt) {
		t.Errorf("got %v", err)
	}
}
