package app

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// diary records the order of ends.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (j *diary) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

// until is a service that ends lag after it is told to.
func (j *diary) until(name string, lag time.Duration) service {
	return service{name, func(ctx context.Context) error {
		<-ctx.Done()
		time.Sleep(lag)
		j.add(name)
		return ctx.Err()
	}}
}

func TestStagesEndFromTheTop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j diary
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		err := runStages(ctx, slog.New(slog.DiscardHandler), time.Minute,
			[]service{j.until("database", 0)},
			[]service{j.until("engine", 2*time.Second), j.until("gate", 0)},
			[]service{j.until("gateway", 3*time.Second)})
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"gateway", "gate", "engine", "database"}; !slices.Equal(j.lines, want) {
			t.Errorf("ended as %v, want %v", j.lines, want)
		}
	})
}

func TestFailureOfOneEndsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, broken := range map[string]error{"with an error": errors.New("port is taken"), "without one": nil} {
			var j diary
			err := runStages(t.Context(), slog.New(slog.DiscardHandler), time.Minute,
				[]service{j.until("database", 0)},
				[]service{{"gateway", func(context.Context) error { return broken }}})
			want := broken
			if want == nil {
				want = errEnded
			}
			if !errors.Is(err, want) || !strings.HasPrefix(err.Error(), "gateway: ") {
				t.Errorf("%s: %v", name, err)
			}
			if !slices.Equal(j.lines, []string{"database"}) {
				t.Errorf("%s: ended %v", name, j.lines)
			}
		}
	})
}

func TestOneDeadlineForAllStages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j diary
		ctx, stop := context.WithCancel(t.Context())
		stop()
		began := time.Now()
		err := runStages(ctx, slog.New(slog.DiscardHandler), 10*time.Second,
			[]service{j.until("database", 0)},
			[]service{j.until("engine", time.Hour)},
			[]service{j.until("gateway", 4*time.Second)})
		if err == nil || !strings.Contains(err.Error(), "stop engine") {
			t.Errorf("error is %v", err)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("gave up after %v", took)
		}
		time.Sleep(time.Hour) // the bubble's clock: let the slow one end
	})
}
