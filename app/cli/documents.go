package cli

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/document"
)

// pageSize is how many documents are asked for at once.
const pageSize = 200

func (c *commands) documents() *cobra.Command {
	var state, folder string
	var limit int
	cmd := c.command("documents", "cli.documents", func(cmd *cobra.Command, _ []string) error {
		if state != "" {
			if err := choice("--state", state, "found", "embedding", "indexed", "skipped", "failed"); err != nil {
				return err
			}
		}
		if err := c.between("--limit", limit, 0, math.MaxInt32); err != nil {
			return err
		}
		return c.listDocuments(cmd.Context(), document.State(state), folder, limit)
	})
	cmd.Args = c.arguments(0, 0, "usage.want.none")
	cmd.Flags().StringVar(&state, "state", "", c.term.words.Say("cli.documents.state"))
	cmd.Flags().StringVar(&folder, "folder", "", c.term.words.Say("cli.documents.folder"))
	cmd.Flags().IntVarP(&limit, "limit", "n", 100, c.term.words.Say("cli.documents.limit"))
	return cmd
}

func (c *commands) listDocuments(ctx context.Context, state document.State, name string, limit int) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	query := control.DocumentsQuery{State: state}
	if name != "" {
		folder, err := c.findFolder(ctx, client, name)
		if err != nil {
			return err
		}
		query.Folder = folder.ID
	}
	documents, more, err := pages(ctx, client, query, limit)
	if err != nil {
		return err
	}
	if c.asJSON {
		return writeJSON(c.term.out, map[string]any{"documents": documents, "more": more})
	}
	if len(documents) == 0 {
		c.term.say("document.none")
		return nil
	}
	rows := [][]cell{c.head("number", "state", "passages", "reason", "path")}
	for _, d := range documents {
		why := c.why(d)
		if c.term.columns > 0 {
			why = fit(why, widest)
		}
		path := filepath.Join(d.Folder, filepath.FromSlash(d.Path))
		rows = append(rows, []cell{
			{text: fmt.Sprint(d.ID), right: true}, {text: c.term.words.Say("document.state." + string(d.State)), style: stateStyle(d.State)},
			number(int64(d.Chunks)), {text: why, style: dim}, {text: path},
		})
	}
	c.term.table(rows)
	if more {
		c.term.say("document.more")
	}
	return nil
}

// pages asks for documents until there are limit, or no more; 0 means all.
func pages(ctx context.Context, client *control.Client, query control.DocumentsQuery, limit int) (list []control.Document, more bool, err error) {
	list = []control.Document{}
	for {
		query.Limit = pageSize
		if limit > 0 {
			query.Limit = min(pageSize, limit-len(list))
		}
		page, err := client.Documents(ctx, query)
		if err != nil {
			return nil, false, err
		}
		list = append(list, page.Documents...)
		if page.Next == "" || (limit > 0 && len(list) >= limit) {
			return list, page.Next != "", nil
		}
		query.Cursor = page.Next
	}
}

func stateStyle(s document.State) style {
	switch s {
	case document.Indexed:
		return green
	case document.Failed:
		return red
	case document.Skipped:
		return dim
	}
	return yellow
}

// why is the reason of a document's state, with what lies behind it.
func (c *commands) why(d control.Document) string {
	if d.Reason == "" {
		return ""
	}
	text := c.term.words.Say("reason." + string(d.Reason))
	if d.Detail != "" {
		text += ": " + d.Detail
	}
	return text
}

func (c *commands) retry() *cobra.Command {
	return c.command("retry [NUMBER…]", "cli.retry", func(cmd *cobra.Command, args []string) error {
		client, err := c.client()
		if err != nil {
			return err
		}
		var ids []document.ID
		for _, arg := range args {
			id, err := strconv.ParseInt(arg, 10, 64)
			if err != nil || id < 1 {
				return &usageError{key: "usage.bad_value", pairs: []any{"name", "NUMBER", "value", clean(arg), "want", "1, 2, 3…"}, try: cmd.CommandPath()}
			}
			ids = append(ids, document.ID(id))
		}
		if len(args) == 0 {
			failed, _, err := pages(cmd.Context(), client, control.DocumentsQuery{State: document.Failed}, 0)
			if err != nil {
				return err
			}
			for _, d := range failed {
				ids = append(ids, d.ID)
			}
		}
		for _, id := range ids {
			if err := client.RetryDocument(cmd.Context(), id); err != nil {
				return err
			}
		}
		if c.asJSON {
			return writeJSON(c.term.out, map[string]int{"retried": len(ids)})
		}
		c.term.say("document.retried", "count", len(ids))
		return nil
	})
}
