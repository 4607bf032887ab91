package vectorcache

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ondol-app/ondol/internal/vector"
)

// Store is the disk. Load is called from many goroutines at once, the others
// from one. An error of Load or Save, unless their context has ended, means
// that nothing in the store should be believed or kept.
type Store interface {
	// Load calls found with the place in keys and what is stored under it.
	Load(ctx context.Context, keys []vector.Key, found func(i int, e vector.Embedding)) error
	// Save stores entries and notes that used were asked for in this hour
	// (since 1970); it makes room for them.
	Save(ctx context.Context, entries map[vector.Key]vector.Embedding, used []vector.Key, hour int64) error
	// Reset empties the store, whatever state it is in, and begins anew.
	Reset(ctx context.Context) error
	// Bytes is what it takes on disk.
	Bytes() int64
	Close() error
}

const (
	// linger lets writes gather: one transaction for all of a large request.
	linger = 200 * time.Millisecond
	// maxPending bounds what waits to be written, in bytes.
	maxPending = 16 << 20
	// maxUsed bounds the notes of use that wait to be written.
	maxUsed = 4096
	// rest is how long a store that failed twice is left alone.
	rest = 10 * time.Minute
	// closing is how long the last write may take.
	closing = 3 * time.Second
)

// disk writes behind and keeps a failing store away from everybody.
type disk struct {
	store  Store
	logger *slog.Logger
	kick   chan struct{} // 1-buffered: there is something to do
	broken atomic.Bool   // the store failed: nobody reads it until run has mended it
	epoch  atomic.Int64  // how often it was begun anew

	mu      sync.Mutex
	entries map[vector.Key]vector.Embedding // guarded by mu; waiting to be written
	bytes   int64                           // guarded by mu; of entries, at most maxPending
	used    map[vector.Key]struct{}         // guarded by mu; at most maxUsed
	failure error                           // guarded by mu; the first since broken was set

	// Only run touches these.
	mended time.Time // when the store was begun anew last
	said   bool      // the trouble is in the log already
}

func newDisk(store Store, logger *slog.Logger) *disk {
	return &disk{
		store: store, logger: logger, kick: make(chan struct{}, 1),
		entries: make(map[vector.Key]vector.Embedding), used: make(map[vector.Key]struct{}),
	}
}

func (d *disk) wake() {
	select {
	case d.kick <- struct{}{}:
	default: // one is pending already, which sees this as well
	}
}

// load reads what it can.
func (d *disk) load(ctx context.Context, keys []vector.Key, found func(int, vector.Embedding)) {
	if d.broken.Load() {
		return
	}
	epoch := d.epoch.Load()
	if err := d.store.Load(ctx, keys, found); err != nil && ctx.Err() == nil {
		d.fail(epoch, err)
	}
}

// fail takes the store out of use and has run mend it, unless that has been
// done since the epoch in which it failed.
func (d *disk) fail(epoch int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.epoch.Load() == epoch && !d.broken.Swap(true) {
		d.failure = err
		d.wake()
	}
}

// save queues an entry, or leaves it to the memory when the queue is full.
func (d *disk) save(key vector.Key, e vector.Embedding) {
	if d.broken.Load() {
		return
	}
	size := entryOverhead + 4*int64(len(e.Vector))
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.entries[key]; !ok {
		if d.bytes+size > maxPending {
			return
		}
		d.bytes += size
	}
	d.entries[key] = e
	d.wake()
}

// use queues a note that key was asked for.
func (d *disk) use(key vector.Key) {
	if d.broken.Load() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.used) < maxUsed {
		d.used[key] = struct{}{}
		d.wake()
	}
}

// take empties the queue.
func (d *disk) take() (entries map[vector.Key]vector.Embedding, used []vector.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	entries = d.entries
	for key := range d.used {
		if _, ok := entries[key]; !ok {
			used = append(used, key)
		}
	}
	d.entries, d.bytes = make(map[vector.Key]vector.Embedding), 0
	clear(d.used)
	return entries, used
}

// run owns the writes to the store until ctx ends.
func (d *disk) run(ctx context.Context) error {
	// A write under way when ctx ends is not lost, unless the disk hangs.
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(closing, cancel) })()
	for {
		select {
		case <-ctx.Done():
			d.write(last)
			d.broken.Store(true) // whoever still comes finds it closed
			return d.store.Close()
		case <-d.kick:
		}
		pause := linger
		if d.broken.Load() {
			pause = d.mend(last)
		} else {
			d.write(last)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// write writes the queue.
func (d *disk) write(ctx context.Context) {
	entries, used := d.take()
	if d.broken.Load() || len(entries)+len(used) == 0 {
		return
	}
	err := d.store.Save(ctx, entries, used, hourOf(time.Now()))
	switch {
	case err == nil && time.Since(d.mended) > rest:
		d.said = false // the next trouble is another one
	case err != nil && ctx.Err() == nil:
		d.fail(d.epoch.Load(), err)
	}
}

// mend begins the store anew, unless that was of no use a moment ago. It
// returns how long to wait before anything else is tried.
func (d *disk) mend(ctx context.Context) time.Duration {
	if since := time.Since(d.mended); since < rest {
		d.wake() // come back then
		return rest - since
	}
	d.mu.Lock()
	failure := d.failure
	d.mu.Unlock()
	if !d.said {
		d.said = true
		d.logger.Warn("The vector cache on disk failed and is begun anew", slog.Any("error", failure))
	}
	d.mended = time.Now()
	if err := d.store.Reset(ctx); err != nil {
		d.logger.Debug("Begin the vector cache anew", slog.Any("error", err))
		d.wake()
		return rest
	}
	d.mu.Lock()
	d.epoch.Add(1)
	d.broken.Store(false)
	d.mu.Unlock()
	return 0
}
