package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/ondol-app/ondol/internal/gpu"
	"github.com/ondol-app/ondol/internal/locations"
	"github.com/ondol-app/ondol/internal/logs"
	"github.com/ondol-app/ondol/internal/settings"
	"github.com/ondol-app/ondol/internal/upstream"
)

// stopTime is how long everything together may take to end. The longest
// single step is the engine, which is killed after its own grace of 10 s.
const stopTime = 25 * time.Second

// program is the app on a machine.
type program struct {
	gpu func() gpu.Source // finds what tells of its GPUs
}

// serve runs the app until ctx ends. flags are those of the command line, by
// name; ready is called once when clients can connect.
func (p program) serve(ctx context.Context, flags map[string]string, ready func(endpoint string)) (err error) {
	paths, err := locations.Resolve(locations.Current())
	if err != nil {
		return err
	}
	sources := settings.Config{File: paths.Settings, Getenv: os.Getenv, Flags: flags}
	loaded, err := settings.Load(sources)
	if err != nil {
		return err
	}
	if err := paths.Make(); err != nil {
		return err
	}
	held, err := takeLock(paths.Lock())
	if err != nil {
		return err
	}
	defer held.release()
	defer clearRun(paths)

	level := new(slog.LevelVar)
	if err := setLevel(level, loaded.Log); err != nil {
		return err
	}
	logger, closer := logs.Open(logs.Config{File: paths.Log(), Mirror: os.Stderr, Level: level})
	defer func() { err = errors.Join(err, closer.Close()) }()

	a, err := wire(ctx, sources, loaded, paths, logger, level, p.gpu)
	if err != nil {
		noteRefusal(paths.Log(), level, err)
		return err
	}
	logger.Info("Ondol starts", "version", Version, "pid", os.Getpid(), "endpoint", a.endpoint())
	ready(a.endpoint())
	err = runStages(ctx, logger, stopTime, a.stages()...)
	if err != nil {
		logger.Error("Ondol ends", "err", err)
		return fmt.Errorf("serve: %w", err)
	}
	logger.Info("Ondol ends")
	return nil
}

// noteRefusal writes why the app did not start into the log alone: whoever
// started it is told by the command line, once.
func noteRefusal(file string, level slog.Leveler, err error) {
	logger, closer := logs.Open(logs.Config{File: file, Level: level})
	logger.Error("Start refused", "err", err)
	_ = closer.Close() // the refusal itself is what matters
}

// clearRun removes the folders for sockets once they are empty. One that holds
// anything stays: what did not end cleanly is found there at the next start.
func clearRun(paths locations.Paths) {
	for _, name := range upstream.Roles() {
		_ = os.Remove(filepath.Join(paths.Run, name.String()))
	}
	_ = os.Remove(filepath.Join(paths.Run, secondPlace))
	_ = os.Remove(paths.Run)
}
