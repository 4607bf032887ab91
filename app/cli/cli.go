package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ondol-app/ondol/assets"
	"github.com/ondol-app/ondol/internal/locations"
	"github.com/ondol-app/ondol/internal/settings"
)

// Config is what Run needs. All fields but Window and In are required.
type Config struct {
	Version  string
	Args     []string // without the program's name
	Out, Err io.Writer
	In       io.Reader // asked where it is a terminal; nil = nobody is asked
	Getenv   func(string) string

	// Serve runs the app until ctx ends and calls ready once it answers.
	// *RunningError when another one has the same home.
	Serve func(ctx context.Context, flags map[string]string, ready func(endpoint string)) error
	// Window opens the window and returns when the app was quit; nil in a
	// build that has none.
	Window func(ctx context.Context) error
	// Accept refuses settings that do not fit the engine's flags. The error is
	// a *settings.ProblemsError.
	Accept settings.Accept
}

// RunningError means that the app runs already.
type RunningError struct{ PID string }

func (e *RunningError) Error() string { return "already running as process " + e.PID }

// StartError is why the app did not start. Code names the sentence
// (start.CODE in the locales), Args are its placeholders; Err is it in English.
type StartError struct {
	Code string
	Args map[string]string
	Err  error
}

func (e *StartError) Error() string { return e.Err.Error() }

func (e *StartError) Unwrap() error { return e.Err }

// commands is what every command shares.
type commands struct {
	cfg    Config
	term   *terminal
	asJSON bool
}

// Run does what the arguments say and returns the exit code.
func Run(ctx context.Context, cfg Config) int {
	words, err := assets.Speak(assets.LanguageOf(cfg.Getenv))
	if err != nil {
		fmt.Fprintln(cfg.Err, err)
		return exitFailed
	}
	c := &commands{cfg: cfg, term: newTerminal(cfg.Out, cfg.Err, words, cfg.Getenv)}
	out := &watched{Writer: cfg.Out}
	c.term.out = out
	root := c.root()
	root.SetArgs(dashed(cfg.Args))
	root.SetOut(out)
	root.SetErr(cfg.Err)
	err = root.ExecuteContext(ctx)
	// A mistake before --json must be readable by a program too.
	c.asJSON = c.asJSON || slices.Contains(cfg.Args, "--json")
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return exitFailed // interrupted by the person who sees it: nothing to explain
	}
	if out.err != nil && errors.Is(err, out.err) {
		err = nil // said below
	}
	code := c.report(err)
	if out.err != nil {
		if code == exitDone || code == exitNoEvidence {
			code = exitFailed
		}
		fmt.Fprintln(cfg.Err, words.Say("error.output", "message", out.err))
	}
	return code
}

// root builds the tree of commands.
func (c *commands) root() *cobra.Command {
	root := c.command("ondol", "app.about", func(cmd *cobra.Command, args []string) error { return c.window(cmd.Context()) })
	root.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return c.unknown(cmd, args[0])
	}
	root.PersistentFlags().BoolVar(&c.asJSON, "json", false, c.term.words.Say("cli.json"))
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetHelpCommand(c.help())
	root.SetFlagErrorFunc(c.flagError)
	root.SetUsageTemplate(usageTemplate)
	root.SetHelpTemplate("{{.Short}}{{with .Long}}\n\n{{.}}{{end}}\n\n" + usageTemplate)
	cobra.AddTemplateFunc("word", func(key string) string { return c.term.words.Say(key) })
	cobra.AddTemplateFunc("more", func(path string) string { return c.term.words.Say("cli.use.more", "command", path) })
	cobra.AddTemplateFunc("flags", func(usages string) string {
		return defaultNote.ReplaceAllString(usages, " ("+c.term.words.Say("cli.use.default")+" $1)")
	})
	root.AddCommand(c.serve(), c.status(), c.search(), c.folders(), c.documents(), c.retry(), c.engine(), c.models(), c.events(), c.verify(), c.mcp(), c.config(), c.version())
	return root
}

// defaultNote is how pflag tells of a default.
var defaultNote = regexp.MustCompile(`(?m) \(default "?(.*?)"?\)$`)

// help shows what --help does.
func (c *commands) help() *cobra.Command {
	return c.command("help [COMMAND]", "cli.help.command", func(cmd *cobra.Command, args []string) error {
		about, rest, err := cmd.Root().Find(args)
		if err != nil || len(rest) > 0 {
			if about == nil {
				about, rest = cmd.Root(), args
			}
			return c.unknown(about, rest[0])
		}
		about.InitDefaultHelpFlag()
		return about.Help()
	})
}

