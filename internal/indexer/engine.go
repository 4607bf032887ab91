package indexer

import (
	"context"
	"sync"
	"time"
)

// Pauses while the engine cannot be had. EngineChanged ends them.
const (
	engineRetryMin = 500 * time.Millisecond
	engineRetryMax = 30 * time.Second
)

// engineGate is where workers wait while the engine cannot be had: with a
// back-off of their own, and all woken at once by changed.
type engineGate struct {
	mu    sync.Mutex
	news  chan struct{} // closed and replaced by changed
	pause time.Duration // the next one; 0 while the engine serves
}

func newEngineGate() *engineGate { return &engineGate{news: make(chan struct{})} }

// changed wakes everybody who waits and begins the back-off anew.
func (g *engineGate) changed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.news)
	g.news = make(chan struct{})
	g.pause = 0
}

// served notes that the engine answered.
func (g *engineGate) served() {
	g.mu.Lock()
	g.pause = 0
	g.mu.Unlock()
}

// waiting reports whether the engine could not be had when last asked.
func (g *engineGate) waiting() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pause > 0
}

// wait returns when the engine is worth another try, or the error of ctx.
func (g *engineGate) wait(ctx context.Context) error {
	g.mu.Lock()
	g.pause = min(max(2*g.pause, engineRetryMin), engineRetryMax)
	pause, news := g.pause, g.news
	g.mu.Unlock()
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-news:
	case <-t.C:
	}
	return nil
}
