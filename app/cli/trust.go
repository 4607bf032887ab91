package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/trust"
)

// engineCheck embeds the canaries now.
func (c *commands) engineCheck() *cobra.Command {
	cmd := c.command("check", "cli.engine.check", func(cmd *cobra.Command, _ []string) error {
		client, err := c.client()
		if err != nil {
			return err
		}
		engine, err := client.CheckEngine(cmd.Context())
		if err != nil {
			return err
		}
		if c.asJSON {
			err = writeJSON(c.term.out, engine.Canary)
		} else {
			c.showCanary(engine)
		}
		if err == nil && (engine.Canary == nil || !engine.Canary.OK()) {
			err = said(exitFailed)
		}
		return err
	})
	cmd.Args = c.arguments(0, 0, "usage.want.none")
	return cmd
}

// showCanary is a check, text by text.
func (c *commands) showCanary(engine llamaserver.Status) {
	row := c.checkRow(engine)
	c.term.table([][]cell{row})
	if engine.Canary == nil {
		return
	}
	rows := [][]cell{c.head("text", "tokens", "reference", "together")}
	for _, f := range engine.Canary.Figures {
		rows = append(rows, []cell{{text: f.Text}, number(int64(f.Tokens)),
			{text: cosine(f.Reference), right: true}, {text: cosine(f.Together), right: true}})
	}
	c.term.table(rows)
}

func cosine(x *float64) string {
	if x == nil {
		return "–"
	}
	return fmt.Sprintf("%.5f", *x)
}

// checkRow is the last check in one line.
func (c *commands) checkRow(engine llamaserver.Status) []cell {
	say, r := c.term.words.Say, engine.Canary
	row := []cell{{text: say("engine.check")}, {text: say("engine.check.none")}}
	switch {
	case r == nil:
	case r.OK():
		row[1] = cell{style: green, text: say("engine.check.passed", "time", local(r.At), "reference", say("engine.reference."+r.Reference.String()),
			"cosine", cosine(r.MinReference), "together", cosine(r.MinTogether))}
	default:
		row[1] = cell{style: red, text: say("engine.check.failed", "time", local(r.At), "text", r.Text, "why", say("engine.problem."+r.Code.String()))}
	}
	return row
}

func (c *commands) engineQuarantine() *cobra.Command {
	list := c.command("list", "cli.engine.quarantine.list", func(cmd *cobra.Command, _ []string) error {
		held, done, err := ask(cmd.Context(), c, (*control.Client).Quarantine)
		if done {
			return err
		}
		if len(held.Quarantined) == 0 {
			c.term.say("engine.quarantine.empty")
			return nil
		}
		rows := [][]cell{c.head("time", "reason", "tokens", "sha256")}
		for _, q := range held.Quarantined {
			rows = append(rows, []cell{{text: local(q.At)}, {text: c.term.words.Say("engine.quarantine.reason." + q.Reason.String())}, number(int64(q.Tokens)), {text: q.SHA256}})
		}
		c.term.table(rows)
		c.term.say("engine.quarantine.note")
		return nil
	})
	list.Args = c.arguments(0, 0, "usage.want.none")

	clear := c.command("clear [SHA256]", "cli.engine.quarantine.clear", func(cmd *cobra.Command, args []string) error {
		lifted, done, err := ask(cmd.Context(), c, func(client *control.Client, ctx context.Context) (control.Lifted, error) {
			return client.LiftQuarantine(ctx, strings.Join(args, ""))
		})
		if done {
			return err
		}
		c.term.say("engine.quarantine.lifted", "count", lifted.Lifted)
		return nil
	})
	clear.Args = c.arguments(0, 1, "usage.want.hash")
	return c.group("quarantine", "cli.engine.quarantine", list, clear)
}

