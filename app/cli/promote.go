package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/ondol-app/ondol/internal/engines"
)

func (c *commands) promote() *cobra.Command {
	say := c.term.words.Say
	var p engines.Promotion
	var noWait bool
	cmd := c.command("promote", "cli.engine.promote", func(cmd *cobra.Command, _ []string) error {
		return c.promoteCandidate(cmd.Context(), p, noWait)
	})
	cmd.Args = c.arguments(0, 0, "usage.want.none")
	cmd.Flags().BoolVar(&p.Force, "force", false, say("cli.engine.promote.force"))
	cmd.Flags().BoolVar(&p.Now, "now", false, say("cli.engine.promote.now"))
	cmd.Flags().BoolVar(&noWait, "no-wait", false, say("cli.engine.nowait"))
	return cmd
}

func (c *commands) promoteCandidate(ctx context.Context, p engines.Promotion, noWait bool) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	if before, err := client.Candidate(ctx); err == nil && !c.asJSON {
		c.costOf(ctx, client, before)
	}
	state, err := client.Promote(ctx, p)
	if err == nil && !noWait {
		state, err = c.followCandidate(ctx, client, state, tried)
	}
	if err != nil {
		return err
	}
	return c.showEnd(state, noWait)
}

// showEnd says what became of a candidate that was to be live.
func (c *commands) showEnd(s engines.State, noWait bool) error {
	if c.asJSON {
		if err := writeJSON(c.term.out, s); err != nil {
			return err
		}
	} else {
		c.sayEnd(s)
	}
	if noWait {
		return nil
	}
	return c.candidateEnd(s)
}

func (c *commands) sayEnd(s engines.State) {
	k := s.Candidate
	if k == nil {
		return
	}
	say := c.term.words.Say
	engine := clean(setupLine(k.Model, k.Setup))
	switch {
	case k.Outcome == engines.Proved && s.Earlier != nil:
		c.term.line(c.term.paint(green, say("promote.proved", "engine", engine)))
		c.term.say("promote.back", "time", local(s.Earlier.Until))
	case k.Outcome == engines.Promoted && s.Probation != nil:
		c.term.say("promote.serves", "engine", engine, "time", local(*s.Probation))
	case k.Outcome == engines.RolledBack && k.Problem == nil:
		c.term.say("rollback.done")
	case k.Problem != nil:
		c.term.line(c.term.paint(red, say("candidate.outcome."+k.Outcome.String())+": "+c.engineProblem(k.Problem)))
		c.term.say("promote.unchanged")
	default:
		c.term.line(c.candidateStep(s))
		c.term.say("candidate.goes_on")
	}
}

func (c *commands) rollback() *cobra.Command {
	say := c.term.words.Say
	var inPlace, noWait bool
	cmd := c.command("rollback", "cli.engine.rollback", func(cmd *cobra.Command, _ []string) error {
		return c.rollBack(cmd.Context(), inPlace, noWait)
	})
	cmd.Args = c.arguments(0, 0, "usage.want.none")
	cmd.Flags().BoolVar(&inPlace, "in-place", false, say("cli.engine.rollback.in_place"))
	cmd.Flags().BoolVar(&noWait, "no-wait", false, say("cli.engine.nowait"))
	return cmd
}

func (c *commands) rollBack(ctx context.Context, inPlace, noWait bool) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	state, err := client.Rollback(ctx, inPlace)
	if err == nil && !noWait {
		state, err = c.followCandidate(ctx, client, state, serves)
	}
	if err != nil {
		return err
	}
	if c.asJSON {
		err = writeJSON(c.term.out, state)
	} else {
		c.sayEnd(state)
	}
	if k := state.Candidate; err == nil && !noWait && k.Outcome != engines.RolledBack {
		err = c.candidateEnd(state)
	}
	return err
}

// serves says that the earlier engine is live again, or will not be.
func serves(s engines.State) bool { return s.Phase != engines.Starting && s.Phase != engines.Replacing }

// span is a length of time in the largest unit that it is a whole number of.
func span(say sayer, text string) string {
	d, err := time.ParseDuration(text)
	if err != nil {
		return text
	}
	for _, unit := range []struct {
		name string
		is   time.Duration
	}{{"days", 24 * time.Hour}, {"hours", time.Hour}, {"minutes", time.Minute}} {
		if d >= unit.is && d%unit.is == 0 {
			return say("span."+unit.name, "count", int64(d/unit.is))
		}
	}
	return text
}
