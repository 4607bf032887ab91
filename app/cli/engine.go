package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/llamaserver"
)

func (c *commands) engine() *cobra.Command {
	say := c.term.words.Say
	status := c.command("status", "cli.engine.status", func(cmd *cobra.Command, _ []string) error {
		client, err := c.client()
		if err != nil {
			return err
		}
		engine, err := client.Engine(cmd.Context())
		if err != nil {
			return err
		}
		return c.showEngine(engine)
	})
	status.Args = c.arguments(0, 0, "usage.want.none")

	start := c.engineOrder("start", (*control.Client).StartEngine, llamaserver.Ready)
	stop := c.engineOrder("stop", (*control.Client).StopEngine, llamaserver.Stopped)
	restart := c.engineOrder("restart", (*control.Client).RestartEngine, llamaserver.Ready)

	var lines int
	var follow bool
	logs := c.command("logs", "cli.engine.logs", func(cmd *cobra.Command, _ []string) error {
		if err := c.between("--lines", lines, 1, 10000); err != nil {
			return err
		}
		return c.engineLogs(cmd.Context(), lines, follow)
	})
	logs.Args = c.arguments(0, 0, "usage.want.none")
	logs.Flags().IntVarP(&lines, "lines", "n", 50, say("cli.engine.logs.lines"))
	logs.Flags().BoolVarP(&follow, "follow", "f", false, say("cli.engine.logs.follow"))
	return c.group("engine", "cli.engine", status, start, stop, restart, c.engineCheck(), c.engineQuarantine(), c.engineReport(), logs, c.generations(),
		c.candidate(), c.promote(), c.rollback(), c.tune())
}

// engineOrder is a command that changes the engine and waits for the outcome.
func (c *commands) engineOrder(name string, order func(*control.Client, context.Context) (llamaserver.Status, error), until llamaserver.State) *cobra.Command {
	var noWait bool
	cmd := c.command(name, "cli.engine."+name, func(cmd *cobra.Command, _ []string) error {
		client, err := c.client()
		if err != nil {
			return err
		}
		engine, err := order(client, cmd.Context())
		if err == nil && !noWait {
			engine, err = c.waitEngine(cmd.Context(), client, until)
		}
		if err != nil {
			return err
		}
		if err := c.showEngine(engine); err != nil {
			return err
		}
		if !noWait && engine.State != until {
			return said(exitFailed)
		}
		return nil
	})
	cmd.Args = c.arguments(0, 0, "usage.want.none")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, c.term.words.Say("cli.engine.nowait"))
	return cmd
}

// waitEngine looks until the engine is in the state wanted, or has failed.
func (c *commands) waitEngine(ctx context.Context, client *control.Client, until llamaserver.State) (llamaserver.Status, error) {
	show := c.progress()
	defer show.end()
	for {
		engine, err := client.Engine(ctx)
		if err != nil || engine.State == until || engine.State == llamaserver.Failed {
			return engine, err
		}
		show.step(c.term.words.Say("engine.title") + ": " + c.term.words.Say("engine.state."+string(engine.State)))
		if !pause(ctx, watchInterval/4) {
			return engine, ctx.Err()
		}
	}
}

func (c *commands) showEngine(e llamaserver.Status) error {
	if c.asJSON {
		return writeJSON(c.term.out, e)
	}
	say := c.term.words.Say
	var rows [][]cell
	add := func(key, text string) {
		if text != "" {
			rows = append(rows, []cell{{text: say(key), style: dim}, {text: text}})
		}
	}
	rows = append(rows, []cell{{text: say("engine.title"), style: dim}, c.engineState(string(e.State), "")})
	add("engine.version", e.Version)
	add("engine.profile", e.Profile)
	add("engine.flags", strings.Join(e.Flags, " "))
	add("engine.model", modelLine(say, e.Model))
	add("engine.fingerprint", e.Fingerprint)
	if e.PID > 0 {
		add("engine.process", fmt.Sprint(e.PID))
	}
	if e.Restarts > 0 {
		add("engine.restarts", fmt.Sprint(e.Restarts))
	}
	if !e.Since.IsZero() {
		add("engine.since", local(e.Since))
	}
	check := c.checkRow(e)
	check[0].style = dim
	rows = append(rows, check)
	if p := e.LastError; p != nil {
		rows = append(rows, []cell{{text: say("engine.error"), style: dim}, {text: c.engineProblem(p), style: red}})
		if remedy, ok := c.term.words.Lookup("remedy."+string(p.Remedy), pairsOf(p.Args)...); ok && e.State != llamaserver.Ready {
			rows = append(rows, []cell{{}, {text: remedy}})
		}
	}
	if e.RetryAt != nil {
		add("engine.retry", local(*e.RetryAt))
	}
	c.term.table(rows)
	return nil
}

