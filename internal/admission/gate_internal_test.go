package admission

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A caller leaves when its time is up as well, before the gate's own timer: the
// departure makes the policy refuse the very request that leaves. The gate
// must not wait for it (the bubble would report a deadlock), and there is one
// outcome.
func TestDepartureMeetsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := DefaultLimits()
		gate, err := NewGate(limits)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		var last chan error
		for range 3 {
			last = make(chan error, 1)
			gate.arrive(now, LaneClient, time.Time{}, last)
		}
		gate.leave(now.Add(limits.Wait), 3)
		var refusal *RejectedError
		if err := <-last; !errors.As(err, &refusal) || refusal.Reason != QueueTimeout {
			t.Errorf("answer = %v", err)
		}
		stats := gate.policy.Stats(now)
		if stats.Totals[QueueTimeout] != 1 || stats.Totals[CancelledWaiting] != 0 || stats.Waiting != 0 {
			t.Errorf("stats = %+v", stats)
		}
		if len(gate.waiting) != 0 {
			t.Errorf("%d callers still to be answered", len(gate.waiting))
		}
	})
}
