package gpu

import (
	"errors"
	"time"
)

// Reader reads the counters of the machine's GPUs. One goroutine uses it.
type Reader interface {
	// Read returns the counters now. ErrNone says that there is no GPU.
	Read() (Reading, error)
}

// ErrNone is a Reader's error on a machine without a GPU.
var ErrNone = errors.New("this machine has no GPU")

// Reading is the counters of all GPUs at one moment. What is nil is not told.
type Reading struct {
	Utilization *float64 // share of the time that the busiest GPU is busy, 0 to 1
	MemoryInUse *int64   // bytes
	WorkingSet  *int64   // bytes that may be in use before it gets slow

	// Clients are those that use a GPU; nil where no times are told of them.
	Clients map[Client]Use
}

// Client names a user of a GPU for good: it is never given out again while the
// machine runs.
type Client struct {
	Device string
	ID     uint64
}

// Use is what a client has used since it began.
type Use struct {
	PID     int
	Engines map[string]Busy // by name of the part of the GPU that computes
}

// Busy is a counter that only rises.
type Busy struct {
	Count uint64 // nanoseconds, or ticks of Of
	Of    uint64 // ticks that have passed; 0 = Count is nanoseconds
	Width uint64 // how many such engines count into it; 0 = one
}

// Shares is how much of a GPU was used, in GPU seconds a second: 1 is one GPU
// all the time. With several GPUs, or engines that compute side by side, it can
// be more.
type Shares struct {
	Ours   float64
	Others float64
}

// Between makes shares of two readings that lie d apart; false where times are
// not told. A client that the first one does not know is not counted: nobody
// knows since when it counts.
func Between(a, b Reading, d time.Duration, ours func(pid int) bool) (Shares, bool) {
	if a.Clients == nil || b.Clients == nil || d <= 0 {
		return Shares{}, false
	}
	var s Shares
	for client, now := range b.Clients {
		before, known := a.Clients[client]
		if !known || before.PID != now.PID {
			continue
		}
		share := 0.
		for engine, busy := range now.Engines {
			if earlier, known := before.Engines[engine]; known {
				share += busy.since(earlier, d)
			}
		}
		if ours(now.PID) {
			s.Ours += share
		} else {
			s.Others += share
		}
	}
	return s, true
}

// since is the share of d in which the counter rose; 0 for one that was reset.
func (b Busy) since(earlier Busy, d time.Duration) float64 {
	if b.Count < earlier.Count || b.Of < earlier.Of {
		return 0
	}
	passed := float64(d.Nanoseconds())
	if b.Of > 0 {
		passed = float64(b.Of - earlier.Of)
	}
	if passed == 0 {
		return 0
	}
	return float64(b.Count-earlier.Count) / passed / float64(max(b.Width, 1))
}
