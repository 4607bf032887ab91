package cli

import (
	"github.com/spf13/cobra"

	"github.com/ondol-app/ondol/internal/settings"
)

// config works on the file, whether the app runs or not.
func (c *commands) config() *cobra.Command {
	get := c.command("get [SETTING]", "cli.config.get", func(_ *cobra.Command, args []string) error { return c.configGet(args) })
	get.Args = c.arguments(0, 1, "usage.want.key")
	set := c.command("set SETTING VALUE", "cli.config.set", func(_ *cobra.Command, args []string) error { return c.configSet(args[0], args[1]) })
	set.Args = c.arguments(2, 2, "usage.want.key_value")
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
			return writeJSON(c.term.out, setting{k.Key, value, string(loaded.Sources[k.Key]), k.Unit})
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
		list = append(list, setting{k.Key, value, string(source), k.Unit})
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

func (c *commands) configSet(key, value string) error {
	paths, err := c.paths()
	if err != nil {
		return err
	}
	if _, err := settings.Update(paths.Settings, map[string]string{key: value}, c.cfg.Accept); err != nil {
		return err
	}
	loaded, err := settings.Load(settings.Config{File: paths.Settings, Getenv: c.cfg.Getenv})
	if err != nil {
		return err
	}
	now, _ := loaded.Value(key)
	source := loaded.Sources[key]
	k, _ := settings.Find(key)
	if c.asJSON {
		return writeJSON(c.term.out, setting{Key: key, Value: now, Source: string(source), Unit: k.Unit})
	}
	if value == "" {
		value = k.DefaultText()
	}
	c.term.say("settings.set", "key", key, "value", clean(value))
	if source == settings.FromEnv {
		c.term.say("settings.above", "key", key, "source", c.term.words.Say("settings.source."+string(source)))
	}
	c.term.say("settings.next_start")
	return nil
}
