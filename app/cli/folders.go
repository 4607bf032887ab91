package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/document"
)

func (c *commands) folders() *cobra.Command {
	var wait bool
	add := c.command("add PATH", "cli.folders.add", func(cmd *cobra.Command, args []string) error {
		return c.addFolder(cmd.Context(), args[0], wait)
	})
	add.Args = c.arguments(1, 1, "usage.want.path")
	add.Flags().BoolVar(&wait, "wait", false, c.term.words.Say("cli.folders.add.wait"))
	list := c.command("list", "cli.folders.list", func(cmd *cobra.Command, _ []string) error { return c.listFolders(cmd.Context()) })
	list.Args = c.arguments(0, 0, "usage.want.none")
	remove := c.command("remove FOLDER", "cli.folders.remove", func(cmd *cobra.Command, args []string) error {
		return c.withFolder(cmd.Context(), args[0], "folder.removed", (*control.Client).RemoveFolder)
	})
	remove.Args = c.arguments(1, 1, "usage.want.folder")
	rescan := c.command("rescan FOLDER", "cli.folders.rescan", func(cmd *cobra.Command, args []string) error {
		return c.withFolder(cmd.Context(), args[0], "folder.rescanning", (*control.Client).RescanFolder)
	})
	rescan.Args = c.arguments(1, 1, "usage.want.folder")
	return c.group("folders", "cli.folders", add, list, remove, rescan)
}

func (c *commands) addFolder(ctx context.Context, path string, wait bool) error {
	if strings.TrimSpace(path) == "" {
		return &usageError{key: "usage.want.path", pairs: []any{"command", "ondol folders add"}, try: "ondol folders add"}
	}
	path, err := filepath.Abs(path) // the app has another working directory
	if err != nil {
		return err
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	folder, err := client.AddFolder(ctx, path)
	if err != nil {
		return err
	}
	if !c.asJSON {
		c.term.say("folder.added", "path", clean(folder.Path), "id", folder.ID)
	}
	if wait {
		if folder, err = c.waitIndexed(ctx, client, folder.ID); err != nil {
			return err
		}
		if !c.asJSON {
			c.term.line(ledger(c.term.words.Say, folder.Counts))
		}
	}
	if c.asJSON {
		return writeJSON(c.term.out, folder)
	}
	return nil
}

// waitIndexed looks until a folder was scanned and nothing in it is pending.
func (c *commands) waitIndexed(ctx context.Context, client *control.Client, id document.FolderID) (document.Folder, error) {
	show := c.progress()
	defer show.end()
	for {
		folders, err := client.Folders(ctx)
		if err != nil {
			return document.Folder{}, err
		}
		folder, ok := byID(folders, id)
		if !ok {
			return document.Folder{}, &complaint{code: "not_found", key: "folder.unknown", pairs: []any{"name", id}}
		}
		if folder.State != document.FolderScanning && !folder.LastScan.IsZero() && folder.Counts.Pending == 0 {
			return folder, nil
		}
		if folder.State == document.FolderOffline || folder.State == document.FolderDenied {
			return folder, &complaint{code: string(folder.State), key: "error.failed", pairs: []any{"message", c.term.words.Say("folder.state." + string(folder.State))}}
		}
		n := folder.Counts
		show.step(c.term.words.Say("folder.progress", "done", n.Found-n.Pending, "found", n.Found))
		if !pause(ctx, watchInterval/4) {
			return folder, ctx.Err()
		}
	}
}

func byID(folders []document.Folder, id document.FolderID) (document.Folder, bool) {
	for _, f := range folders {
		if f.ID == id {
			return f, true
		}
	}
	return document.Folder{}, false
}

func (c *commands) listFolders(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	folders, err := client.Folders(ctx)
	if err != nil {
		return err
	}
	if c.asJSON {
		if folders == nil {
			folders = []document.Folder{}
		}
		return writeJSON(c.term.out, map[string][]document.Folder{"folders": folders})
	}
	if len(folders) == 0 {
		c.term.say("folder.none")
		return nil
	}
	rows := [][]cell{c.head("number", "state", "found", "indexed", "skipped", "failed", "pending", "passages", "path")}
	for _, f := range folders {
		style := green
		switch f.State {
		case document.FolderScanning:
			style = yellow
		case document.FolderOffline, document.FolderDenied:
			style = red
		}
		n := f.Counts
		rows = append(rows, []cell{
			{text: fmt.Sprint(f.ID), right: true}, {text: c.term.words.Say("folder.state." + string(f.State)), style: style},
			number(n.Found), number(n.Indexed), number(n.Skipped), number(n.Failed), number(n.Pending), number(n.Chunks), {text: f.Path},
		})
	}
	c.term.table(rows)
	return nil
}

// head is a table's first row; the columns of numbers are set to the right.
func (c *commands) head(names ...string) []cell {
	row := make([]cell, len(names))
	for i, name := range names {
		row[i] = cell{text: c.term.words.Say("table." + name), style: dim}
		switch name {
		case "number", "found", "indexed", "skipped", "failed", "pending", "passages", "dimension", "vectors", "size", "memory", "load", "short", "medium", "throughput", "ratio", "value", "limit":
			row[i].right = true
		}
	}
	return row
}

func number(n int64) cell { return cell{text: strconv.FormatInt(n, 10), right: true} }

// withFolder does something to the folder that a person named.
func (c *commands) withFolder(ctx context.Context, name, done string, do func(*control.Client, context.Context, document.FolderID) error) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	folder, err := c.findFolder(ctx, client, name)
	if err != nil {
		return err
	}
	if err := do(client, ctx, folder.ID); err != nil {
		return err
	}
	if c.asJSON {
		return writeJSON(c.term.out, folder)
	}
	c.term.say(done, "path", clean(folder.Path))
	return nil
}

// findFolder is the watched folder with this number or path.
func (c *commands) findFolder(ctx context.Context, client *control.Client, name string) (document.Folder, error) {
	if strings.TrimSpace(name) == "" { // it would be taken for the folder one is in
		return document.Folder{}, &usageError{key: "usage.folder_empty"}
	}
	folders, err := client.Folders(ctx)
	if err != nil {
		return document.Folder{}, err
	}
	if id, err := strconv.ParseInt(name, 10, 64); err == nil {
		if f, ok := byID(folders, document.FolderID(id)); ok {
			return f, nil
		}
	}
	abs, err := filepath.Abs(name)
	if err != nil {
		return document.Folder{}, err
	}
	real := abs
	if resolved, err := filepath.EvalSymlinks(abs); err == nil {
		real = resolved // folders are kept under their resolved path; a missing one can still be named
	}
	for _, f := range folders {
		if f.Path == abs || f.Path == real {
			return f, nil
		}
	}
	return document.Folder{}, &complaint{code: "not_found", key: "folder.unknown", pairs: []any{"name", clean(name)}}
}
