package cli

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/engines"
)

func (c *commands) use() *cobra.Command {
	say := c.term.words.Say
	var req control.UseModel
	var noWait bool
	cmd := c.command("use MODEL", "cli.models.use", func(cmd *cobra.Command, args []string) error {
		if path, ok := modelFile(args[0]); ok {
			req.Path = path
		} else {
			req.Name = args[0]
		}
		return c.useModel(cmd.Context(), req, noWait)
	})
	cmd.Args = c.arguments(1, 1, "usage.want.model")
	flags := cmd.Flags()
	flags.StringVar(&req.Profile, "profile", "", say("cli.models.use.profile"))
	flags.BoolVar(&req.NextStart, "next-start", false, say("cli.models.use.next_start"))
	flags.BoolVar(&req.InPlace, "in-place", false, say("cli.engine.candidate.in_place"))
	flags.BoolVar(&req.Quick, "quick", false, say("cli.engine.candidate.quick"))
	flags.BoolVar(&req.Force, "force", false, say("cli.engine.promote.force"))
	flags.BoolVar(&req.Now, "now", false, say("cli.engine.promote.now"))
	flags.BoolVar(&noWait, "no-wait", false, say("cli.engine.nowait"))
	return cmd
}

// useModel has a model embed. It shows how the model is tried beside the one
// in service, how the index is filled with its vectors, and what became of it.
func (c *commands) useModel(ctx context.Context, req control.UseModel, noWait bool) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	used, err := client.UseModel(ctx, req)
	if err != nil {
		return err
	}
	if !c.asJSON {
		c.tellUse(used)
	}
	if used.Candidate != nil && !noWait {
		if !c.asJSON {
			c.tellCost(ctx, client, used.Model.Dimension, "", req.InPlace && !req.Now)
		}
		state, err := c.followCandidate(ctx, client, *used.Candidate, tried)
		if err != nil {
			return err
		}
		used.Candidate = &state
	}
	if c.asJSON {
		err = writeJSON(c.term.out, used)
	} else if used.Candidate != nil && !noWait {
		c.tellUsed(used)
	}
	if err == nil && used.Candidate != nil && !noWait {
		err = c.candidateEnd(*used.Candidate)
	}
	return err
}

// tellUse says what has begun, or was set.
func (c *commands) tellUse(used control.UsedModel) {
	key := "model.used"
	if used.Candidate != nil {
		key = "model.tried"
	}
	c.term.say(key, "path", clean(used.Model.Path), "profile", used.Profile)
	keys := strings.Join(used.Overriding, ", ")
	c.term.say("model.applies."+used.Applies.String(), "keys", keys)
	if used.Candidate != nil && keys != "" {
		c.term.line(c.term.paint(yellow, "! "+c.term.words.Say("model.overridden_later", "keys", keys)))
	}
	for _, w := range used.Model.Warnings {
		c.term.line(c.term.paint(yellow, "! "+c.modelWarning(w)))
	}
	for _, key := range slices.Sorted(maps.Keys(used.Before)) {
		c.term.say("model.undo", "command", "ondol config set "+key+" "+shellWord(clean(used.Before[key])))
	}
}

// tellUsed says what became of a model on trial, and why where it is refused.
func (c *commands) tellUsed(used control.UsedModel) {
	s := *used.Candidate
	if s.Candidate == nil || s.Candidate.Outcome != engines.Refused {
		c.sayEnd(s)
		return
	}
	v := s.Candidate.Verdict
	c.showFindings(v.Against())
	for _, reason := range v.Reasons {
		c.term.line(c.term.paint(red, clean(reason.Sentence(c.term.words.Say))))
	}
	c.term.say("promote.unchanged")
	c.tellNext(s)
}

// shellWord is text as one word of a shell's line.
func shellWord(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
