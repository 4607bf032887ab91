package power_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/power"
)

// bed is a machine that can be put to sleep.
type bed struct {
	awake, asleep atomic.Int64 // time.Duration
	broken        atomic.Bool
}

func (b *bed) read() (whole, awake time.Duration, err error) {
	if b.broken.Load() {
		return 0, 0, errors.New("no clock")
	}
	awake = time.Duration(b.awake.Load())
	return awake + time.Duration(b.asleep.Load()), awake, nil
}

func TestWoke(t *testing.T) {
	var b bed
	var told []string
	wakes := 0
	b.asleep.Store(int64(time.Hour)) // before the app
	c := power.NewClock(power.ClockConfig{
		Read: b.read, Notify: func(e event.Event) { told = append(told, e.Kind.String()+" "+e.Args["slept"]) }, OnWake: func() { wakes++ },
	})
	want := func(what string, slept bool, n int) {
		t.Helper()
		if woke := c.Woke(); woke.IsZero() == slept || len(told) != n || wakes != n {
			t.Errorf("%s: woke %v, told %q, %d wakes", what, woke, told, wakes)
		}
	}
	want("at first", false, 0)
	b.awake.Add(int64(24 * time.Hour))
	want("awake for a day", false, 0)
	b.asleep.Add(int64(999 * time.Millisecond))
	want("less than a sleep", false, 0)
	b.asleep.Add(int64(time.Millisecond))
	want("and a little more", true, 1)
	first := c.Woke()
	want("the same sleep is told once", true, 1)
	b.asleep.Add(int64(time.Hour + 2*time.Minute + 3400*time.Millisecond))
	want("another one", true, 2)
	if again := c.Woke(); !again.After(first) {
		t.Errorf("woke at %v, then at %v", first, again)
	}
	if told[1] != "machine.woke 1h2m3s" {
		t.Errorf("told %q", told)
	}
	b.broken.Store(true)
	want("a clock that fails", true, 2)
}

// A sleep is found though nobody asks.
func TestRunLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bed
		var wakes atomic.Int32
		c := power.NewClock(power.ClockConfig{Read: b.read, OnWake: func() { wakes.Add(1) }})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		b.asleep.Add(int64(time.Minute))
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		if wakes.Load() != 1 {
			t.Errorf("%d wakes", wakes.Load())
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// The system's own clocks say that this machine is awake.
func TestSystemClocks(t *testing.T) {
	c := power.NewClock(power.ClockConfig{})
	for range 1000 {
		if woke := c.Woke(); !woke.IsZero() {
			t.Fatalf("woke at %v", woke)
		}
	}
}
