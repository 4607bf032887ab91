package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/indexer"
)

// maxDimension is the longest vector whose cost is asked for.
const maxDimension = 1 << 16

func (c *commands) generations() *cobra.Command {
	var dimension int
	cmd := c.command("generations", "cli.engine.generations", func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("dimension") {
			if err := c.between("--dimension", dimension, 1, maxDimension); err != nil {
				return err
			}
		}
		return c.listGenerations(cmd.Context(), dimension)
	})
	cmd.Args = c.arguments(0, 0, "usage.want.none")
	cmd.Flags().IntVar(&dimension, "dimension", 0, c.term.words.Say("cli.engine.generations.dimension"))
	return cmd
}

func (c *commands) listGenerations(ctx context.Context, dimension int) error {
	reply, done, err := ask(ctx, c, func(client *control.Client, ctx context.Context) (control.Generations, error) {
		return client.Generations(ctx, dimension)
	})
	if done {
		return err
	}
	if len(reply.Generations) == 0 {
		c.term.say("generation.none")
	} else {
		c.showGenerations(reply.Generations)
	}
	if cost := reply.Cost; cost != nil {
		c.term.say("generation.cost", "dimension", cost.Dimension, "texts", cost.Texts, "size", size(cost.Bytes))
	}
	return nil
}

func (c *commands) showGenerations(list []indexer.Generation) {
	say := c.term.words.Say
	rows := [][]cell{c.head("model", "state", "engine", "dimension", "passages", "vectors", "size")}
	for _, g := range list {
		style := dim
		switch g.State {
		case document.Active:
			style = green
		case document.Building:
			style = yellow
		}
		rows = append(rows, []cell{
			{text: g.Model}, {text: say("generation.state." + g.State.String()), style: style}, {text: say("generation.place." + g.Place.String())},
			number(int64(g.Dim)), {text: fmt.Sprintf("%d/%d", g.Embedded, g.Texts), right: true}, number(g.Vectors), {text: size(g.Bytes), right: true},
		})
	}
	c.term.table(rows)
}

// progressOf is how far the vectors are that an engine is making; empty when
// it is making none.
func (c *commands) progressOf(g indexer.Generation) string {
	if g.Place == indexer.Kept || g.State != document.Building || g.Missing() == 0 {
		return ""
	}
	say := c.term.words.Say
	text := say("generation.progress", "model", clean(g.Model), "embedded", g.Embedded, "texts", g.Texts)
	if g.Remaining != nil {
		text += " · " + say("generation.remaining", "time", (time.Duration(*g.Remaining)*time.Second).String())
	}
	return text
}

// size is a number of bytes for people.
func size(bytes int64) string {
	units := []string{"B", "kB", "MB", "GB", "TB"}
	n, i := float64(bytes), 0
	for n >= 1000 && i < len(units)-1 {
		n, i = n/1000, i+1
	}
	if n < 10 && i > 0 {
		return strconv.FormatFloat(n, 'f', 1, 64) + " " + units[i]
	}
	return strconv.FormatFloat(n, 'f', 0, 64) + " " + units[i]
}
