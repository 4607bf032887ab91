// Package admission decides who may use an engine, when, and who must wait or
// go: one gate for each engine role. design.md beside it has the states, the
// law and the reasons.
//
// It may be imported by embedding (and the doors of other roles beside it),
// by the surfaces that translate a rejection, and by what wires them. It
// imports nothing of ours above metrics and does no I/O.
//
// Policy is the decision: a plain state machine that is told what happened
// and when, and answers what follows. It reads no clock, starts no goroutine,
// takes no lock. Gate is the front: a lock around one Policy, Run for the time
// that passes, Acquire to hand out permits.
//
// What it guarantees, whatever callers do and in whatever order:
//
//   - executing + draining never exceeds Limits.Executing as it was when the
//     last permit was granted; waiting clients never exceed Limits.Waiting;
//   - clients are granted in arrival order; background work only while no
//     client waits, and at most Limits.Background permits of it;
//   - a refusal for a full queue is immediate, a client waits at most
//     Limits.Wait;
//   - every Acquire ends in exactly one outcome, and no permit is lost: one
//     granted to a caller that has gone comes back unused.
package admission
