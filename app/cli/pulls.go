package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/models/catalog"
	"github.com/ondol-app/ondol/internal/models/pull"
)

func (c *commands) catalogue() *cobra.Command {
	cmd := c.command("catalog", "cli.models.catalog", func(cmd *cobra.Command, _ []string) error { return c.showCatalogue(cmd.Context()) })
	cmd.Args = c.arguments(0, 0, "usage.want.none")
	return cmd
}

func (c *commands) showCatalogue(ctx context.Context) error {
	list, done, err := ask(ctx, c, func(client *control.Client, ctx context.Context) (control.Catalogue, error) {
		models, err := client.Catalogue(ctx)
		return control.Catalogue{Models: models}, err
	})
	if done {
		return err
	}
	rows := [][]cell{c.head("model", "size", "dimension", "context", "licence", "use")}
	rows[0][3].right = true
	for _, m := range list.Models {
		rows = append(rows, []cell{
			{text: m.Name, style: bold}, {text: size(m.Size), right: true}, {text: dimText(m), right: true},
			number(int64(m.Context)), {text: m.Licence}, {text: c.term.words.Say("model.use." + m.Name)},
		})
	}
	c.term.table(rows)
	c.term.say("model.catalogue.how")
	return nil
}

func dimText(m catalog.Model) string {
	if m.Dim == 0 {
		return "-"
	}
	return strconv.Itoa(m.Dim)
}

// pulls lists the downloads, and steers them by number.
func (c *commands) pulls() *cobra.Command {
	cmd := c.command("pulls", "cli.models.pulls", func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return c.unknown(cmd, args[0])
		}
		return c.listPulls(cmd.Context())
	})
	pause := c.command("pause NUMBER", "cli.models.pulls.pause", func(cmd *cobra.Command, args []string) error {
		return c.withPull(cmd, args[0], "pull.paused", (*control.Client).PausePull)
	})
	resume := c.command("resume NUMBER", "cli.models.pulls.resume", func(cmd *cobra.Command, args []string) error {
		return c.withPull(cmd, args[0], "pull.resumed", (*control.Client).ResumePull)
	})
	remove := c.command("remove NUMBER", "cli.models.pulls.remove", func(cmd *cobra.Command, args []string) error {
		return c.withPull(cmd, args[0], "pull.removed", func(client *control.Client, ctx context.Context, id int64) (pull.Pull, error) {
			p, err := findPull(ctx, client, id)
			if err == nil {
				err = client.RemovePull(ctx, id)
			}
			return p, err
		})
	})
	for _, below := range []*cobra.Command{pause, resume, remove} {
		below.Args = c.arguments(1, 1, "usage.want.pull")
		cmd.AddCommand(below)
	}
	return cmd
}

func (c *commands) listPulls(ctx context.Context) error {
	list, done, err := ask(ctx, c, func(client *control.Client, ctx context.Context) (control.Pulls, error) {
		pulls, err := client.Pulls(ctx)
		return control.Pulls{Pulls: pulls}, err
	})
	if done {
		return err
	}
	if len(list.Pulls) == 0 {
		c.term.say("pull.none")
		return nil
	}
	rows := [][]cell{c.head("number", "state", "model", "detail")}
	for _, p := range list.Pulls {
		style, detail := yellow, c.progressText(p)
		switch p.State {
		case pull.Done:
			style, detail = green, p.Path
		case pull.Failed:
			style, detail = red, c.reasonText(p)
		}
		rows = append(rows, []cell{
			{text: strconv.FormatInt(p.ID, 10), right: true}, {text: c.term.words.Say("pull.state." + p.State.String()), style: style},
			{text: p.Model}, {text: detail},
		})
	}
	c.term.table(rows)
	return nil
}

// withPull does something to the pull of a number.
func (c *commands) withPull(cmd *cobra.Command, text, done string, do func(*control.Client, context.Context, int64) (pull.Pull, error)) error {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return c.wants(cmd, "usage.want.pull")
	}
	p, over, err := ask(cmd.Context(), c, func(client *control.Client, ctx context.Context) (pull.Pull, error) { return do(client, ctx, id) })
	if over {
		return err
	}
	c.term.say(done, "model", clean(p.Model))
	return nil
}

func findPull(ctx context.Context, client *control.Client, id int64) (pull.Pull, error) {
	pulls, err := client.Pulls(ctx)
	if err != nil {
		return pull.Pull{}, err
	}
	for _, p := range pulls {
		if p.ID == id {
			return p, nil
		}
	}
	return pull.Pull{}, &complaint{code: control.CodeNotFound, key: "refusal.not_found_pull", pairs: []any{"id", id}}
}
