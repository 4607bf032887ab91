// Package event is the noun of the journal: something that changed and that a
// person could care about. Go carries codes and arguments; the sentences live
// in assets/locales under "event.<kind>".
//
// Anybody may import it. It imports nothing of ours and does nothing.
package event

import "time"

// Kind tells what happened, as "part.happening": "engine.state", "vector.invalid".
// Kinds are part of the control API: one that is published keeps its meaning.
type Kind string

// String returns the kind as it stands in JSON.
func (k Kind) String() string { return string(k) }

// Event is one row of the journal.
type Event struct {
	Seq  uint64            `json:"seq"` // rises strictly from 1; 0 until it is written
	At   time.Time         `json:"at"`  // when it happened, UTC
	Kind Kind              `json:"kind"`
	Args map[string]string `json:"args,omitempty"` // placeholders of the kind's sentence; never private text
}

// New is an event that has just happened. Args are pairs of name and value.
func New(kind Kind, args ...string) Event {
	e := Event{At: time.Now().UTC(), Kind: kind}
	if len(args) > 0 {
		e.Args = make(map[string]string, len(args)/2)
		for i := 0; i+1 < len(args); i += 2 {
			e.Args[args[i]] = args[i+1]
		}
	}
	return e
}

// Span is which events are kept: those from Oldest to Newest. Newest is the
// number given last, 0 before the first event; where none is kept, Oldest is
// the one to come.
type Span struct {
	Oldest uint64
	Newest uint64
}

// Covers reports whether everything after seq can be told: none of it is gone,
// and seq is no number that was never given.
func (s Span) Covers(seq uint64) bool { return seq+1 >= s.Oldest && seq <= s.Newest }
