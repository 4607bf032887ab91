package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Accept may refuse a change of the settings for what they come to together:
// the capacity chain (Refusal) needs to know the machine. before is nil where
// the file could not be taken as it was; both have the environment and the
// flags above the file, as they would be in force. changed are the keys.
type Accept func(before, after *Loaded, changed []string) error

// Update writes values, by key and given as on the command line, into the
// settings file in one step: all of them or none. An empty value takes the
// setting out of the file, so that its default holds again. Everything else in
// the file, comments included, stays as it is.
//
// The new file is checked as a whole before it replaces the old one; accept
// may refuse it further and may be nil. Writers take turns, across processes
// too; ErrBusy when one does not end its turn.
//
// before holds what the file said, "" where it said nothing: given to Update it
// undoes the change. The error is a *ProblemsError that names everything wrong
// at once, or an I/O error; the file is then as it was.
func Update(cfg Config, changes map[string]string, accept Accept) (before map[string]string, err error) {
	if _, err := written(changes); err != nil {
		return nil, err
	}
	path := cfg.File
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // a linked file stays a link
	}
	turn, err := takeTurn(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer turn.Close()
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	if before, err = present(old, changes); err != nil {
		return nil, fmt.Errorf("read settings %s: %w", path, err)
	}
	changed, err := change(cfg, old, changes, accept)
	if err != nil {
		return nil, err
	}
	if err := replace(path, changed); err != nil {
		return nil, err
	}
	return before, turn.Sync() // the new name, through a power cut
}

// change is the content of the file with the changes in it, when they are accepted.
func change(cfg Config, old []byte, changes map[string]string, accept Accept) ([]byte, error) {
	lines, err := written(changes)
	if err != nil {
		return nil, err
	}
	changed := old
	for _, l := range lines {
		if changed, err = edit(changed, l.key, l.value); err != nil {
			return nil, fmt.Errorf("edit settings %s: %w", cfg.File, err)
		}
	}
	// The file must hold on its own: nothing above it may hide a bad value.
	if _, err := read(changed, Config{File: cfg.File, Getenv: func(string) string { return "" }}); err != nil {
		return nil, err
	}
	after, err := read(changed, cfg)
	if err != nil || accept == nil {
		return changed, err
	}
	before, err := read(old, cfg)
	if err != nil {
		before = nil // it did not hold before; what comes does
	}
	return changed, accept(before, after, slices.Sorted(maps.Keys(changes)))
}

// line is a value in TOML; empty takes the key out.
type line struct{ key, value string }

// written checks each value by itself and puts it into TOML, in the table's order.
func written(changes map[string]string) ([]line, error) {
	var lines []line
	var problems []Problem
	known := 0
	for _, k := range knobs {
		text, ok := changes[k.Key]
		if !ok {
			continue
		}
		known++
		if text == "" {
			lines = append(lines, line{key: k.Key})
			continue
		}
		var scratch Settings
		value, err := k.parse(text)
		if err == nil {
			err = k.set(&scratch, value)
		}
		if err != nil {
			problems = append(problems, bad(k.Key, text, err))
			continue
		}
		lines = append(lines, line{k.Key, k.toml(&scratch)})
	}
	if known < len(changes) {
		for _, key := range slices.Sorted(maps.Keys(changes)) {
			if _, ok := Find(key); !ok {
				problems = append(problems, unknown(key))
			}
		}
	}
	if len(problems) > 0 {
		return nil, &ProblemsError{Problems: problems}
	}
	return lines, nil
}

// present is what the file says of the keys of changes, as Update reads it.
func present(data []byte, changes map[string]string) (map[string]string, error) {
	values, err := parse(data)
	if err != nil {
		return nil, err
	}
	before := make(map[string]string, len(changes))
	for key := range changes {
		before[key] = ""
		value, ok := values[key]
		if !ok {
			continue
		}
		k, _ := Find(key)
		var scratch Settings
		if k.set(&scratch, value) == nil {
			before[key] = k.text(&scratch)
		} else {
			before[key] = fmt.Sprint(value) // was of no use; shown, not taken again
		}
	}
	return before, nil
}

// ErrBusy says that another program keeps writing settings.
var ErrBusy = errors.New("another program is writing the settings and does not end; try again")

// How long a writer waits for its turn, and between two attempts. A turn is a
// read and a write of one small file.
const (
	turnWait  = 2 * time.Second
	turnPause = 10 * time.Millisecond
)

// takeTurn locks the settings' folder, which it makes when it is not there.
// The lock goes with the file it returns, or with the process.
func takeTurn(folder string) (*os.File, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make settings folder: %w", err)
	}
	dir, err := os.Open(folder)
	if err != nil {
		return nil, fmt.Errorf("open settings folder: %w", err)
	}
	for end := time.Now().Add(turnWait); ; time.Sleep(turnPause) {
		err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return dir, nil
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EWOULDBLOCK):
			dir.Close()
			return nil, fmt.Errorf("lock settings folder: %w", err)
		case time.Now().After(end):
			dir.Close()
			return nil, ErrBusy
		}
	}
}

// replace puts data at path in one step: a reader sees the old file or the
// new one, also after a power cut.
func replace(path string, data []byte) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".settings-*.toml") // mode 0600
	if err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	defer func() {
		if err != nil {
			os.Remove(tmp.Name())
		}
	}()
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	return nil
}
