package power

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/ondol-app/ondol/internal/event"
)

// KindWoke tells that the machine slept, and for how long: slept, rounded to
// seconds, as in "1h2m3s".
const KindWoke event.Kind = "machine.woke"

// lookEvery is how soon a sleep is known that nobody asks about.
const lookEvery = 10 * time.Second

// shortest is the shortest stop that is a sleep. The two clocks are read one
// after the other, and the processor may be given to somebody else in between.
const shortest = time.Second

// ClockConfig of a Clock. All of it may be missing.
type ClockConfig struct {
	// Read is the time since some moment, with the time asleep and without;
	// nil = the system's.
	Read func() (whole, awake time.Duration, err error)

	Notify func(event.Event) // nil = nobody listens
	OnWake func()            // called when a sleep is found, by whoever found it; returns at once
	Logger *slog.Logger
}

// Clock knows when the machine slept last. Its methods may be called from any
// goroutine.
type Clock struct {
	config ClockConfig

	mu   sync.Mutex
	gap  gap       // guarded by mu
	woke time.Time // guarded by mu; when a sleep was found last; zero = never
}

// NewClock begins to count now.
func NewClock(config ClockConfig) *Clock {
	if config.Read == nil {
		config.Read = clocks
	}
	if config.Notify == nil {
		config.Notify = func(event.Event) {}
	}
	if config.OnWake == nil {
		config.OnWake = func() {}
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Clock{config: config}
	c.Woke()
	return c
}

// Run looks every ten seconds until ctx ends, so that a sleep is known also
// when nobody asks.
func (c *Clock) Run(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			c.Woke()
		}
	}
}

// Woke is when the last sleep was found to be over, which is not before it
// was; zero when the machine has not slept since the clock was made.
func (c *Clock) Woke() time.Time {
	whole, awake, err := c.config.Read()
	c.mu.Lock()
	if err != nil { // where it cannot be read now it never could
		defer c.mu.Unlock()
		return c.woke
	}
	slept := c.gap.step(whole, awake)
	if slept > 0 {
		c.woke = time.Now()
	}
	woke := c.woke
	c.mu.Unlock()
	if slept > 0 {
		c.config.Logger.Info("The machine woke", "slept", slept)
		c.config.Notify(event.New(KindWoke, "slept", slept.Round(time.Second).String()))
		c.config.OnWake()
	}
	return woke
}

// gap finds sleeps by two clocks, of which one stands still meanwhile. It
// reads no clock.
type gap struct {
	begun  bool
	asleep time.Duration // by how much the whole time was ahead at the last sleep
}

// step takes both times of now and says for how long the machine slept since
// the last step; 0 = it did not.
func (g *gap) step(whole, awake time.Duration) (slept time.Duration) {
	ahead := whole - awake
	if !g.begun {
		g.begun, g.asleep = true, ahead
		return 0
	}
	if slept = ahead - g.asleep; slept < shortest {
		return 0
	}
	g.asleep = ahead
	return slept
}
