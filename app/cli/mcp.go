package cli

import (
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/mcpserver"
)

// mcp serves one agent over standard input and output until its input ends. It
// starts nothing: where no app runs, each call says so, and the first one after
// the app was started is answered.
func (c *commands) mcp() *cobra.Command {
	cmd := c.command("mcp", "cli.mcp", func(cmd *cobra.Command, _ []string) error {
		paths, err := c.paths()
		if err != nil {
			return err
		}
		app := control.NewClient(paths.ControlSocket(), paths.CheckRun)
		defer app.Close()
		server, err := mcpserver.New(mcpserver.Config{Version: c.cfg.Version, App: app})
		if err != nil {
			return err
		}
		in := c.cfg.In
		if in == nil {
			in = strings.NewReader("")
		}
		if err := server.Stdio(cmd.Context(), in, c.term.out); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if _, err := app.Engine(cmd.Context()); errors.Is(err, control.ErrNotRunning) {
			return errNotRunning
		}
		return nil
	})
	cmd.Long = c.term.words.Say("cli.mcp.more")
	cmd.Args = c.arguments(0, 0, "usage.want.none")
	return cmd
}
