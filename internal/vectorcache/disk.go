package vectorcache

import (
	"context"
	"crypto/sha256"
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
	// Texts calls each for every text that something is stored for, under
	// whatever fingerprint.
	Texts(ctx context.Context, each func(text [sha256.Size]byte)) error
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
	// linger lets writes gather, so that a transaction is paid for by many
	// requests and begins after them, not beside them. What gathers is lost
	// when the process is killed: it would be computed again.
	linger = 2 * time.Second
	// maxPending bounds what waits to be written, in bytes. Half of it is
	// written without lingering.
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
	hurry  chan struct{} // 1-buffered: there is much to write, or something to mend
	broken atomic.Bool   // the store failed: nobody reads it until run has mended it
	epoch  atomic.Int64  // how often it was begun anew

	mu      sync.Mutex
	entries map[vector.Key]vector.Embedding // guarded by mu; waiting to be written
	bytes   int64                           // guarded by mu; of entries, at most maxPending
	used    map[vector.Key]struct{}         // guarded by mu; at most maxUsed
	failure error                           // guarded by mu; the first since broken was set
	texts   texts                           // guarded by mu; of everything that is stored

	// Only run touches these.
	mended time.Time // when the store was begun anew last
	said   bool      // the trouble is in the log already
}

func newDisk(store Store, logger *slog.Logger) *disk {
	return &disk{
		store: store, logger: logger, kick: make(chan struct{}, 1), hurry: make(chan struct{}, 1),
		entries: make(map[vector.Key]vector.Embedding), used: make(map[vector.Key]struct{}),
	}
}

// wake sends a signal; one that is pending already will see this as well.
func wake(signal chan<- struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// mayHold says whether the store may have something under key; if not, a
// look-up would be in vain.
func (d *disk) mayHold(key vector.Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.texts.mayHold(key)
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
		wake(d.kick)
		wake(d.hurry)
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
	wake(d.kick)
	if d.bytes > maxPending/2 {
		wake(d.hurry)
	}
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
		wake(d.kick)
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
	d.learn(ctx)
	for {
		select {
		case <-ctx.Done():
			d.write(last)
			d.broken.Store(true) // whoever still comes finds it closed
			return d.store.Close()
		case <-d.kick:
		}
		if !d.broken.Load() {
			d.pause(ctx, linger, d.hurry)
		}
		if d.broken.Load() {
			d.pause(ctx, d.mend(last), nil)
		} else {
			d.write(last)
		}
	}
}

// pause ends with the time, with the signal, or with ctx.
func (d *disk) pause(ctx context.Context, most time.Duration, signal <-chan struct{}) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-signal:
	case <-timer.C:
	}
}

// learn reads what the store has, while nothing is written to it.
func (d *disk) learn(ctx context.Context) {
	if d.broken.Load() {
		return
	}
	epoch := d.epoch.Load()
	read := texts{known: make(map[uint32]struct{})}
	err := d.store.Texts(ctx, func(text [sha256.Size]byte) { read.add(vector.Key{Text: text}) })
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		d.fail(epoch, err)
		return
	}
	read.read = len(read.known)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.texts = read
}

// announce makes entries known before they are stored.
func (d *disk) announce(ctx context.Context, entries map[vector.Key]vector.Embedding) {
	d.mu.Lock()
	stale := d.texts.stale()
	d.mu.Unlock()
	if stale {
		d.learn(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for key := range entries {
		d.texts.add(key)
	}
}

// write writes the queue.
func (d *disk) write(ctx context.Context) {
	entries, used := d.take()
	if d.broken.Load() || len(entries)+len(used) == 0 {
		return
	}
	d.announce(ctx, entries)
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
		wake(d.kick) // come back then
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
		wake(d.kick)
		return rest
	}
	d.mu.Lock()
	d.epoch.Add(1)
	d.texts = texts{known: make(map[uint32]struct{})}
	d.broken.Store(false)
	d.mu.Unlock()
	return 0
}
