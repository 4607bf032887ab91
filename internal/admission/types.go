package admission

import (
	"errors"
	"fmt"
	"time"

	"github.com/ondol-app/ondol/internal/metrics"
)

// Lane is the queue a request stands in.
type Lane string

const (
	LaneClient     Lane = "client"     // editors, agents, searches: first come, first served
	LaneBackground Lane = "background" // indexing: what is left over
	LaneUpkeep     Lane = "upkeep"     // looking after the engine: the next free permit, in no figure but executing
)

func (l Lane) String() string { return string(l) }

// Outcome is how a request ended.
type Outcome string

const (
	Served             Outcome = "served"
	QueueFull          Outcome = "queue_full"          // refused on arrival
	QueueTimeout       Outcome = "queue_timeout"       // refused after Limits.Wait
	CancelledWaiting   Outcome = "cancelled_waiting"   // the caller left before it was served
	CancelledExecuting Outcome = "cancelled_executing" // the caller left while it was served
	InvalidVector      Outcome = "invalid_vector"
	UpstreamTimeout    Outcome = "upstream_timeout"
	EngineUnavailable  Outcome = "engine_unavailable"
	Failed             Outcome = "failed" // anything else

	// Uncounted is no outcome: the permit comes back before its request has
	// ended, and the request's outcome is counted by itself (Gate.Count).
	Uncounted Outcome = ""
)

func (o Outcome) String() string { return string(o) }

// Outcomes lists all of them.
func Outcomes() []Outcome {
	return []Outcome{Served, QueueFull, QueueTimeout, CancelledWaiting, CancelledExecuting,
		InvalidVector, UpstreamTimeout, EngineUnavailable, Failed}
}

// Limits of one gate. They may be changed while it runs: lower ones take
// nothing away from who executes or waits already (but for a shorter Wait).
type Limits struct {
	Executing  int           // permits, all lanes together; at least 1
	Waiting    int           // clients waiting; 0 = refuse whoever cannot be served at once
	Wait       time.Duration // longest a client waits, from its arrival; positive
	Background int           // permits background work may hold; 0 pauses it, at most Executing
}

// DefaultLimits are the figures of the contract.
func DefaultLimits() Limits {
	return Limits{Executing: 2, Waiting: 64, Wait: 120 * time.Second, Background: 1}
}

// Validate says what is wrong with l, if anything.
func (l Limits) Validate() error {
	switch {
	case l.Executing < 1:
		return fmt.Errorf("executing requests: %d, must be 1 or more", l.Executing)
	case l.Waiting < 0:
		return fmt.Errorf("waiting requests: %d, must be 0 or more", l.Waiting)
	case l.Wait <= 0:
		return fmt.Errorf("waiting time: %v, must be positive", l.Wait)
	case l.Background < 0 || l.Background > l.Executing:
		return fmt.Errorf("background permits: %d, must be 0 to %d (executing requests)", l.Background, l.Executing)
	}
	return nil
}

// ErrClosed is returned to everyone who waits, or comes, when the gate's Run
// has ended.
var ErrClosed = errors.New("admission gate is closed")

// RejectedError is a refusal; it is the client's turn to come back later.
type RejectedError struct {
	Reason     Outcome       // QueueFull or QueueTimeout
	RetryAfter time.Duration // when a request would be served; 1 ms to 60 s
}

func (e *RejectedError) Error() string {
	if e.Reason == QueueFull {
		return fmt.Sprintf("the queue is full; try again in %v", e.RetryAfter.Round(time.Millisecond))
	}
	return fmt.Sprintf("waited too long in the queue; try again in %v", e.RetryAfter.Round(time.Millisecond))
}

// Stats is the gate at one moment.
type Stats struct {
	Executing           int                `json:"executing"` // caller still there
	Draining            int                `json:"draining"`  // caller gone, engine still at it
	Waiting             int                `json:"waiting"`
	BackgroundExecuting int                `json:"background_executing"` // of executing and draining
	BackgroundWaiting   int                `json:"background_waiting"`
	BackgroundPaused    bool               `json:"background_paused"` // it waits so that the machine stays usable
	OldestWaitMS        int64              `json:"oldest_wait_ms"`    // of the waiting clients; 0 = none
	Limits              StatsLimits        `json:"limits"`
	Totals              map[Outcome]uint64 `json:"totals"` // every outcome, since the start
	WaitSeconds         metrics.Snapshot   `json:"wait_seconds"`
	ServiceSeconds      metrics.Snapshot   `json:"service_seconds"`
}

// StatsLimits is Limits as the status snapshot shows them.
type StatsLimits struct {
	Executing  int   `json:"executing"` // in force: the ceiling when that is lower
	Waiting    int   `json:"waiting"`
	WaitMS     int64 `json:"wait_ms"`
	Background int   `json:"background"`
}