// engineReport writes what is known of an engine in trouble, as Markdown or JSON.
func (c *commands) engineReport() *cobra.Command {
	var output string
	cmd := c.command("report", "cli.engine.report", func(cmd *cobra.Command, _ []string) error {
		client, err := c.client()
		if err != nil {
			return err
		}
		report, err := client.EngineReport(cmd.Context())
		if err != nil {
			return err
		}
		write := func(w io.Writer) error {
			if c.asJSON {
				return writeJSON(w, report)
			}
			_, err := io.WriteString(w, markdown(report))
			return err
		}
		if output == "" {
			return write(c.term.out)
		}
		// Never over a file that is there: it may be somebody's.
		file, err := os.OpenFile(output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("write report: %w", err)
		}
		if err := errors.Join(write(file), file.Close()); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
		c.term.say("engine.report.written", "path", clean(output))
		return nil
	})
	cmd.Args = c.arguments(0, 0, "usage.want.none")
	cmd.Flags().StringVarP(&output, "output", "o", "", c.term.words.Say("cli.engine.report.output"))
	return cmd
}

// markdown is the report for whoever mends llama-server or Ondol, so it is in
// English. It holds no text of anybody, only SHA-256s.
func markdown(r control.Report) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	e := r.Engine
	line("# Ondol engine report\n\n%s · Ondol %s · %s. Texts appear as their SHA-256 alone.\n", r.At.Format(time.RFC3339), r.Version, r.System)
	line("## Engine\n\n- state: %s (%s) since %s, start %d, %d automatic restarts", e.State, e.Cause, e.Since.Format(time.RFC3339), e.Generation, e.Restarts)
	line("- build: %s\n- model: %s, %d dimensions, SHA-256 `%s`\n- flags: `%s`\n- fingerprint: `%s`", e.Version, e.Model.Name, e.Model.Dimension, e.Model.SHA256, strings.Join(e.Flags, " "), e.Fingerprint)
	if p := e.LastError; p != nil {
		line("- last problem: %s: %s (%s)", p.Code, p.Message, p.At.Format(time.RFC3339))
	}
	if o := e.OneAtATime; o != nil {
		line("- computes one text at a time since %s: canary %s, %s", o.Since.Format(time.RFC3339), o.Text, o.Detail)
	}
	line("- vectors: %d valid, %d replies refused\n", r.Validity.Checked, r.Validity.Rejected)
	if k := e.Canary; k != nil {
		line("## Last check\n\n%s, %d ms, reference %s: %s\n\n| canary | tokens | reference | together |\n| --- | --- | --- | --- |", k.At.Format(time.RFC3339), k.TookMS, k.Reference, passed(k.Code.String()))
		for _, f := range k.Figures {
			line("| %s | %d | %s | %s |", f.Text, f.Tokens, cosine(f.Reference), cosine(f.Together))
		}
		line("")
	}
	line("## Quarantine\n")
	for _, q := range r.Quarantined {
		line("- `%s` %s, %d tokens, %s", q.SHA256, q.Reason, q.Tokens, q.At.Format(time.RFC3339))
	}
	line("\n## Evidence\n")
	for _, v := range r.Evidence {
		writeEvidence(line, v)
	}
	return b.String()
}

func passed(code string) string {
	if code == "" {
		return "passed"
	}
	return code
}

func writeEvidence(line func(string, ...any), v trust.Evidence) {
	line("### %s, %s\n\n%s\n", v.Code, v.At.Format(time.RFC3339), v.Message)
	line("- engine: start %d at %s, state %s, build %s, fingerprint `%s`", v.Generation, v.Began.Format(time.RFC3339), v.State, v.Build, v.Fingerprint)
	line("- model: %s, SHA-256 `%s`\n- flags: `%s`", v.Model, v.ModelSHA256, strings.Join(v.Flags, " "))
	for _, in := range v.Inputs {
		line("- input: `%s`, %d tokens", in.SHA256, in.Tokens)
	}
	if v.Canary != nil {
		if raw, err := json.Marshal(v.Canary); err == nil {
			line("- canaries: `%s`", raw)
		}
	}
	if len(v.Log) > 0 {
		line("\n```\n%s\n```", strings.ReplaceAll(strings.Join(v.Log, "\n"), "```", "'''"))
	}
	line("")
}
