package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/upstream"
)

// watchInterval is a multiple of how often waiting commands look.
const watchInterval = time.Second

func (c *commands) status() *cobra.Command {
	var watch bool
	cmd := c.command("status", "cli.status", func(cmd *cobra.Command, _ []string) error {
		client, err := c.client()
		if err != nil {
			return err
		}
		if watch {
			return c.watchStatus(cmd.Context(), client)
		}
		status, err := client.Status(cmd.Context())
		if err != nil {
			return err
		}
		if c.asJSON {
			return c.json(status, false)
		}
		c.showStatus(status)
		return nil
	})
	cmd.Args = c.arguments(0, 0, "usage.want.none")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, c.term.words.Say("cli.status.watch"))
	return cmd
}

// pause waits, and reports false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// showStatus is the whole state on one screen.
func (c *commands) showStatus(s control.Status) {
	say := c.term.words.Say
	c.term.line(c.term.paint(bold, say("status.title", "version", s.Version)))
	rows := [][]cell{{{text: say("engine.title")}, c.engineState(string(s.Engine.State), engineDetail(say, s.Engine.Model.Name, s.Engine.Model.Dimension))}}
	if p := s.Engine.LastError; p != nil && s.Engine.State != llamaserver.Ready && s.Engine.State != llamaserver.Unloaded {
		rows = append(rows, []cell{{text: say("engine.error")}, {text: c.engineProblem(p), style: red}})
	}
	rows = append(rows, c.checkRow(s.Engine))
	a := s.Admission
	rows = append(rows,
		[]cell{{text: say("queue.title")}, {text: say("queue.line", "executing", a.Executing, "limit", a.Limits.Executing, "waiting", a.Waiting, "draining", a.Draining, "background", a.BackgroundWaiting)}},
	)
	if line := totals(say, a.Totals); line != "" {
		rows = append(rows, []cell{{text: say("totals.title")}, {text: line}})
	}
	if s.Validity.Rejected > 0 {
		rows = append(rows, []cell{{text: ""}, {text: say("status.rejected", "count", s.Validity.Rejected), style: red}})
	}
	rows = append(rows,
		[]cell{{text: say("status.folders")}, {text: fmt.Sprint(s.Index.Folders)}},
		[]cell{{text: say("status.index")}, {text: ledger(say, s.Index.Counts)}},
	)
	if line := reasons(say, s.Index.Counts); line != "" {
		rows = append(rows, []cell{{text: say("status.reasons")}, {text: line}})
	}
	if state := s.Index.Yielding; state != nil {
		rows = append(rows, []cell{{text: say("status.yield.title")}, {text: yieldLine(say, *state), style: yellow}})
	}
	rows = append(rows, []cell{{text: say("status.vectors.title")}, {text: say("status.vectors", "embedded", s.Index.EmbeddedChunks, "reused", s.Index.ReusedChunks)}})
	for _, g := range s.Index.Generations {
		if line := c.progressOf(g); line != "" {
			rows = append(rows, []cell{{text: say("generation.title")}, {text: line, style: yellow}})
		}
	}
	if last := s.Index.LastScan; last != nil {
		rows = append(rows, []cell{{text: say("status.scan")}, {text: local(*last)}})
	}
	for _, r := range s.Roles {
		if r.Role != upstream.RoleEmbed || r.URL != "" { // a local engine for embedding is above
			rows = append(rows, []cell{{text: say("status.role." + r.Role.String())}, c.engineState(r.State, roleDetail(say, r))})
		}
	}
	rows = append(rows,
		[]cell{{text: say("status.gpu.title")}, {text: gpuLine(say, s.GPU)}},
		[]cell{{text: say("status.endpoint")}, {text: s.Endpoint}},
	)
	for i := range rows {
		rows[i][0].style = dim
	}
	c.term.table(rows)
	for _, p := range s.Problems {
		c.term.line(c.term.paint(yellow, "! "+clean(c.problem(p.Code, p.Args))))
	}
}

// problem is the sentence of a problem's code.
func (c *commands) problem(code string, args map[string]string) string {
	var pairs []any
	for name, value := range args {
		pairs = append(pairs, name, value)
	}
	// Where the figures came along, the detail can be told in the reader's language.
	if _, figures := args["smaller"]; figures {
		if text, ok := c.term.words.Lookup("engine.problem."+args["problem"], pairs...); ok {
			pairs = append([]any{"detail", text}, pairs...) // the first of a name counts
		}
	}
	if text, ok := c.term.words.Lookup("problem."+code, pairs...); ok {
		return text
	}
	return code
}

// engineState is the engine's state in words and a colour.
func (c *commands) engineState(state, detail string) cell {
	text, ok := c.term.words.Lookup("engine.state." + state)
	if !ok {
		text = state
	}
	style := yellow
	switch state {
	case "ready":
		style = green
	case "failed", "stopped", "refused", "unreachable":
		style = red
	}
	if detail != "" {
		text += " · " + detail
	}
	return cell{text: text, style: style}
}

// roleDetail names the model and, where others run it, the place: an owner sees
// where texts go.
func roleDetail(say sayer, r control.RoleStatus) string {
	switch {
	case r.Plain:
		return say("status.role.plain", "model", clean(r.Model), "url", clean(r.URL))
	case r.Outside:
		return say("status.role.outside", "model", clean(r.Model), "url", clean(r.URL))
	case r.URL != "":
		return say("status.role.at", "model", clean(r.Model), "url", clean(r.URL))
	}
	return clean(r.Model)
}

type sayer func(key string, pairs ...any) string

func engineDetail(say sayer, model string, dim int) string {
	var parts []string
	if model != "" {
		parts = append(parts, model)
	}
	if dim > 0 {
		parts = append(parts, say("engine.dimension", "count", dim))
	}
	return strings.Join(parts, " · ")
}

// ledger is found = indexed + skipped + failed + pending, as a sentence.
func ledger(say sayer, n document.Counts) string {
	return say("status.ledger", "found", n.Found, "indexed", n.Indexed, "skipped", n.Skipped, "failed", n.Failed, "pending", n.Pending)
}

// reasons is what was skipped or failed, most frequent first.
func reasons(say sayer, n document.Counts) string {
	var parts []string
	for _, r := range byCount(n.Reasons) {
		parts = append(parts, fmt.Sprintf("%s %d", say("reason."+string(r)), n.Reasons[r]))
	}
	return strings.Join(parts, " · ")
}

// local is a time on the reader's clock.
func local(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }
