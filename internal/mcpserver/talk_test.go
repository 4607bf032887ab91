package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/mcpserver"
	"github.com/ondol-app/ondol/internal/search"
)

var noon = time.Date(2026, 4, 10, 12, 0, 0, 0, time.UTC)

// library is an app that answers with what a test put into it.
type library struct {
	err      error
	reply    search.Reply
	docs     []control.Document
	text     string
	folders  []document.Folder
	problems []control.Problem
	request  search.Request         // of the last search
	query    control.DocumentsQuery // of the last list
	wanted   document.Range         // of the last read
	hold     func(context.Context)  // called by Search
}

func (l *library) Search(ctx context.Context, req search.Request) (search.Reply, error) {
	l.request = req
	if l.hold != nil {
		l.hold(ctx)
	}
	return l.reply, l.err
}

func (l *library) Documents(_ context.Context, q control.DocumentsQuery) (control.Documents, error) {
	l.query = q
	page := control.Documents{Documents: []control.Document{}}
	for _, d := range l.docs {
		if q.Cursor != "" && fmt.Sprint(d.ID) <= q.Cursor && len(fmt.Sprint(d.ID)) <= len(q.Cursor) {
			continue
		}
		if len(page.Documents) == q.Limit {
			page.Next = fmt.Sprint(page.Documents[q.Limit-1].ID)
			break
		}
		page.Documents = append(page.Documents, d)
	}
	return page, l.err
}

func (l *library) Text(_ context.Context, id document.ID, r document.Range) (control.Reading, error) {
	l.wanted = r
	s := document.Stretch{Lines: strings.Count(l.text, "\n") + 1, Bytes: len(l.text), Line: 1, Text: l.text}
	if r.Line > 1 {
		drop := len(s.Through(r.Line - 1).Text)
		s.Line, s.Offset, s.Text = r.Line, drop, l.text[drop:]
	} else if r.Offset > 0 {
		s.Line, s.Offset, s.Text = 1+strings.Count(l.text[:r.Offset], "\n"), r.Offset, l.text[r.Offset:]
	}
	if r.LastLine > 0 {
		s = s.Through(r.LastLine)
	}
	d := control.Reading{Document: entry(int64(id), "a.md"), Text: s.Cut(r.Bytes)}
	if l.text == "" {
		d.Text = document.Stretch{}
		d.State, d.Reason = document.Skipped, document.ReasonBinary
	}
	return d, l.err
}

func (l *library) Folders(context.Context) ([]document.Folder, error) { return l.folders, l.err }

func (l *library) Status(context.Context) (control.Status, error) {
	return control.Status{Version: "1.2.3", Problems: l.problems}, l.err
}

func entry(id int64, path string) control.Document {
	return control.Document{Folder: "/docs", Document: document.Document{ID: document.ID(id), Path: path, Title: "A", Kind: document.KindMarkdown,
		Modified: noon, State: document.Indexed, Size: 10}}
}

// talk is a client that writes and reads lines, as one on the other end of a pipe.
type talk struct {
	t     *testing.T
	in    io.WriteCloser
	out   *bufio.Reader
	ended chan error // of Stdio
	calls int
}

// message is any message of the server.
type message struct {
	ID     *int
	Method string
	Params struct {
		ProgressToken string
		Progress      float64
	}
	Result struct {
		ProtocolVersion   string
		Tools             []struct{ Name string }
		IsError           bool
		Content           []struct{ Text string }
		StructuredContent json.RawMessage
	}
	Error *struct {
		Code    int
		Message string
	}
	size int // bytes of the line
}

func newServer(t *testing.T, app mcpserver.App) *mcpserver.Server {
	t.Helper()
	s, err := mcpserver.New(mcpserver.Config{Version: "1.2.3", App: app})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// begin is a client that is past the greetings.
func begin(t *testing.T, app mcpserver.App) *talk {
	t.Helper()
	s := newServer(t, app)
	inRead, in := io.Pipe()
	outRead, out := io.Pipe()
	c := &talk{t: t, in: in, out: bufio.NewReader(outRead), ended: make(chan error, 1)}
	go func() {
		err := s.Stdio(context.Background(), inRead, out)
		out.Close()
		c.ended <- err
	}()
	t.Cleanup(func() {
		in.Close()
		go io.Copy(io.Discard, outRead)
		if err := <-c.ended; err != nil {
			t.Errorf("stdio: %v", err)
		}
	})
	c.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	if m := c.next(); m.Result.ProtocolVersion != "2025-06-18" {
		t.Fatalf("greeting: %+v", m)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func (c *talk) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *talk) next() message {
	c.t.Helper()
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		c.t.Fatalf("%s: %v", line, err)
	}
	if m.size = len(line); m.size > 20_000 {
		c.t.Errorf("a message of %d bytes: %.200s", m.size, line)
	}
	return m
}

// call calls a tool and returns its id.
func (c *talk) call(tool, arguments string) int {
	c.t.Helper()
	c.calls++
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, c.calls, tool, arguments))
	return c.calls
}

// ask calls a tool and returns its answer, which must be no error.
func ask[Out any](c *talk, tool, arguments string) (Out, message) {
	c.t.Helper()
	c.call(tool, arguments)
	m := c.next()
	var out Out
	if m.Error != nil || m.Result.IsError {
		c.t.Fatalf("%s %s: %+v", tool, arguments, m)
	}
	if err := json.Unmarshal(m.Result.StructuredContent, &out); err != nil {
		c.t.Fatalf("%s: %v", m.Result.StructuredContent, err)
	}
	return out, m
}

// refused calls a tool and returns why that was refused.
func (c *talk) refused(tool, arguments string) string {
	c.t.Helper()
	c.call(tool, arguments)
	m := c.next()
	if !m.Result.IsError || len(m.Result.Content) != 1 || len(m.Result.StructuredContent) != 0 {
		c.t.Errorf("%s %s was not refused: %+v", tool, arguments, m)
		return ""
	}
	return m.Result.Content[0].Text
}
