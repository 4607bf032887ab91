// Package settings is what an owner can change: one TOML file, the environment
// above it, command line flags above that, checked as a set.
//
// Only app, the command line and the control API import it; every other part
// is handed plain values. Knobs is the one table of names, defaults, units and
// meanings. Load reads and checks but never writes; Update changes values in
// the file, all or none, and keeps the owner's comments. Live is the settings of
// a running app, changed while it runs. Chain is the capacity chain: the links
// between limits that must hold together, as a pure function of settings and
// facts that its caller brings. Nothing here starts a goroutine.
package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sort"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// Settings are the values in force.
type Settings struct {
	Listen         string   // address of the endpoint, host:port
	AllowedOrigins []string // web origins that may call the endpoint
	Aliases        []string // further names of the engine's model
	RequireKey     bool     // clients must show the key of the token file
	DecodeTokenIDs string   // vocabulary of the token ids sent by clients that show it; empty = refused
	Log            string   // debug, info, warn, error

	Engine    Engine
	Admission Admission
	Index     Index
	Yield     Yield
	Cache     Cache
	Journal   Journal
	Models    Models
	Roles     Roles
}

// Engine is how llama-server is run.
type Engine struct {
	Server       string   // path of llama-server; empty = looked for
	Model        string   // path of the model; empty = looked for
	Profile      string   // name of the set of flags; empty = chosen from the model
	Flags        []string // added after the profile's, so that they win
	LongestInput int      // tokens; 0 = as long as the engine takes
	MemoryCheck  bool     // refuse a start that needs more memory than there is
	CheckEvery   int      // vectors between two checks of the engine

	Silence time.Duration // without a sign of work, from an engine that has requests

	UnloadOnBattery time.Duration // without a request; 0 = never
	UnloadOnPower   time.Duration

	CandidateSlower int           // percent of the live engine's median time
	Probation       time.Duration // after a promotion
}

// Changes are what Update is given so that an engine takes the place of e. What
// is looked for or chosen stays so: an empty value takes the setting out.
func (e Engine) Changes(to Engine) map[string]string {
	changes := make(map[string]string)
	for key, values := range map[string][2]string{
		"engine.server": {e.Server, to.Server}, "engine.model": {e.Model, to.Model}, "engine.profile": {e.Profile, to.Profile},
	} {
		if values[0] != values[1] {
			changes[key] = values[1]
		}
	}
	if !slices.Equal(e.Flags, to.Flags) {
		changes["engine.flags"] = listText(to.Flags)
	}
	return changes
}

// Admission bounds the work the engine is given.
type Admission struct {
	Executing  int           // requests at once
	Waiting    int           // requests in the queue
	Wait       time.Duration // longest time in the queue
	Background int           // of Executing, those indexing may hold
	Total      time.Duration // longest exchange with the engine, from the permit
}

// Index is how folders are read.
type Index struct {
	ChunkMin  int           // tokens
	ChunkMax  int           // tokens
	MaxFile   int           // MiB; larger files are skipped
	Readers   int           // files read at once; 0 = as many as there are cores, up to 4
	Reconcile time.Duration // between full scans

	KeepGenerations time.Duration // of vectors whose engine is not in service any more
}

// Cache bounds the vectors that are kept for clients that ask again.
type Cache struct {
	Memory int // MiB
	Disk   int // MiB; 0 = memory only
}

// Journal bounds the events that are kept.
type Journal struct {
	Events int           // how many
	Age    time.Duration // of an event
}

// Source is where a value came from.
type Source string

// The sources, weakest first.
const (
	FromDefault Source = "default"
	FromFile    Source = "file"
	FromEnv     Source = "environment"
	FromFlag    Source = "flag"
)

// Config is what Load reads from.
type Config struct {
	File   string                  // path of the settings file; it need not exist
	Getenv func(key string) string // required
	Flags  map[string]string       // by Knob.Flag; only flags that were given
}

// Loaded is the outcome of Load.
type Loaded struct {
	Settings
	Sources map[string]Source // by key
}

// Load puts the sources together. The error is a *ProblemsError that names
// everything wrong at once, or an I/O error.
func Load(cfg Config) (*Loaded, error) {
	data, err := os.ReadFile(cfg.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	return read(data, cfg)
}

// read is Load for the content of the settings file.
func read(data []byte, cfg Config) (*Loaded, error) {
	l := &Loaded{Sources: make(map[string]Source)}
	var problems []Problem
	for _, k := range knobs {
		if err := k.set(&l.Settings, k.Default); err != nil {
			return nil, fmt.Errorf("default of %s: %w", k.Key, err)
		}
		l.Sources[k.Key] = FromDefault
	}
	found, err := l.applyFile(data)
	if err != nil {
		return nil, fmt.Errorf("read settings %s: %w", cfg.File, err)
	}
	problems = append(problems, found...)
	for _, k := range knobs {
		if k.Env != "" {
			if text := cfg.Getenv(k.Env); text != "" {
				problems = append(problems, l.applyText(k, text, FromEnv, k.Env)...)
			}
		}
		if text, ok := cfg.Flags[k.Flag]; ok && k.Flag != "" {
			problems = append(problems, l.applyText(k, text, FromFlag, "--"+k.Flag)...)
		}
	}
	problems = append(problems, l.Settings.check()...)
	if len(problems) > 0 {
		return nil, &ProblemsError{Problems: problems}
	}
	return l, nil
}

// parse is what a settings file says, by dotted key. The error is of TOML's
// grammar and carries the position.
func parse(data []byte) (map[string]any, error) {
	var tree map[string]any
	if err := toml.Unmarshal(data, &tree); err != nil {
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			row, column := at.Position()
			return nil, fmt.Errorf("line %d, column %d: %w", row, column, err)
		}
		return nil, err
	}
	values := make(map[string]any)
	flatten("", tree, values)
	return values, nil
}

// applyFile takes over what the file sets; the error is parse's.
func (l *Loaded) applyFile(data []byte) ([]Problem, error) {
	values, err := parse(data)
	if err != nil {
		return nil, err
	}
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	var problems []Problem
	for _, key := range keys {
		k, ok := Find(key)
		if !ok {
			problems = append(problems, unknown(key))
			continue
		}
		if err := k.set(&l.Settings, values[key]); err != nil {
			problems = append(problems, bad(key, values[key], err))
			continue
		}
		l.Sources[key] = FromFile
	}
	return problems, nil
}

func (l *Loaded) applyText(k Knob, text string, source Source, name string) []Problem {
	value, err := k.parse(text)
	if err == nil {
		err = k.set(&l.Settings, value)
	}
	if err != nil {
		return []Problem{bad(name, text, err)}
	}
	l.Sources[k.Key] = source
	return nil
}

// flatten turns nested tables into dotted keys.
func flatten(prefix string, tree map[string]any, into map[string]any) {
	for name, value := range tree {
		if table, ok := value.(map[string]any); ok {
			flatten(prefix+name+".", table, into)
			continue
		}
		into[prefix+name] = value
	}
}

// Value is the present value of the knob named key, as text.
func (s *Settings) Value(key string) (string, bool) {
	k, ok := Find(key)
	if !ok {
		return "", false
	}
	return k.text(s), true
}
