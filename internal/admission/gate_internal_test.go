package admission

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A caller leaves, and the owner hears of it when the caller's time is up as
// well, before its own timer: the departure makes the policy refuse the very
// request that leaves. The owner must not wait for it (the bubble would report
// a deadlock), and there is one outcome.
func TestDepartureMeetsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := DefaultLimits()
		gate, err := NewGate(limits)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		var answers [4]chan answer // by ticket, from 1
		for i := 1; i <= 3; i++ {
			answers[i] = make(chan answer, 1)
			gate.handle(now, arrival{LaneClient, answers[i], make(chan Ticket, 1), time.Time{}})
		}
		gate.handle(now.Add(limits.Wait), departure{3})
		var refusal *RejectedError
		if a := <-answers[3]; !errors.As(a.err, &refusal) || refusal.Reason != QueueTimeout {
			t.Errorf("answer = %+v", a)
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
