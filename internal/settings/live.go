package settings

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/ondol-app/ondol/internal/event"
)

// What is told of settings.
const (
	KindChanged event.Kind = "settings.changed" // key, from, to, applies
	KindRefused event.Kind = "settings.refused" // detail: the file was edited and is not taken
)

// lookEvery is how often Run looks whether the file was edited. A call of
// stat(2) costs next to nothing; a watcher would wake with every write to the
// database beside the file, where the system watches whole folders.
const lookEvery = 3 * time.Second

// LiveConfig is what a Live is made of. Facts is required.
type LiveConfig struct {
	Config
	Facts  func(*Settings) (Facts, error) // what settings come to on this machine; the error is about them
	Apply  func(*Settings)                // takes over what counts at once; one call at a time; must not call the Live
	Notify func(event.Event)              // may be nil
	Logger *slog.Logger                   // may be nil
}

// Live is the settings of a running app: what their sources say now, and what
// of that is in force. Its methods may be called from any goroutine; changes
// take turns. What is in force holds together: a file that was edited so that
// it does not is left alone, and told of.
type Live struct {
	config  LiveConfig
	started *Settings // what AppliesStart settings were at the start; constant

	mu      sync.Mutex
	now     *Loaded     // what the sources said last that held; guarded by mu, what it points to is constant
	refused error       // why the file as it is does not count; nil = it does; guarded by mu
	seen    fs.FileInfo // of the file, at the last look; nil = it was not there; guarded by mu
}

// NewLive begins with loaded, which the app starts with.
func NewLive(config LiveConfig, loaded *Loaded) *Live {
	if config.Apply == nil {
		config.Apply = func(*Settings) {}
	}
	if config.Notify == nil {
		config.Notify = func(event.Event) {}
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	started := loaded.Settings
	l := &Live{config: config, started: &started, now: loaded}
	l.seen, _ = os.Stat(config.File) // not there is nil
	return l
}

// Run takes over what is edited in the file, until ctx ends.
func (l *Live) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			l.look()
		}
	}
}

// look reads the file again where it is another than at the last look.
func (l *Live) look() {
	info, err := os.Stat(l.config.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return // cannot be read now, and says nothing
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if sameLook(l.seen, info) {
		return
	}
	l.seen = info
	l.reload()
}

// sameLook says that nothing speaks for a change between two looks.
func sameLook(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// reload takes over what the sources say now, if it holds. mu is held.
func (l *Live) reload() {
	loaded, err := Load(l.config.Config)
	if err == nil {
		_, err = Judge(l.config.Facts, l.now, loaded, nil)
	}
	if err != nil {
		if l.refused == nil || l.refused.Error() != err.Error() {
			l.config.Logger.Warn("Settings are not taken over", "error", err)
			l.config.Notify(event.New(KindRefused, "detail", err.Error()))
		}
		l.refused = err
		return
	}
	l.refused = nil
	l.take(loaded)
}

// take puts settings that hold in force. mu is held.
func (l *Live) take(loaded *Loaded) {
	before := l.now
	l.now = loaded
	live := false
	for _, k := range knobs {
		from, to := k.text(&before.Settings), k.text(&loaded.Settings)
		if from == to {
			continue
		}
		live = live || k.Applies == AppliesNow
		l.config.Notify(event.New(KindChanged, "key", k.Key, "from", shown(from), "to", shown(to), "applies", k.Applies.String()))
	}
	if live {
		l.config.Apply(&loaded.Settings)
	}
}

// shown is a value fit for an event: passwords out, and nothing as "".
func shown(value string) string {
	if value == "" {
		return `""`
	}
	return redacted(value)
}

// Now is what the sources said last that held; nobody may write to it.
func (l *Live) Now() *Loaded {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// State is the settings at one moment.
type State struct {
	*Loaded         // as the sources say; constant
	Chain   []Check // of them, with what is known of the machine now
	Refused error   // why the file as it is does not count; nil = it does
	started *Settings
}

// State is everything at once.
func (l *Live) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	chain, err := chainOf(l.config.Facts, l.now)
	if err != nil {
		chain = []Check{} // it held when they were taken over; what went is told by the engine
	}
	return State{Loaded: l.now, Chain: chain, Refused: l.refused, started: l.started}
}

// InForce is the settings by which the running app goes: others than Settings
// where they count from the next start.
func (s State) InForce() Settings {
	force := *s.started
	for _, k := range knobs {
		if k.Applies == AppliesNow {
			_ = k.set(&force, k.value(&s.Settings)) // it was set from there
		}
	}
	return force
}

// Changed is what a change came to.
type Changed struct {
	Before     map[string]string  // what the file said; given to Change it undoes this
	Applies    map[string]Applies // when each of them counts
	Overridden []string           // keys that the environment or a flag sets above the file
	Chain      []Check            // as it is then
}

// Change writes values into the file as Update does, all or none, and takes
// them over. The error is Update's: a *ProblemsError names everything wrong,
// links of the chain among it.
func (l *Live) Change(changes map[string]string) (Changed, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var after *Loaded
	var chain []Check
	before, err := Update(l.config.Config, changes, func(was, is *Loaded, keys []string) (err error) {
		after = is
		chain, err = Judge(l.config.Facts, was, is, keys)
		return err
	})
	if err != nil {
		return Changed{}, err
	}
	l.seen, _ = os.Stat(l.config.File)
	l.refused = nil
	l.take(after)
	return l.changed(before, changes, after, chain), nil
}

// Preview is what Change would come to; nothing is written. Where the values
// are good but do not hold together, the chain comes with the error.
func (l *Live) Preview(changes map[string]string) (Changed, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old, err := os.ReadFile(l.config.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Changed{}, fmt.Errorf("read settings: %w", err)
	}
	before, err := present(old, changes)
	if err != nil {
		return Changed{}, fmt.Errorf("read settings %s: %w", l.config.File, err)
	}
	var after *Loaded
	var chain []Check
	_, err = change(l.config.Config, old, changes, func(was, is *Loaded, keys []string) (err error) {
		after = is
		chain, err = Judge(l.config.Facts, was, is, keys)
		return err
	})
	if after == nil {
		return Changed{}, err
	}
	return l.changed(before, changes, after, chain), err
}

func (l *Live) changed(before, changes map[string]string, after *Loaded, chain []Check) Changed {
	c := Changed{Before: before, Applies: make(map[string]Applies, len(changes)), Chain: chain}
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		k, _ := Find(key)
		c.Applies[key] = k.Applies
		if source := after.Sources[key]; source == FromEnv || source == FromFlag {
			c.Overridden = append(c.Overridden, key)
		}
	}
	return c
}
