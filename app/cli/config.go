package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/settings"
)

// config shows and changes settings, whether the app runs or not.
func (c *commands) config() *cobra.Command {
	get := c.command("get [SETTING]", "cli.config.get", func(_ *cobra.Command, args []string) error { return c.configGet(args) })
	get.Args = c.arguments(0, 1, "usage.want.key")
	set := c.command("set SETTING VALUE [SETTING VALUE ...]", "cli.config.set", func(cmd *cobra.Command, args []string) error { return c.configSet(cmd.Context(), args) })
	set.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 || len(args)%2 != 0 {
			return c.wants(cmd, "usage.want.key_value")
		}
		return nil
	}
	path := c.command("path", "cli.config.path", func(*cobra.Command, []string) error {
		paths, err := c.paths()
		if err != nil {
			return err
		}
		if c.asJSON {
			return writeJSON(c.term.out, map[string]string{"path": paths.Settings})
		}
		c.term.line(paths.Settings)
		return nil
	})
	path.Args = c.arguments(0, 0, "usage.want.none")
	return c.group("config", "cli.config", get, set, path)
}

// setting is one setting as a program reads it.
type setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Source string `json:"source"`
	Unit   string `json:"unit,omitempty"`

	Applies settings.Applies `json:"applies,omitempty"` // when a change counts
}

func (c *commands) configGet(args []string) error {
	paths, err := c.paths()
	if err != nil {
		return err
	}
	loaded, err := settings.Load(settings.Config{File: paths.Settings, Getenv: c.cfg.Getenv})
	if err != nil {
		return err
	}
	if len(args) == 1 {
		k, ok := settings.Find(args[0])
		if !ok {
			return &exitError{code: exitUsage, err: settings.Unknown(args[0])}
		}
		value, _ := loaded.Value(k.Key)
		if c.asJSON {
			return writeJSON(c.term.out, setting{Key: k.Key, Value: value, Source: string(loaded.Sources[k.Key]), Unit: k.Unit})
		}
		if c.term.interactive { // a script reads the value alone
			value = c.withUnit(value, k)
		}
		c.term.line(value)
		return nil
	}
	var list []setting
	head := c.term.words.Say
	rows := [][]cell{{{text: head("table.key"), style: dim}, {text: head("table.value"), style: dim}, {text: head("table.source"), style: dim}, {text: head("table.meaning"), style: dim}}}
	for _, k := range settings.Knobs() {
		value, _ := loaded.Value(k.Key)
		source := loaded.Sources[k.Key]
		list = append(list, setting{Key: k.Key, Value: value, Source: string(source), Unit: k.Unit})
		shown := c.withUnit(value, k)
		if shown == "" {
			shown = "-"
		}
		style := plain
		if source != settings.FromDefault {
			style = bold
		}
		rows = append(rows, []cell{{text: k.Key}, {text: shown, style: style}, {text: head("settings.source." + string(source))}, {text: head("setting." + k.Key), style: dim}})
	}
	if c.asJSON {
		return writeJSON(c.term.out, map[string][]setting{"settings": list})
	}
	c.term.table(rows)
	return nil
}

// withUnit is a value as a person reads it.
func (c *commands) withUnit(value string, k settings.Knob) string {
	if k.Unit == "" {
		return value
	}
	unit, ok := c.term.words.Lookup("unit." + k.Unit)
	if !ok {
		unit = k.Unit
	}
	return value + " " + unit
}

// configSet changes settings together: in the running app, which takes over at
// once what can be, else in the file alone.
func (c *commands) configSet(ctx context.Context, args []string) error {
	changes := make(map[string]string, len(args)/2)
	for i := 0; i+1 < len(args); i += 2 {
		changes[args[i]] = args[i+1]
	}
	changed, running, err := c.change(ctx, changes)
	if err != nil {
		return err
	}
	paths, err := c.paths()
	if err != nil {
		return err
	}
	loaded, err := settings.Load(settings.Config{File: paths.Settings, Getenv: c.cfg.Getenv})
	if err != nil {
		return err
	}
	var list []setting
	for i := 0; i+1 < len(args); i += 2 {
		k, _ := settings.Find(args[i])
		value, _ := loaded.Value(k.Key)
		list = append(list, setting{Key: k.Key, Value: value, Source: string(loaded.Sources[k.Key]), Unit: k.Unit, Applies: changed.Applies[k.Key]})
	}
	switch {
	case c.asJSON && len(list) == 1:
		return writeJSON(c.term.out, list[0])
	case c.asJSON:
		return writeJSON(c.term.out, map[string][]setting{"settings": list})
	}
	var later []string
	for _, s := range list {
		value := changes[s.Key]
		if value == "" {
			k, _ := settings.Find(s.Key)
			value = k.DefaultText()
		}
		c.term.say("settings.set", "key", s.Key, "value", clean(value))
		if s.Source == string(settings.FromEnv) {
			c.term.say("settings.above", "key", s.Key, "source", c.term.words.Say("settings.source."+s.Source))
		}
		if !running || s.Applies != settings.AppliesNow {
			later = append(later, s.Key)
		}
	}
	switch {
	case len(later) == 0:
		c.term.say("settings.now")
	case len(later) == len(list):
		c.term.say("settings.next_start")
	default:
		c.term.say("settings.some_next_start", "keys", strings.Join(later, ", "))
	}
	return nil
}

// change makes the changes; running says that an app has taken them over.
func (c *commands) change(ctx context.Context, changes map[string]string) (changed control.SettingsChanged, running bool, err error) {
	client, err := c.client()
	if err == nil {
		if changed, err = client.ChangeSettings(ctx, changes); err == nil {
			return changed, true, nil
		}
	}
	if !errors.Is(err, control.ErrNotRunning) && !errors.Is(err, errNotRunning) {
		return control.SettingsChanged{}, false, err
	}
	paths, err := c.paths()
	if err != nil {
		return control.SettingsChanged{}, false, err
	}
	before, err := settings.Update(settings.Config{File: paths.Settings, Getenv: c.cfg.Getenv}, changes, c.cfg.Accept)
	changed.Before, changed.Applies = before, make(map[string]settings.Applies)
	for key := range changes {
		changed.Applies[key] = settings.AppliesStart // nothing runs that could take it over
	}
	return changed, false, err
}