// usageTemplate is cobra's, in our words and without what we do not use.
const usageTemplate = `{{word "cli.use.usage"}}:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} COMMAND

{{word "cli.use.commands"}}:{{range .Commands}}{{if or .IsAvailableCommand (eq .Name "help")}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableFlags}}

{{word "cli.use.flags"}}:
{{flags .Flags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableSubCommands}}

{{more .CommandPath}}{{end}}
`

// command is a cobra command in our manner: errors are shown by report, the
// description comes from the locales.
func (c *commands) command(use, short string, run func(*cobra.Command, []string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: c.term.words.Say(short), RunE: run,
		SilenceErrors: true, SilenceUsage: true, DisableFlagsInUseLine: true,
	}
	cmd.Flags().BoolP("help", "h", false, c.term.words.Say("cli.help"))
	return cmd
}

// group is a command that only has commands below it.
func (c *commands) group(use, short string, below ...*cobra.Command) *cobra.Command {
	cmd := c.command(use, short, func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return c.unknown(cmd, args[0])
		}
		return c.wants(cmd, "usage.want.command")
	})
	cmd.AddCommand(below...)
	return cmd
}

// arguments checks the number of arguments; want names the sentence for what is needed.
func (c *commands) arguments(least, most int, want string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || (most >= 0 && len(args) > most) {
			return c.wants(cmd, want)
		}
		return nil
	}
}

func (c *commands) wants(cmd *cobra.Command, want string) error {
	return &usageError{
		key: want, pairs: []any{"command", cmd.CommandPath()}, try: cmd.CommandPath(),
	}
}

// choice refuses a flag's value that is none of the choices.
func choice(flag, value string, choices ...string) error {
	for _, known := range choices {
		if value == known {
			return nil
		}
	}
	return &usageError{key: "usage.bad_value", pairs: []any{"name", flag, "value", clean(value), "want", strings.Join(choices, ", ")}}
}

// between refuses a number out of its range.
func (c *commands) between(flag string, value, low, high int) error {
	if value >= low && value <= high {
		return nil
	}
	return &usageError{key: "usage.bad_value", pairs: []any{"name", flag, "value", value, "want", c.term.words.Say("usage.want.between", "low", low, "high", high)}}
}

// unknown refuses a command that does not exist, with the one that was
// probably meant.
func (c *commands) unknown(cmd *cobra.Command, name string) error {
	e := &usageError{key: "usage.unknown_command", pairs: []any{"name", clean(name)}, try: cmd.CommandPath()}
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		e.near = near[0]
	}
	return e
}

func (c *commands) window(ctx context.Context) error {
	if c.cfg.Window == nil {
		return &exitError{code: exitUsage, err: &complaint{code: "no_window", key: "window.missing"}}
	}
	return c.cfg.Window(ctx)
}

func (c *commands) version() *cobra.Command {
	cmd := c.command("version", "cli.version", func(*cobra.Command, []string) error {
		if c.asJSON {
			return writeJSON(c.term.out, map[string]string{"version": c.cfg.Version})
		}
		c.term.line("ondol ", c.cfg.Version)
		return nil
	})
	cmd.Args = c.arguments(0, 0, "usage.want.none")
	return cmd
}

func (c *commands) serve() *cobra.Command {
	texts := map[string]*string{}
	cmd := c.command("serve", "cli.serve", func(cmd *cobra.Command, _ []string) error {
		flags := map[string]string{}
		for name, text := range texts {
			if cmd.Flags().Changed(name) {
				flags[name] = *text
			}
		}
		return c.cfg.Serve(cmd.Context(), flags, func(endpoint string) {
			if c.asJSON {
				writeJSON(c.term.out, map[string]string{"endpoint": endpoint})
				return
			}
			c.term.say("serve.ready", "endpoint", endpoint)
			if c.term.interactive {
				c.term.say("serve.stop")
			}
		})
	})
	cmd.Args = c.arguments(0, 0, "usage.want.none")
	for _, k := range settings.Knobs() {
		if k.Flag != "" {
			texts[k.Flag] = cmd.Flags().String(k.Flag, "", c.term.words.Say("setting."+k.Key))
		}
	}
	return cmd
}

// paths is where this home's files lie.
func (c *commands) paths() (locations.Paths, error) {
	env := locations.Current()
	env.Getenv = c.cfg.Getenv
	return locations.Resolve(env)
}
