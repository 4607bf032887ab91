package control_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/search"
)

// start runs a server over p on a real socket until the test ends.
func start(t testing.TB, p *parts, change func(*control.Config)) (socket string, stop func() error) {
	t.Helper()
	s := setup(t, p, func(c *control.Config) {
		if change != nil {
			change(c)
		}
		socket = c.Socket
	})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	var err error
	stopped := false
	stop = func() error {
		if !stopped {
			cancel()
			err, stopped = <-ended, true
		}
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return socket, stop
}

func TestClient(t *testing.T) {
	p := newParts()
	socket, stop := start(t, p, nil)
	c := control.NewClient(socket)
	defer c.Close()
	ctx := t.Context()

	status, err := c.Status(ctx)
	if err != nil || status.Version != "1.2.3" || status.Index.Counts.Found != 7 {
		t.Errorf("Status = %+v, %v", status, err)
	}
	folders, err := c.Folders(ctx)
	if diff := cmp.Diff(p.list, folders); err != nil || diff != "" {
		t.Errorf("Folders: %v (-want +got):\n%s", err, diff)
	}
	added, err := c.AddFolder(ctx, "/home/c")
	if err != nil || added.Path != "/home/c" || added.ID != 7 {
		t.Errorf("AddFolder = %+v, %v", added, err)
	}
	page, err := c.Documents(ctx, control.DocumentsQuery{State: document.Failed, Folder: 2, Cursor: "1", Limit: 2})
	if err != nil || len(page.Documents) != 2 || page.Next != "5" || page.Documents[1].Folder != "/home/b" {
		t.Errorf("Documents = %+v, %v", page, err)
	}
	if want := (document.DocumentQuery{State: document.Failed, Folder: 2, After: 1, Limit: 3}); !cmp.Equal(p.query, want) {
		t.Errorf("query = %+v, want %+v", p.query, want)
	}
	doc, err := c.Document(ctx, 9)
	if err != nil || doc.Path != "예산안.txt" || doc.Folder != "/home/a" {
		t.Errorf("Document = %+v, %v", doc, err)
	}
	if _, err := c.Search(ctx, search.Request{Query: "예산"}); err != nil || p.request.Query != "예산" {
		t.Errorf("Search: %v, request %+v", err, p.request)
	}
	logs, err := c.EngineLogs(ctx, 3)
	if diff := cmp.Diff(p.log, logs); err != nil || diff != "" {
		t.Errorf("EngineLogs: %v (-want +got):\n%s", err, diff)
	}
	set, err := c.Settings(ctx)
	if err != nil || len(set.Settings) != 1 || set.File == "" {
		t.Errorf("Settings = %+v, %v", set, err)
	}
	chain, err := c.Chain(ctx)
	if err != nil || len(chain.Links) != 1 || chain.Links[0].Right.Value != 4 {
		t.Errorf("Chain = %+v, %v", chain, err)
	}
	for _, change := range []func(context.Context, map[string]string) (control.SettingsChanged, error){c.ChangeSettings, c.PreviewSettings} {
		changed, err := change(ctx, map[string]string{"admission.executing": "3"})
		if err != nil || changed.Applies["admission.executing"] != "now" || len(changed.Refused) != 0 {
			t.Errorf("changed = %+v, %v", changed, err)
		}
	}
	_, err = c.ChangeSettings(ctx, map[string]string{"admission.executing": "9"})
	if refused, ok := errors.AsType[*control.Error](err); !ok || refused.Code != control.CodeSettingsRefused || refused.Problems[0].Args["link"] != "permits_slots" {
		t.Errorf("refused = %v", err)
	}
	for _, do := range []func() error{
		func() error { return c.RemoveFolder(ctx, 1) },
		func() error { return c.RescanFolder(ctx, 2) },
		func() error { return c.RetryDocument(ctx, 5) },
		func() error { _, err := c.StartEngine(ctx); return err },
		func() error { _, err := c.StopEngine(ctx); return err },
		func() error { _, err := c.RestartEngine(ctx); return err },
	} {
		if err := do(); err != nil {
			t.Error(err)
		}
	}
	engine, err := c.Engine(ctx)
	if err != nil || engine.PID != 42 {
		t.Errorf("Engine = %+v, %v", engine, err)
	}
	want := []string{"add /home/c", "log 3", "change 3", "preview 3", "change 9", "remove 1", "rescan 2", "retry 5", "start", "stop", "restart"}
	if diff := cmp.Diff(want, p.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	_, err = c.Document(ctx, 4)
	var e *control.Error
	if !errors.As(err, &e) || e.Status != 404 || e.Code != "not_found" || e.Remedy == "" {
		t.Errorf("Document 4: %#v, want a 404 *Error with a remedy", err)
	}

	if err := stop(); err != nil {
		t.Errorf("Run = %v", err)
	}
	if _, err := os.Lstat(socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("socket after Run: %v, want it gone", err)
	}
	if _, err := c.Status(ctx); !errors.Is(err, control.ErrNotRunning) {
		t.Errorf("Status after Run = %v, want ErrNotRunning", err)
	}
}

func TestClientWithoutServer(t *testing.T) {
	c := control.NewClient(filepath.Join(shortDir(t), "none.sock"))
	if _, err := c.Status(t.Context()); !errors.Is(err, control.ErrNotRunning) {
		t.Errorf("no socket: %v, want ErrNotRunning", err)
	}
	stale := staleSocket(t)
	c = control.NewClient(stale)
	if _, err := c.Status(t.Context()); !errors.Is(err, control.ErrNotRunning) {
		t.Errorf("stale socket: %v, want ErrNotRunning", err)
	}
}

// staleSocket leaves a socket file behind on which nobody listens, as an app
// that was killed does.
func staleSocket(t *testing.T) string {
	t.Helper()
	path := filepath.Join(shortDir(t), "control.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSocketIsClosedToOthers(t *testing.T) {
	socket, _ := start(t, newParts(), func(c *control.Config) {
		c.Socket = filepath.Join(shortDir(t), "run", "control.sock") // a folder that is not there yet
	})
	for path, want := range map[string]fs.FileMode{socket: 0o600, filepath.Dir(socket): 0o700} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("mode of %s = %04o, want %04o", path, got, want)
		}
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	stale := staleSocket(t)
	socket, _ := start(t, newParts(), func(c *control.Config) { c.Socket = stale })
	if _, err := control.NewClient(socket).Status(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSecondInstanceIsRefused(t *testing.T) {
	socket, _ := start(t, newParts(), nil)
	second := setup(t, newParts(), func(c *control.Config) { c.Socket = socket })
	if err := second.Run(t.Context()); !errors.Is(err, control.ErrRunning) {
		t.Errorf("second Run = %v, want ErrRunning", err)
	}
	if _, err := control.NewClient(socket).Status(t.Context()); err != nil {
		t.Errorf("the first one does not answer any longer: %v", err)
	}
}

func TestListenRefuses(t *testing.T) {
	inTheWay := filepath.Join(shortDir(t), "control.sock")
	if err := os.WriteFile(inTheWay, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := shortDir(t)
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, socket, says string }{
		{"a file", inTheWay, "move it away"},
		{"an open folder", filepath.Join(open, "control.sock"), "chmod 700"},
		{"a long path", filepath.Join(shortDir(t), strings.Repeat("x", 100)), "ONDOL_HOME"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := setup(t, newParts(), func(c *control.Config) { c.Socket = tt.socket })
			if err := s.Listen(); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("Listen = %v, want an error with %q", err, tt.says)
			}
		})
	}
	if text, err := os.ReadFile(inTheWay); err != nil || string(text) != "mine" {
		t.Errorf("the file in the way: %q, %v", text, err)
	}
}

// A caller that leaves ends the context of what it asked for, and Run waits
// for what it cut.
func TestCallerLeavesAndStopCuts(t *testing.T) {
	p := newParts()
	began, returned := make(chan struct{}, 1), make(chan struct{}, 1)
	p.hold = func(ctx context.Context) {
		began <- struct{}{}
		<-ctx.Done()
		p.err = ctx.Err()
		returned <- struct{}{}
	}
	socket, stop := start(t, p, func(c *control.Config) { c.Grace = time.Millisecond })
	c := control.NewClient(socket)
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	ask := func(ctx context.Context) {
		_, err := c.Search(ctx, search.Request{Query: "x"})
		answered <- err
	}
	go ask(ctx)
	<-began
	cancel()
	<-returned
	if err := <-answered; !errors.Is(err, context.Canceled) {
		t.Errorf("client got %v", err)
	}

	go ask(context.Background())
	<-began
	if err := stop(); err != nil {
		t.Errorf("Run = %v", err)
	}
	select {
	case <-returned:
	default:
		t.Error("Run returned before its handler")
	}
	var e *control.Error
	if err := <-answered; !errors.As(err, &e) || e.Status != 503 || e.Code != "stopping" {
		t.Errorf("the cut caller got %v, want a 503", err)
	}
}
