package embedding

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// crew is who is at the engine just now. Calls usually share it; a call that
// must be alone, so that what comes of it is its own doing, waits until the
// others have left and keeps new ones out, first come first served.
type crew struct {
	places *semaphore.Weighted

	mu     sync.Mutex
	inside map[*visit]struct{} // guarded by mu
	begun  uint64              // guarded by mu; calls so far
}

// allPlaces is more than there are ever calls at once.
const allPlaces = 1 << 20

func newCrew() *crew {
	return &crew{places: semaphore.NewWeighted(allPlaces), inside: make(map[*visit]struct{})}
}

// visit is one call at the engine.
type visit struct {
	crew   *crew
	weight int64
	number uint64 // of the call; constant
	met    bool   // guarded by crew.mu; another call was there at the same time
}

// enter waits for a place: all of them when alone is set. The error is the
// cause of ctx's end.
func (c *crew) enter(ctx context.Context, alone bool) (*visit, error) {
	v := &visit{crew: c, weight: 1}
	if alone {
		v.weight = allPlaces
	}
	if c.places.Acquire(ctx, v.weight) != nil {
		return nil, context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun++
	v.number, v.met = c.begun, len(c.inside) > 0
	for other := range c.inside {
		other.met = true
	}
	c.inside[v] = struct{}{}
	return v, nil
}

// leave gives the place back.
func (v *visit) leave() {
	v.crew.mu.Lock()
	delete(v.crew.inside, v)
	v.crew.mu.Unlock()
	v.crew.places.Release(v.weight)
}

// company says whether any other call was at the engine while v was.
func (v *visit) company() bool {
	v.crew.mu.Lock()
	defer v.crew.mu.Unlock()
	return v.met
}

// metAny tells whether any other call was at the engine from the time v entered
// until next did, which came after v had left.
func (v *visit) metAny(next *visit) bool {
	v.crew.mu.Lock()
	defer v.crew.mu.Unlock()
	return v.met || next.number != v.number+1
}
