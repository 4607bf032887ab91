package embedding

import (
	"slices"
	"sync"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/vector"
	"github.com/ondol-app/ondol/internal/vectorcache"
)

// flight is one text being computed for one request, its leader's; others may
// join. It begins before the leader has its permit and ends exactly once, by
// landing or failing, whatever becomes of the leader.
type flight struct {
	// Constant once the flight is entered, but for tokens, which the leader
	// may set until the exchange begins.
	key    vector.Key
	text   string
	lane   admission.Lane // of the leader
	input  int            // the leader's first input with this text
	tokens int            // of the text, when it has been counted; else 0

	suspect bool // of its exchange alone: to be tried alone, see design.md

	// Guarded by flights.mu; the leader may read the last two when its
	// exchange has answered.
	executing bool              // the leader has its permit
	kept      bool              // a client wants it, so its vector is cached
	waiters   []chan<- struct{} // of those who joined; told once, when it ends
	ended     bool              // embedding or failure is set
	embedding vector.Embedding  // valid
	failure   *failure          // nil = landed
}

// failure is why a flight did not land. One with neither reason nor err is no
// fault of the text: whoever joined tries for itself.
type failure struct {
	reason vector.Reason // the vector was invalid
	whole  bool          // so was the whole reply, no vector in particular
	err    error         // for everybody who waits for the text
}

// takeoff is the failure of a flight whose leader did not get to it.
var takeoff = &failure{}

// flights are the texts in the air: at most one flight for a key, but for
// background ones that a client did not want to wait for.
type flights struct {
	cache *vectorcache.Cache // nil = none

	mu    sync.Mutex
	byKey map[vector.Key]*flight // guarded by mu
}

// enter gives every text of a that has no vector a flight: one in the air
// already, or one of a's own, which are returned. hits are texts that landed
// since a looked into the cache.
func (f *flights) enter(a *asking) (own []*flight, hits, joins int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range a.texts {
		t := &a.texts[i]
		if a.got[i].Vector != nil || t.flight != nil {
			continue
		}
		if there := f.byKey[a.keys[i]]; there != nil && there.takes(a.lane) {
			there.kept = there.kept || a.lane == admission.LaneClient
			there.waiters = append(there.waiters, a.notified)
			t.flight, t.source = there, sourceJoined
			joins++
			continue
		}
		// Whoever landed put it there before it left the table.
		if e, ok := f.peek(a.keys[i]); ok {
			a.got[i], t.source = e, sourceCached
			hits++
			continue
		}
		t.flight = &flight{
			key: a.keys[i], text: a.inputs[t.first], lane: a.lane, input: t.first, tokens: t.tokens,
			kept: a.lane == admission.LaneClient,
		}
		t.source = sourceOwn
		f.byKey[a.keys[i]] = t.flight
		own = append(own, t.flight)
	}
	return own, hits, joins
}

func (f *flights) peek(key vector.Key) (vector.Embedding, bool) {
	if f.cache == nil {
		return vector.Embedding{}, false
	}
	return f.cache.Peek(key)
}

// takes says whether a request of the lane may join. A client never waits for
// background work that itself waits until no client does.
func (f *flight) takes(lane admission.Lane) bool {
	return f.executing || f.lane == admission.LaneClient || lane == admission.LaneBackground
}

// launch marks the flights as executing, now that their leader has its permit,
// and returns those that still are its own: a client may have taken a
// background one over. The others end here.
func (f *flights) launch(own []*flight) []*flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(own, func(o *flight) bool {
		if f.byKey[o.key] != o {
			f.end(o, takeoff)
			return true
		}
		o.executing = true
		return false
	})
}

// urgent puts those flights first that others wait for, in order otherwise: a
// short request must not wait for all of a long one.
func (f *flights) urgent(own []*flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.SortStableFunc(own, func(a, b *flight) int {
		return min(len(b.waiters), 1) - min(len(a.waiters), 1)
	})
}

// wanted splits flights by whether anybody but the leader waits for them.
func (f *flights) wanted(own []*flight) (wanted, unwanted []*flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range own {
		if len(o.waiters) > 0 {
			wanted = append(wanted, o)
		} else {
			unwanted = append(unwanted, o)
		}
	}
	return wanted, unwanted
}

// land ends flights with valid vectors, for all who wait and for later.
func (f *flights) land(call []*flight, embeddings []vector.Embedding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, o := range call {
		o.embedding = embeddings[i]
		// What indexing alone asks for is kept in the index: it would push out
		// of the cache what clients ask for again.
		if f.cache != nil && o.kept {
			f.cache.Put(o.key, o.embedding)
		}
		f.end(o, nil)
	}
}

// fail ends flights without a vector; one that has ended stays as it is.
func (f *flights) fail(own []*flight, why *failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range own {
		f.end(o, why)
	}
}

// end needs the lock.
func (f *flights) end(o *flight, why *failure) {
	if o.ended {
		return
	}
	o.ended, o.failure = true, why
	if f.byKey[o.key] == o {
		delete(f.byKey, o.key)
	}
	for _, waiter := range o.waiters {
		select {
		case waiter <- struct{}{}:
		default: // it has not seen the last one yet, and will see both
		}
	}
	o.waiters = nil
}

// collect takes what has landed of a's flights, its own and those it joined. It
// returns how many are in the air, and how many texts a has to ask for again;
// or the error of one that is an error for a.
func (f *flights) collect(a *asking) (pending, again int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range a.texts {
		t := &a.texts[i]
		switch {
		case t.flight == nil:
		case a.got[i].Vector != nil:
			t.flight = nil // the cache was quicker
		case !t.flight.ended:
			pending++
		case t.flight.failure == nil:
			a.got[i], t.flight = t.flight.embedding, nil
		case t.flight.failure.err != nil:
			return 0, 0, t.flight.failure.err
		case t.flight.failure.reason != "":
			return 0, 0, a.invalid()
		default:
			t.flight, t.source = nil, sourceNone
			again++
		}
	}
	return pending, again, nil
}

// leave takes a out of the flights it joined: it will not wait for them.
func (f *flights) leave(a *asking) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range a.texts {
		t := &a.texts[i]
		if t.flight != nil && t.source == sourceJoined {
			t.flight.waiters = slices.DeleteFunc(t.flight.waiters, func(w chan<- struct{}) bool { return w == a.notified })
		}
		t.flight = nil
	}
}

// blame is asking.invalid under the lock.
func (f *flights) blame(a *asking) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return a.invalid()
}
