package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxReply is the longest message that answers a call, in bytes.
	maxReply = 20_000
	// envelope is kept free for what stands around the result: JSON-RPC's
	// fields with the id of the request, the protocol's own marks, the frame
	// of a server-sent event.
	envelope = 1_000
	// maxMessage bounds the text of a refusal.
	maxMessage = 2_000
	// tick is how often a client that wants progress hears of it.
	tick = time.Second
)

// begin gives a call its context and reports its progress until done is called.
func (s *Server) begin(ctx context.Context, req *mcp.CallToolRequest) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancel(ctx)
	unbind := context.AfterFunc(s.ending, cancel)
	end := func() { unbind(); cancel() }
	token := req.Params.GetProgressToken()
	if token == nil {
		return ctx, end
	}
	began := time.Now()
	tell := func(now time.Time) {
		// How long it takes in all is not known before it is done.
		seconds := now.Sub(began).Seconds()
		_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: seconds,
			Message: fmt.Sprintf("%s: %.0f s", req.Params.Name, seconds)}) // whoever does not hear it hears the answer
	}
	tell(began)
	var telling sync.WaitGroup
	telling.Go(func() {
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-ticker.C:
				tell(now)
			}
		}
	})
	return ctx, func() { end(); telling.Wait() }
}

// refusal is an answer that is an error: one the model reads and can act on.
func refusal(err error) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: cut(err.Error(), maxMessage)}}}
}

// answer is a result whose structure is value; said is what a client shows that
// knows text alone.
func answer(value any, said ...string) *mcp.CallToolResult {
	result := &mcp.CallToolResult{StructuredContent: json.RawMessage(plain(value))}
	for _, text := range said {
		result.Content = append(result.Content, &mcp.TextContent{Text: text})
	}
	return result
}

// plain is JSON as a reader likes it: < and & as they are.
func plain(value any) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // our own types always marshal
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// fit is the answer with as many of n parts as it has room for. build makes it
// with the first ones. One that is too long even with none is refused.
func fit(n int, build func(n int) *mcp.CallToolResult) *mcp.CallToolResult {
	long := func(n int) bool {
		text, err := json.Marshal(build(n))
		return err != nil || len(text) > maxReply-envelope
	}
	if long(0) {
		return refusal(errLong)
	}
	return build(sort.Search(n, func(i int) bool { return long(i + 1) }))
}

// errLong is met where a single path fills an answer.
var errLong = fmt.Errorf("the answer is longer than the %d bytes an answer may have, however little it tells", maxReply)
