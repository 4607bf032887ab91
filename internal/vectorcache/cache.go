package vectorcache

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/ondol-app/ondol/internal/vector"
)

// The limits of the contract's cache, in bytes.
const (
	DefaultMemory = 64 << 20
	DefaultDisk   = 512 << 20
)

// Config of a Cache.
type Config struct {
	Memory int64 // bytes; 0 = DefaultMemory
	Store  Store // nil = memory alone
	Logger *slog.Logger
}

// Stats is the cache at one moment.
type Stats struct {
	Entries   int   // in memory
	Bytes     int64 // in memory
	DiskBytes int64 // 0 without a store
}

// Cache is the memory and the store below it. Its methods are safe for
// concurrent use.
type Cache struct {
	memory *memory
	disk   *disk // nil = none
}

// New makes an empty cache; what the store holds is looked up as it is needed.
func New(config Config) (*Cache, error) {
	if config.Memory == 0 {
		config.Memory = DefaultMemory
	}
	if config.Memory < 0 {
		return nil, fmt.Errorf("vector cache: memory of %d bytes, must be positive", config.Memory)
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Cache{memory: newMemory(config.Memory)}
	if config.Store != nil {
		c.disk = newDisk(config.Store, config.Logger)
	}
	return c, nil
}

// Run writes behind until ctx ends; then it writes what is left and closes the
// store.
func (c *Cache) Run(ctx context.Context) error {
	if c.disk == nil {
		<-ctx.Done()
		return nil
	}
	return c.disk.run(ctx)
}

// Close closes the store of a cache that is not run after all.
func (c *Cache) Close() error {
	if c.disk == nil {
		return nil
	}
	return c.disk.store.Close()
}

// Load fills in what is kept under keys: into[i] is for keys[i], and one that
// has a vector already is left alone. What is not there, or cannot be read,
// stays as it is.
func (c *Cache) Load(ctx context.Context, keys []vector.Key, into []vector.Embedding) {
	hour := hourOf(time.Now())
	var places []int
	var wanted []vector.Key
	for i, key := range keys {
		if into[i].Vector != nil {
			continue
		}
		if e, ok := c.get(key, hour); ok {
			into[i] = e
		} else if c.disk != nil && c.disk.mayHold(key) {
			places, wanted = append(places, i), append(wanted, key)
		}
	}
	if len(wanted) == 0 {
		return
	}
	c.disk.load(ctx, wanted, func(i int, e vector.Embedding) {
		into[places[i]] = e
		c.memory.put(wanted[i], e, hour)
		c.disk.use(wanted[i])
	})
}

// Peek is Load of one key from memory alone.
func (c *Cache) Peek(key vector.Key) (vector.Embedding, bool) {
	return c.get(key, hourOf(time.Now()))
}

func (c *Cache) get(key vector.Key, hour int64) (vector.Embedding, bool) {
	e, ok, stale := c.memory.get(key, hour)
	if stale && c.disk != nil {
		c.disk.use(key)
	}
	return e, ok
}

// Put keeps an embedding, which must be valid and never change; it takes the
// place of one of the same key. It returns at once.
func (c *Cache) Put(key vector.Key, e vector.Embedding) {
	c.memory.put(key, e, hourOf(time.Now()))
	if c.disk != nil {
		c.disk.save(key, e)
	}
}

// Stats describes the cache.
func (c *Cache) Stats() Stats {
	entries, bytes := c.memory.stats()
	stats := Stats{Entries: entries, Bytes: bytes}
	if c.disk != nil {
		stats.DiskBytes = c.disk.store.Bytes()
	}
	return stats
}

// hourOf is how finely the time of the last use is known: a text that is asked
// for all the time then costs the store one write in an hour.
func hourOf(t time.Time) int64 { return t.Unix() / 3600 }