// engineProblem is a problem's sentence, and what the engine said of it.
func (c *commands) engineProblem(p *llamaserver.Problem) string {
	text, ok := c.term.words.Lookup("engine.problem."+string(p.Code), pairsOf(p.Args)...)
	if !ok {
		return p.Message
	}
	if p.Message == "" || p.Args != nil { // the sentence has it all
		return text
	}
	return text + " (" + p.Message + ")"
}

func modelLine(say sayer, m llamaserver.Model) string {
	var parts []string
	if m.Path != "" {
		parts = append(parts, m.Path)
	} else if m.Name != "" {
		parts = append(parts, m.Name)
	}
	if m.Dimension > 0 {
		parts = append(parts, say("engine.dimension", "count", m.Dimension))
	}
	if m.MaxTokens > 0 {
		parts = append(parts, say("engine.context", "count", m.MaxTokens))
	}
	return strings.Join(parts, " · ")
}

// followLines is how far back following looks for where it was.
const followLines = 1000

func (c *commands) engineLogs(ctx context.Context, lines int, follow bool) error {
	client, err := c.client()
	var shown []string
	if err == nil {
		shown, err = client.EngineLogs(ctx, lines)
	}
	if errors.Is(err, errNotRunning) || errors.Is(err, control.ErrNotRunning) {
		if follow {
			return err // nobody writes it
		}
		shown, err = c.storedLog(lines)
	}
	if err != nil {
		return err
	}
	if c.asJSON && !follow {
		return writeJSON(c.term.out, map[string][]string{"lines": append([]string{}, shown...)})
	}
	if err := c.showLines(shown); err != nil || !follow {
		return err
	}
	last := shown
	for pause(ctx, watchInterval/2) {
		now, err := client.EngineLogs(ctx, followLines)
		if err != nil {
			return err
		}
		if err := c.showLines(newer(last, now)); err != nil {
			return err
		}
		last = now
	}
	return nil
}

// storedLog is the end of the log as the last engine left it.
func (c *commands) storedLog(lines int) ([]string, error) {
	paths, err := c.paths()
	if err != nil {
		return nil, err
	}
	profile := llamaserver.Profiles()[0] // any: nothing is run
	engine, err := llamaserver.New(llamaserver.Config{RunDir: paths.Run, LogDir: paths.Logs, Profile: profile})
	if err != nil {
		return nil, err
	}
	if !c.asJSON {
		io.WriteString(c.term.err, c.term.words.Say("engine.log_file", "path", clean(engine.LogPath()))+"\n")
	}
	return engine.LogTail(lines)
}

// newer is what of now comes after before: the lines after the longest end of
// before that is found in now; all of now when nothing of before is left.
func newer(before, now []string) []string {
	if len(before) == 0 {
		return now
	}
	for end := len(now); end > 0; end-- {
		n := min(end, len(before))
		if equal(now[end-n:end], before[len(before)-n:]) {
			return now[end:]
		}
	}
	return now
}

func equal(a, b []string) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func (c *commands) showLines(lines []string) error {
	for _, line := range lines {
		if c.asJSON {
			if err := c.json(map[string]string{"line": line}, true); err != nil {
				return err
			}
			continue
		}
		c.term.line(clean(line))
	}
	return nil
}
