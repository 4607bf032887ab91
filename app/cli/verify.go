package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/trial"
)

// verifyFlags are the flags of verify.
type verifyFlags struct {
	quick, distinct bool
	deadline        string
	markdown, out   string
}

func (c *commands) verify() *cobra.Command {
	say := c.term.words.Say
	var f verifyFlags
	cmd := c.command("verify", "cli.verify", func(cmd *cobra.Command, _ []string) error { return c.makeTrial(cmd.Context(), f) })
	cmd.Args = c.arguments(0, 0, "usage.want.none")
	flags := cmd.Flags()
	flags.BoolVar(&f.quick, "quick", false, say("cli.verify.quick"))
	flags.BoolVar(&f.distinct, "distinct", false, say("cli.verify.distinct"))
	flags.StringVar(&f.deadline, "deadline", fmt.Sprintf("%gs", trial.DefaultDeadline.Seconds()), say("cli.verify.deadline"))
	flags.StringVar(&f.markdown, "markdown", "", say("cli.verify.markdown"))
	flags.StringVar(&f.out, "out", "", say("cli.verify.out"))
	return cmd
}

func (c *commands) makeTrial(ctx context.Context, f verifyFlags) error {
	deadline, err := time.ParseDuration(f.deadline)
	if err != nil || deadline < trial.MinDeadline || deadline > trial.MaxDeadline {
		return &usageError{key: "usage.bad_value", pairs: []any{"name", "--deadline", "value", clean(f.deadline),
			"want", c.term.words.Say("usage.want.deadline")}, try: "ondol verify"}
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	show := c.progress()
	report, err := client.Verify(ctx, control.VerifyRequest{Quick: f.quick, Distinct: f.distinct, DeadlineMS: deadline.Milliseconds()},
		func(p trial.Progress) { show.step(c.trialStep(p)) })
	show.end()
	if err != nil {
		return err
	}
	if c.asJSON {
		err = writeJSON(c.term.out, report)
	} else {
		c.showTrial(report)
	}
	if err == nil {
		err = c.writeTrial(report, f)
	}
	if err == nil && !report.Verdict.Pass {
		err = said(exitFailed)
	}
	return err
}

// trialStep is where a trial stands. Where lines cannot be written over, one
// for each step is enough.
func (c *commands) trialStep(p trial.Progress) string {
	say := c.term.words.Say
	phase := say("verify.phase." + p.Phase.String())
	if p.Phase == trial.Running {
		phase = say("verify.phase.running", "path", say("verify.path."+p.Path), "concurrency", p.Concurrency, "size", sizeName(say, p.Size))
	}
	if !c.term.repaints {
		return phase
	}
	return say("verify.progress", "phase", phase, "done", p.Done, "total", p.Total, "bad", p.Bad)
}

func sizeName(say sayer, size trial.Size) string {
	return say("verify.size."+size.String(), "tokens", size.Tokens())
}

// showTrial is the report on the screen.
func (c *commands) showTrial(r trial.Report) {
	say := c.term.words.Say
	var head []cell
	for i, key := range trial.Columns() {
		head = append(head, cell{text: say(key), style: dim, right: rightColumn(i)})
	}
	rows := [][]cell{head}
	for _, row := range r.Rows {
		var cells []cell
		for i, text := range row.Cells(say) {
			cells = append(cells, cell{text: text, right: rightColumn(i)})
		}
		if row.OK < row.Requests {
			cells[4].style = red
		}
		rows = append(rows, cells)
	}
	c.term.table(rows)
	c.term.line()
	for _, p := range r.Paths[:1] { // the paths of this command have one engine
		c.term.line(clean(say("verify.engine.model", "model", p.Engine.Model, "dimension", p.Engine.Dimension, "tokens", p.Engine.MaxTokens)))
		c.term.line(clean(say("verify.engine.build", "build", p.Engine.Build, "profile", p.Engine.Profile)))
		c.term.line(clean(say("verify.engine.fingerprint", "fingerprint", p.Engine.Fingerprint)))
	}
	for _, finding := range r.Findings(say) {
		c.term.line(clean(finding))
	}
	notes, caveats := r.Reading(say)
	for _, sentence := range append(notes, caveats...) {
		c.term.line(c.term.paint(dim, clean(sentence)))
	}
	c.term.line()
	colour := red
	if r.Verdict.Pass {
		colour = green
	}
	c.term.line(c.term.paint(colour, r.Headline(say)))
	for _, reason := range r.Verdict.Reasons {
		c.term.line("  ", clean(reason.Sentence(say)))
	}
}

// rightColumn says which columns of the table are numbers: all but path and input.
func rightColumn(i int) bool { return i != 0 && i != 2 }

// writeTrial writes the files that were asked for.
func (c *commands) writeTrial(r trial.Report, f verifyFlags) error {
	page := []byte(r.Markdown(c.term.words.Say))
	if f.markdown != "" {
		if err := c.writeFile(f.markdown, page); err != nil {
			return err
		}
	}
	if f.out == "" {
		return nil
	}
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return err
	}
	name := filepath.Join(f.out, "ondol-verify-"+r.ID)
	var body bytes.Buffer
	if err := writeJSON(&body, r); err != nil {
		return err
	}
	if err := c.writeFile(name+".json", body.Bytes()); err != nil {
		return err
	}
	return c.writeFile(name+".md", page)
}

func (c *commands) writeFile(path string, body []byte) error {
	if err := os.WriteFile(path, body, 0o644); err != nil {
		return err
	}
	if !c.asJSON {
		c.term.say("verify.wrote", "path", clean(path))
	}
	return nil
}
