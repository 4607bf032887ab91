package engines

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/ondol-app/ondol/internal/llamaserver"
)

// Place is where an engine keeps its socket, key and log. There are two, so
// that two engines never meet; they take turns.
type Place struct{ RunDir, LogDir string }

// member is one engine with its supervisor, from start to end.
type member struct {
	setup  Setup
	place  int // index of Config.Places
	server *llamaserver.Server
	cancel context.CancelFunc // ends Run; set when it was started

	uses int // guarded by Keeper.mu; borrowed and not given back

	// renamed is what the start that was running when it became live is called
	// from then on. Generations rise for whoever sees one live engine after
	// another, also when one comes back that was never ended.
	renamed atomic.Pointer[renaming]

	// restarts are the server's when it became live; the owner's alone.
	restarts int
}

// renaming gives a start of a server another generation.
type renaming struct{ inner, outer uint64 }

// rename has the start that runs now called generation.
func (m *member) rename(generation uint64) {
	m.renamed.Store(&renaming{inner: m.server.Snapshot().Generation, outer: generation})
}

// outer is what a generation of the server is called outside.
func (m *member) outer(generation uint64) uint64 {
	if r := m.renamed.Load(); r != nil && r.inner == generation {
		return r.outer
	}
	return generation
}

// inner is the server's own number of a generation. Under the old name a start
// is still known: who borrowed it then may give it up.
func (m *member) inner(generation uint64) uint64 {
	if r := m.renamed.Load(); r != nil && r.outer == generation {
		return r.inner
	}
	return generation
}

// current is the server's, as it is called outside.
func (m *member) current() (llamaserver.Instance, error) {
	instance, err := m.server.Current()
	instance.Generation = m.outer(instance.Generation)
	if away, ok := errors.AsType[*llamaserver.NotReadyError](err); ok && away.Asleep != nil {
		named, asleep := *away, *away.Asleep
		asleep.Generation = m.outer(asleep.Generation)
		named.Asleep = &asleep
		err = &named
	}
	return instance, err
}

func (m *member) snapshot() llamaserver.Status {
	status := m.server.Snapshot()
	status.Generation = m.outer(status.Generation)
	return status
}

// start runs the member's supervisor and tells the owner of every change and
// of the end.
func (o *owner) start(m *member) {
	ctx, cancel := context.WithCancel(context.Background()) // the owner decides when an engine ends
	m.cancel = cancel
	changed, unsubscribe := m.server.Changed()
	o.work.Go(func() {
		defer unsubscribe()
		for {
			select {
			case <-changed:
				o.keeper.poke()
			case <-ctx.Done():
				return
			}
		}
	})
	o.work.Go(func() {
		defer cancel()
		err := m.server.Run(ctx)
		o.post(message{gone: m, err: err})
	})
}

// failed is why the member does not serve as it should, nil when it may yet: a
// candidate gets one try, and a live one is judged from when it became live.
func (m *member) failed() *llamaserver.Problem {
	now := m.server.Snapshot()
	if now.State != llamaserver.Failed && now.Restarts <= m.restarts {
		return nil
	}
	if now.LastError != nil {
		return now.LastError
	}
	return &llamaserver.Problem{Code: llamaserver.CodeCrash, Message: "the engine was restarted"}
}

// exitWait is how long a call that failed may precede the exit that it failed by.
const exitWait = 2 * time.Second

// breaks says whether the engine ends by itself about now.
func (m *member) breaks(ctx context.Context) bool {
	changed, stop := m.server.Changed()
	defer stop()
	over := time.NewTimer(exitWait)
	defer over.Stop()
	for m.failed() == nil {
		select {
		case <-changed:
		case <-over.C:
			return false
		case <-ctx.Done():
			return true
		}
	}
	return true
}

func (m *member) ready() bool {
	_, err := m.server.Current()
	return err == nil
}
