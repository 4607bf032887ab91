package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// service is one long-lived part. run blocks until ctx ends and everything it
// started has returned; an error ends the app.
type service struct {
	name string
	run  func(ctx context.Context) error
}

// errEnded is what a service that returned early without an error is taken for.
var errEnded = errors.New("ended unexpectedly")

// runStages starts the stages in order and, when ctx ends or a service does,
// ends them in the opposite order, each only after the one above it is gone.
// A service of a lower stage may therefore be relied on until one's own end.
//
// All ends together have one deadline; then the error says which stage was
// still there, and the caller exits without waiting for it.
func runStages(ctx context.Context, logger *slog.Logger, deadline time.Duration, stages ...[]service) error {
	group, failed := errgroup.WithContext(ctx)
	type running struct {
		stop context.CancelFunc
		done chan struct{}
	}
	started := make([]running, len(stages))
	for i, stage := range stages {
		stageCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
		defer stop()
		started[i] = running{stop: stop, done: make(chan struct{})}
		var wait sync.WaitGroup
		for _, s := range stage {
			wait.Add(1)
			group.Go(func() error {
				defer wait.Done()
				err := s.run(stageCtx)
				switch {
				case err == nil && stageCtx.Err() == nil:
					err = errEnded
				case stageCtx.Err() != nil && errors.Is(err, stageCtx.Err()):
					err = nil
				}
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				return nil
			})
		}
		group.Go(func() error {
			wait.Wait()
			close(started[i].done)
			return nil
		})
	}

	<-failed.Done() // ctx ended, or a service failed
	timer := time.NewTimer(deadline)
	defer timer.Stop()
	for i := len(stages) - 1; i >= 0; i-- {
		began := time.Now()
		started[i].stop()
		select {
		case <-started[i].done:
			logger.Debug("Stage ended", "stage", i, "took", time.Since(began))
		case <-timer.C:
			return fmt.Errorf("stop %s: not done after %v", names(stages[i]), deadline)
		}
	}
	return group.Wait()
}

func names(stage []service) string {
	text := ""
	for i, s := range stage {
		if i > 0 {
			text += ", "
		}
		text += s.name
	}
	return text
}
