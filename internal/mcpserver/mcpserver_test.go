package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/mcpserver"
	"github.com/ondol-app/ondol/internal/search"
)

// The tools and their arguments are the contract's, and say so in a list that
// is short enough.
func TestTools(t *testing.T) {
	c := begin(t, &library{})
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	line, err := c.out.ReadBytes('\n')
	if err != nil || len(line) > 20_000 {
		t.Fatalf("%d bytes: %v", len(line), err)
	}
	var list struct {
		Result struct {
			Tools []struct {
				Name, Title, Description string
				InputSchema              struct {
					Type                 string
					Properties           map[string]any
					Required             []string
					AdditionalProperties *bool
				}
				OutputSchema map[string]any
				Annotations  struct{ ReadOnlyHint, IdempotentHint, DestructiveHint, OpenWorldHint *bool }
			}
		}
	}
	if err := json.Unmarshal(line, &list); err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, tool := range list.Result.Tools {
		got[tool.Name] = slices.Sorted(maps.Keys(tool.InputSchema.Properties))
		in, a := tool.InputSchema, tool.Annotations
		if in.Type != "object" || in.Properties == nil || in.AdditionalProperties == nil || *in.AdditionalProperties {
			t.Errorf("%s takes more than it says: %+v", tool.Name, in)
		}
		if tool.Title == "" || tool.Description == "" || tool.OutputSchema["type"] != "object" {
			t.Errorf("%s is not described: %+v", tool.Name, tool)
		}
		if !*a.ReadOnlyHint || !*a.IdempotentHint || *a.DestructiveHint || *a.OpenWorldHint {
			t.Errorf("%s: annotations %+v", tool.Name, a)
		}
	}
	if diff := cmp.Diff(map[string][]string{
		"search": {"after", "before", "folders", "kinds", "limit", "path", "query"},
		"read":   {"document", "from", "path", "to"},
		"list":   {"cursor", "folder", "kinds", "path"},
		"status": {},
	}, got, cmp.Transformer("empty", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
}

func TestArgumentsAreStrict(t *testing.T) {
	c := begin(t, &library{text: "one\ntwo\n"})
	for _, tt := range []struct{ tool, arguments, says string }{
		{"search", `{"query":"x","lmit":3}`, `unknown argument "lmit"; this tool takes after, before, folders, kinds, limit, path, query`},
		{"search", `{"query":"x","Limit":3}`, `unknown argument "Limit"`},
		{"status", `{"x":1}`, `unknown argument "x"; this tool takes no arguments`},
		{"search", `{"query":"x","` + strings.Repeat("y", 5000) + `":3}`, `…"; this tool takes`},
		{"search", `{}`, "query is missing; it is what is looked for"},
		{"search", `{"query":null}`, "query is missing"},
		{"search", `[1]`, "no JSON object"},
		{"search", `{"query":7}`, "query must be a text"},
		{"search", `{"query":"x","limit":0}`, "limit must be a whole number from 1 to 100"},
		{"search", `{"query":"x","limit":101}`, "limit must be a whole number from 1 to 100"},
		{"search", `{"query":"x","limit":2.5}`, "limit must be a whole number"},
		{"search", `{"query":"x","limit":"3"}`, "limit must be a whole number"},
		{"search", `{"query":"x","folders":"a"}`, "folders must be a list"},
		{"search", `{"query":"x","folders":[0]}`, "folders must be a whole number from 1"},
		{"search", `{"query":"x","kinds":["film"]}`, `kinds: "film" is unknown; use text markdown`},
		{"search", `{"query":"x","after":"yesterday"}`, "after: \"yesterday\" is no date; write 2026-01-31"},
		{"search", `{"query":"x","before":"2026-13-01"}`, "before: \"2026-13-01\" is no date"},
		{"read", `{}`, "either document or path"},
		{"read", `{"document":1,"path":"a"}`, "either document or path"},
		{"read", `{"document":1,"from":0}`, "from must be a whole number from 1"},
		{"read", `{"document":1,"from":3,"to":2}`, "to lies before from"},
		{"read", `{"path":"a.md"}`, `no document lies at "a.md"`},
		{"list", `{"folder":"docs"}`, "folder must be a whole number"},
	} {
		if got := c.refused(tt.tool, tt.arguments); !strings.Contains(got, tt.says) {
			t.Errorf("%s %.60s: %q, want %q", tt.tool, tt.arguments, got, tt.says)
		}
	}
	c.call("serach", `{}`)
	if m := c.next(); m.Error == nil || !strings.Contains(m.Error.Message, "serach") {
		t.Errorf("an unknown tool: %+v", m)
	}
}

func TestSearchAsksForWhatItWasGiven(t *testing.T) {
	l := &library{reply: search.Reply{
		Results: []search.Result{{Document: 7, Path: "/docs/a.md", Title: "A", Kind: "markdown", Modified: noon, Score: 0.123456, State: document.Indexed,
			Location: search.Location{Lines: []int{3, 5}, Heading: "H"}, Snippet: search.Snippet{Text: "a <b> & c", Marks: [][2]int{{0, 1}}}}},
		Evidence: search.Evidence{Found: true, Reason: search.ReasonWords}, Index: search.Index{Pending: 2, LastScan: noon},
	}}
	c := begin(t, l)
	got, m := ask[mcpserver.Found](c, "search", `{"query":"x","limit":3,"folders":[1,2],"path":"sub","kinds":["text","code"],"after":"2026-01-31","before":"2026-02-01T08:00:00Z"}`)
	if diff := cmp.Diff(search.Request{Query: "x", Limit: 3, Folders: []document.FolderID{1, 2}, Path: "sub", Kinds: []document.Kind{"text", "code"},
		After: time.Date(2026, 1, 31, 0, 0, 0, 0, time.Local), Before: time.Date(2026, 2, 1, 8, 0, 0, 0, time.UTC)}, l.request); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	want := mcpserver.Found{Evidence: l.reply.Evidence, Index: l.reply.Index, NearMisses: []mcpserver.Hit{}, Degraded: []search.Degradation{}, Results: []mcpserver.Hit{{
		Document: 7, Path: "/docs/a.md", Title: "A", Kind: "markdown", Modified: noon, Location: l.reply.Results[0].Location, Snippet: "a <b> & c", Score: 0.1235, State: document.Indexed}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	// What a client shows that knows text alone tells the same.
	var said mcpserver.Found
	if err := json.Unmarshal([]byte(m.Result.Content[0].Text), &said); err != nil || !cmp.Equal(want, said) || !strings.Contains(m.Result.Content[0].Text, "a <b> & c") {
		t.Errorf("text %s: %v", m.Result.Content[0].Text, err)
	}
	l.err = &control.Error{Code: control.CodeOutside, Message: "/etc lies in no watched folder", Remedy: "give another"}
	if got := c.refused("search", `{"query":"x","path":"/etc"}`); got != "/etc lies in no watched folder; give another" {
		t.Errorf("refused with %q", got)
	}
	l.err = errors.New(strings.Repeat("온돌", 5000))
	if got := c.refused("search", `{"query":"x"}`); len(got) > 2100 || !strings.HasSuffix(got, "…") {
		t.Errorf("%d bytes: %.40s", len(got), got)
	}
}

// alphabets of texts that grow most when they are written as JSON.
var alphabets = []string{"abc \n", "\"\\", "<>&", "\x01\x02\n", "한글 ", "👩‍👩‍👧", "\u2028", " "}

func nasty(r *rand.Rand, most int) string {
	letters := []rune(alphabets[r.IntN(len(alphabets))])
	var b strings.Builder
	for n := r.IntN(most + 1); b.Len() < n; {
		b.WriteRune(letters[r.IntN(len(letters))])
	}
	return b.String()
}

// Whatever the index holds, no answer is longer than 20 KB, lists end, and
// nothing is lost on the way.
func TestNoAnswerIsLongerThanItMay(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	l := &library{}
	c := begin(t, l)
	for range 30 {
		*l = library{reply: search.Reply{}}
		for range r.IntN(101) {
			l.reply.Results = append(l.reply.Results, search.Result{Document: 1, Path: "/docs/" + nasty(r, 400), Title: nasty(r, 600), Kind: "text", Modified: noon,
				Location: search.Location{Lines: []int{1, 2}, Heading: nasty(r, 240)}, Snippet: search.Snippet{Text: nasty(r, 400)}, State: document.Indexed})
		}
		if r.IntN(4) == 0 {
			l.reply.Results, l.reply.NearMisses = nil, l.reply.Results[:min(3, len(l.reply.Results))]
		}
		found, _ := ask[mcpserver.Found](c, "search", `{"query":"x","limit":100}`)
		if len(found.Results)+found.Omitted != len(l.reply.Results) || len(found.NearMisses) > len(l.reply.NearMisses) {
			t.Errorf("%d shown and %d omitted of %d", len(found.Results), found.Omitted, len(l.reply.Results))
		}
		for i := range r.IntN(200) {
			l.docs = append(l.docs, entry(int64(1000+i), nasty(r, 500)))
			l.folders = append(l.folders, document.Folder{ID: document.FolderID(i + 1), Path: "/" + nasty(r, 500), State: document.FolderWatching})
			l.problems = append(l.problems, control.Problem{Code: "folder_offline", Args: map[string]string{"path": nasty(r, 500)}})
		}
		var ids []document.ID
		for cursor := ""; ; {
			page, _ := ask[mcpserver.Listing](c, "list", fmt.Sprintf(`{"cursor":%q}`, cursor))
			for _, d := range page.Documents {
				ids = append(ids, d.Document)
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		if len(ids) != len(l.docs) || !slices.IsSorted(ids) || len(slices.Compact(ids)) != len(l.docs) {
			t.Errorf("%d documents listed of %d", len(ids), len(l.docs))
		}
		standing, _ := ask[mcpserver.Standing](c, "status", `{}`)
		if len(standing.Folders)+len(standing.Problems)+standing.Omitted != len(l.folders)+len(l.problems) {
			t.Errorf("%d folders, %d problems, %d omitted", len(standing.Folders), len(standing.Problems), standing.Omitted)
		}
	}
	l.reply = search.Reply{}
	for range 100 {
		l.reply.Results = append(l.reply.Results, search.Result{Document: 1, Path: "/home/somebody/Documents/notes/2026/meeting.md", Title: "Meeting",
			Kind: "markdown", Modified: noon, Snippet: search.Snippet{Text: strings.Repeat("A sentence. ", 24)}, State: document.Indexed})
	}
	if found, m := ask[mcpserver.Found](c, "search", `{"query":"x","limit":100}`); len(found.Results) < 15 || found.Omitted != 100-len(found.Results) || m.size < 17_500 {
		t.Errorf("%d common results in %d bytes, %d omitted", len(found.Results), m.size, found.Omitted)
	}
	// A path as long as systems allow, of what takes six bytes each in JSON.
	l.docs = []control.Document{entry(1001, strings.Repeat("\x01", 4096)), entry(1002, "b")}
	if page, _ := ask[mcpserver.Listing](c, "list", `{}`); len(page.Documents) != 0 || page.Next != "1001" {
		t.Errorf("page %+v", page)
	}
	if page, _ := ask[mcpserver.Listing](c, "list", `{"cursor":"1001"}`); len(page.Documents) != 1 || page.Next != "" {
		t.Errorf("page %+v", page)
	}
}

// A document is read to its end by following next, however it is made.
func TestReadGoesOn(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 13))
	l := &library{}
	c := begin(t, l)
	texts := []string{"one\ntwo\nthree", "one line\n", strings.Repeat("a", 200_000), strings.Repeat("<한글>\n", 30_000), strings.Repeat("\x02", 60_000) + "\nshort\n" + strings.Repeat("\"", 50_000)}
	for range 10 {
		texts = append(texts, "x"+nasty(r, 100_000))
	}
	for n, text := range texts {
		l.text = text
		var all strings.Builder
		pages := 0
		for from := 1; from != 0; pages++ {
			page, m := ask[mcpserver.Reading](c, "read", fmt.Sprintf(`{"document":7,"from":%d}`, from))
			if page.Text == "" || m.Result.Content[1].Text != page.Text || page.From != 1+strings.Count(all.String(), "\n") {
				t.Fatalf("text %d, page %d: from %d to %d, %d bytes", n, pages, page.From, page.To, len(page.Text))
			}
			all.WriteString(page.Text)
			if want := strings.Count(strings.TrimSuffix(all.String(), "\n"), "\n") + 1; page.To != want {
				t.Errorf("text %d, page %d: to line %d, want %d", n, pages, page.To, want)
			}
			if page.Next != 0 && m.size < 9_000 {
				t.Errorf("text %d, page %d: cut at %d bytes", n, pages, m.size)
			}
			from = page.Next
		}
		if all.String() != text {
			t.Errorf("text %d: %d bytes read of %d", n, all.Len(), len(text))
		}
	}
	l.text = "one\ntwo\nthree\nfour\n"
	page, _ := ask[mcpserver.Reading](c, "read", `{"document":7,"from":2,"to":3}`)
	if page.Text != "two\nthree\n" || page.From != 2 || page.To != 3 || page.Next != 4 || page.Lines != 5 || page.Path != "/docs/a.md" {
		t.Errorf("lines 2 and 3: %+v", page)
	}
	l.docs = []control.Document{entry(7, "a.md")}
	if page, _ := ask[mcpserver.Reading](c, "read", `{"path":"a.md"}`); page.Document != 7 || l.query.File != "a.md" {
		t.Errorf("by path: %+v, asked for %+v", page, l.query)
	}
	l.docs = append(l.docs, entry(8, "a.md"))
	if got := c.refused("read", `{"path":"a.md"}`); !strings.Contains(got, "several documents") || !strings.Contains(got, "/docs/a.md, /docs/a.md") {
		t.Errorf("two of that path: %q", got)
	}
	l.text = ""
	if got := c.refused("read", `{"document":7}`); !strings.Contains(got, "document 7 has no text in the index: it is skipped binary") {
		t.Errorf("without text: %q", got)
	}
}

func TestCallsAreCancelled(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan error, 1)
	l := &library{}
	l.hold = func(ctx context.Context) {
		close(begun)
		<-ctx.Done()
		ended <- ctx.Err()
	}
	c := begin(t, l)
	id := c.call("search", `{"query":"x"}`)
	<-begun
	if got, _ := ask[mcpserver.Listing](c, "list", `{}`); len(got.Documents) != 0 { // it waits for nothing
		t.Errorf("%+v", got)
	}
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

// The end of the input comes after the answers to what was asked before it.
func TestTheLastAnswersAreGiven(t *testing.T) {
	release := make(chan struct{})
	l := &library{hold: func(context.Context) { <-release }}
	c := begin(t, l)
	for range 3 {
		c.call("search", `{"query":"x"}`)
	}
	c.in.Close()
	close(release)
	for range 3 {
		if m := c.next(); m.Error != nil || m.Result.IsError {
			t.Errorf("%+v", m)
		}
	}
	if rest, err := io.ReadAll(c.out); err != nil || len(rest) != 0 {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestProgressIsTold(t *testing.T) {
	c := begin(t, &library{})
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"status","arguments":{},"_meta":{"progressToken":"p"}}}`)
	if m := c.next(); m.Method != "notifications/progress" || m.Params.ProgressToken != "p" {
		t.Errorf("%+v", m)
	}
	if m := c.next(); m.ID == nil || *m.ID != 1 {
		t.Errorf("%+v", m)
	}
}

// post sends a message by HTTP.
func post(t *testing.T, url, session, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

const greeting = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func TestSessions(t *testing.T) {
	s := newServer(t, &library{})
	web := httptest.NewServer(s)
	defer web.Close()
	status := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"status","arguments":{}}}`
	// Of an app that is no more.
	if resp, text := post(t, web.URL, "FORGOTTEN", status); resp.StatusCode != 200 || !strings.Contains(text, `"version":"1.2.3"`) {
		t.Errorf("a session of before: %d %s", resp.StatusCode, text)
	}
	given := map[string]bool{}
	for range 80 {
		resp, text := post(t, web.URL, "", greeting)
		if resp.StatusCode != 200 || !strings.Contains(text, `"ondol"`) {
			t.Fatalf("greeting: %d %s", resp.StatusCode, text)
		}
		if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
			given[id] = true
		}
	}
	if len(given) != 64 {
		t.Errorf("%d sessions were given", len(given))
	}
	for id := range given {
		if resp, text := post(t, web.URL, id, status); resp.StatusCode != 200 || !strings.Contains(text, `"version":"1.2.3"`) {
			t.Errorf("in a session: %d %s", resp.StatusCode, text)
		}
		break
	}
}

// Run ends streams and calls, and takes no further ones.
func TestRunEndsEverything(t *testing.T) {
	begun := make(chan struct{})
	l := &library{}
	l.hold = func(ctx context.Context) {
		close(begun)
		<-ctx.Done()
	}
	s := newServer(t, l)
	web := httptest.NewServer(s)
	defer web.Close()
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	resp, _ := post(t, web.URL, "", greeting)
	session := resp.Header.Get("Mcp-Session-Id")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Mcp-Session-Id", session)
	stream, err := http.DefaultClient.Do(req)
	if err != nil || stream.StatusCode != 200 {
		t.Fatalf("stream: %+v, %v", stream, err)
	}
	defer stream.Body.Close()
	called := make(chan struct{})
	go func() {
		defer close(called)
		post(t, web.URL, session, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":{"query":"x"}}}`)
	}()
	<-begun
	stop()
	if err := <-ran; err != nil {
		t.Errorf("run: %v", err)
	}
	<-called
	if _, err := io.ReadAll(stream.Body); err != nil {
		t.Errorf("the stream was torn: %v", err)
	}
	if resp, _ := post(t, web.URL, session, greeting); resp.StatusCode != 503 {
		t.Errorf("after the end: %d", resp.StatusCode)
	}
}
