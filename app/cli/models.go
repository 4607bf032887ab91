package cli

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/models"
)

func (c *commands) models() *cobra.Command {
	list := c.command("list", "cli.models.list", func(cmd *cobra.Command, _ []string) error { return c.listModels(cmd.Context()) })
	list.Args = c.arguments(0, 0, "usage.want.none")
	inspect := c.command("inspect PATH", "cli.models.inspect", func(cmd *cobra.Command, args []string) error {
		return c.inspectModel(cmd.Context(), args[0])
	})
	inspect.Args = c.arguments(1, 1, "usage.want.model_path")
	return c.group("models", "cli.models", list, inspect, c.use(), c.catalogue(), c.pull(), c.pulls())
}

func (c *commands) listModels(ctx context.Context) error {
	list, done, err := ask(ctx, c, (*control.Client).Models)
	if done {
		return err
	}
	if len(list.Models) == 0 {
		c.term.say("model.none")
	} else {
		rows := [][]cell{c.head("model", "role", "size", "dimension", "kind", "memory", "source", "note")}
		for _, m := range list.Models {
			rows = append(rows, c.modelRow(m))
		}
		c.term.table(rows)
	}
	for _, u := range list.Unreadable {
		c.term.line(c.term.paint(yellow, c.term.words.Say("model.unreadable", "path", clean(u.Path), "reason", clean(u.Reason))))
	}
	return nil
}

func (c *commands) modelRow(m control.Model) []cell {
	say := c.term.words.Say
	note := cell{}
	switch {
	case m.InUse:
		note = cell{text: say("model.in_use"), style: green}
	case m.Broken() != nil:
		note = cell{text: say("model.broken"), style: red}
	case len(m.Warnings) > 0:
		note = cell{text: say("model.warned"), style: yellow}
	}
	memory := cell{text: "-", right: true}
	if v := m.Memory; v != nil {
		memory.text = size(v.Need.Total)
		if !v.Fits {
			memory.style = red
		}
	}
	kind := strings.TrimSpace(m.Architecture + " " + m.Quantization)
	return []cell{
		{text: m.Ref}, {text: say("model.role." + m.Role.String())}, {text: size(m.Size), right: true},
		number(int64(m.Dimension)), {text: kind}, memory, {text: say("model.source." + m.Source.String()), style: dim}, note,
	}
}

func (c *commands) inspectModel(ctx context.Context, path string) error {
	path, err := filepath.Abs(path) // the app has another working directory
	if err != nil {
		return err
	}
	m, done, err := ask(ctx, c, func(client *control.Client, ctx context.Context) (control.Model, error) {
		return client.InspectModel(ctx, path)
	})
	if done {
		return err
	}
	c.showModel(m)
	return nil
}

func (c *commands) showModel(m control.Model) {
	say := c.term.words.Say
	var rows [][]cell
	add := func(key, text string) {
		if text != "" && text != "0" {
			rows = append(rows, []cell{{text: say("model." + key), style: dim}, {text: text}})
		}
	}
	add("path", m.Path)
	add("title", m.Title)
	if m.Role != "" {
		add("role", say("model.role."+m.Role.String()))
	}
	add("architecture", m.Architecture)
	add("quantization", m.Quantization)
	add("size", size(m.Size))
	if m.Parts > 1 {
		add("parts", strconv.Itoa(m.Parts))
	}
	add("blocks", strconv.Itoa(m.Blocks))
	add("dimension", strconv.Itoa(m.Dimension))
	add("context", strconv.Itoa(m.Context))
	add("vocabulary", strconv.Itoa(m.Vocabulary))
	add("pooling", m.Pooling)
	if m.EOS != nil {
		add("eos", strconv.FormatInt(*m.EOS, 10))
	}
	if v := m.Memory; v != nil {
		key := "model.memory.fits"
		switch {
		case !v.Fits && v.Smaller != "":
			key = "model.memory.smaller"
		case !v.Fits:
			key = "model.memory.short"
		}
		add("memory", say(key, "need", size(v.Need.Total), "budget", size(v.Budget), "profile", v.Profile, "smaller", v.Smaller))
		add("memory.parts", say("model.memory.of", "weights", size(v.Need.Weights), "kv", size(v.Need.KV), "compute", size(v.Need.Compute), "output", size(v.Need.Output)))
	}
	c.term.table(rows)
	for _, w := range m.Warnings {
		style := yellow
		if w.Code.Fatal() {
			style = red
		}
		c.term.line(c.term.paint(style, "! "+c.modelWarning(w)))
	}
}

func (c *commands) modelWarning(w models.Warning) string {
	return c.term.words.Say("model.warning."+w.Code.String(), pairsOf(w.Args)...)
}
