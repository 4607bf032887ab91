package vectorcache_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ondol-app/ondol/internal/sqlite"
	"github.com/ondol-app/ondol/internal/vector"
	"github.com/ondol-app/ondol/internal/vectorcache"
)

// settled is longer than writes gather.
const settled = 3 * time.Second

func key(n int) vector.Key { return vector.KeyOf("f", fmt.Sprint(n)) }

func embedding(n, dim int) vector.Embedding {
	e := vector.Embedding{Vector: make([]float32, dim), Tokens: n, Counted: true}
	for i := range e.Vector {
		e.Vector[i] = float32(n*1000 + i)
	}
	return e
}

func same(a, b vector.Embedding) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

func get(c *vectorcache.Cache, k vector.Key) vector.Embedding {
	into := make([]vector.Embedding, 1)
	c.Load(context.Background(), []vector.Key{k}, into)
	return into[0]
}

func newCache(t testing.TB, config vectorcache.Config) *vectorcache.Cache {
	t.Helper()
	c, err := vectorcache.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// start runs the cache; stop ends it and waits.
func start(t testing.TB, c *vectorcache.Cache) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func TestMemoryIsBoundedAndLeastRecentlyUsedGoesFirst(t *testing.T) {
	const limit = 100 << 10
	c := newCache(t, vectorcache.Config{Memory: limit})
	for i := range 1000 {
		c.Put(key(i), embedding(i, 256))
		if e, ok := c.Peek(key(0)); !ok || !same(e, embedding(0, 256)) {
			t.Fatalf("after %d: the one in use is gone", i)
		}
		if stats := c.Stats(); stats.Bytes > limit || int64(stats.Entries)*4*256 > stats.Bytes {
			t.Fatalf("after %d: %+v", i, stats)
		}
	}
	entries := c.Stats().Entries
	if entries < 40 {
		t.Errorf("%d entries of about 1.4 KB in 100 KB", entries)
	}
	for i := 1; i < 1000; i++ {
		_, ok := c.Peek(key(i))
		if want := i > 1000-entries; ok != want {
			t.Errorf("%d of 1000, with room for %d: kept = %v", i, entries, ok)
		}
	}
	// The same key again takes no more room; one above the limit none at all.
	before := c.Stats()
	c.Put(key(999), embedding(7, 256))
	if after := c.Stats(); after != before || !same(get(c, key(999)), embedding(7, 256)) {
		t.Errorf("%+v, then %+v", before, after)
	}
	c.Put(key(5000), embedding(1, limit))
	if after := c.Stats(); after != before {
		t.Errorf("%+v, then %+v", before, after)
	}
	if _, err := vectorcache.New(vectorcache.Config{Memory: -1}); err == nil {
		t.Error("a negative limit was accepted")
	}
}

func TestLoadFillsGapsOnly(t *testing.T) {
	c := newCache(t, vectorcache.Config{})
	c.Put(key(1), embedding(1, 4))
	c.Put(key(2), embedding(2, 4))
	mine := embedding(99, 4)
	into := []vector.Embedding{{}, mine, {}}
	c.Load(t.Context(), []vector.Key{key(1), key(2), key(3)}, into)
	if !same(into[0], embedding(1, 4)) || !same(into[1], mine) || into[2].Vector != nil {
		t.Errorf("got %v", into)
	}
}

func openStore(t testing.TB, path string) *sqlite.VectorCache {
	t.Helper()
	store, err := sqlite.OpenVectorCache(context.Background(), sqlite.VectorCacheConfig{Path: path, MaxBytes: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// What one process put is there, to the bit, for the next.
func TestSurvivesARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vectors.cache.db")
	c := newCache(t, vectorcache.Config{Store: openStore(t, path)})
	stop := start(t, c)
	for i := range 300 {
		c.Put(key(i), embedding(i, 128))
	}
	stop()
	// A memory too small for all: most come from the disk each time.
	c = newCache(t, vectorcache.Config{Memory: 10 << 10, Store: openStore(t, path)})
	stop = start(t, c)
	defer stop()
	keys := make([]vector.Key, 300)
	for i := range keys {
		keys[i] = key(i)
	}
	for range 2 {
		into := make([]vector.Embedding, len(keys))
		c.Load(t.Context(), keys, into)
		for i, e := range into {
			if !same(e, embedding(i, 128)) {
				t.Fatalf("%d: %v", i, e)
			}
		}
	}
	if stats := c.Stats(); stats.DiskBytes < 300*128*4 || stats.Bytes > 10<<10 {
		t.Errorf("stats = %+v", stats)
	}
}

// faultyStore is a store in memory that fails on demand.
type faultyStore struct {
	mu      sync.Mutex
	entries map[vector.Key]vector.Embedding
	used    map[vector.Key]int64
	fail    error
	stall   chan struct{} // not nil: Save waits for it
	saves   int
	resets  int
	loads   int // keys that were looked up
	reads   int // calls of Texts
	closed  bool
}

func newFaulty() *faultyStore {
	return &faultyStore{entries: make(map[vector.Key]vector.Embedding), used: make(map[vector.Key]int64)}
}

func (s *faultyStore) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

func (s *faultyStore) Texts(_ context.Context, each func([sha256.Size]byte)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	for k := range s.entries {
		each(k.Text)
	}
	return s.fail
}

func (s *faultyStore) Load(_ context.Context, keys []vector.Key, found func(int, vector.Embedding)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loads += len(keys)
	if s.fail != nil {
		return s.fail
	}
	for i, k := range keys {
		if e, ok := s.entries[k]; ok {
			found(i, e)
		}
	}
	return nil
}

func (s *faultyStore) Save(_ context.Context, entries map[vector.Key]vector.Embedding, used []vector.Key, hour int64) error {
	if s.stall != nil {
		<-s.stall
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saves++
	if s.fail != nil {
		return s.fail
	}
	for k, e := range entries {
		s.entries[k] = e
		s.used[k] = hour
	}
	for _, k := range used {
		s.used[k] = hour
	}
	return nil
}

func (s *faultyStore) Reset(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resets++
	clear(s.entries)
	return s.fail
}

func (s *faultyStore) Bytes() int64 { return 0 }

func (s *faultyStore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// stored is what it has under k, and the hour of its last use.
func (s *faultyStore) stored(k vector.Key) (vector.Embedding, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[k], s.used[k]
}

func (s *faultyStore) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries)
}

func (s *faultyStore) empty() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.entries)
}

func (s *faultyStore) asked() (loads, reads int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loads, s.reads
}

func (s *faultyStore) count() (saves, resets int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saves, s.resets
}

// Whatever the store does, memory serves; the store is begun anew once, then
// left alone for a while, and the log says it once.
func TestFailingStore(t *testing.T) {
	for name, trigger := range map[string]func(*vectorcache.Cache){
		"reading": func(c *vectorcache.Cache) { get(c, key(-1)) },
		"writing": func(c *vectorcache.Cache) { c.Put(key(-2), embedding(3, 4)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				var log bytes.Buffer
				c := newCache(t, vectorcache.Config{ // room for two
					Memory: 900, Store: store, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				stop := start(t, c)
				for _, i := range []int{-1, 0, 1} { // -1 is on disk alone
					c.Put(key(i), embedding(i, 4))
				}
				time.Sleep(settled)
				store.set(errors.New("disk on fire"))
				for i := range 3600 { // one hour
					trigger(c)
					if !same(get(c, key(1)), embedding(1, 4)) {
						t.Fatalf("second %d: memory does not serve", i)
					}
					time.Sleep(time.Second)
				}
				if saves, resets := store.count(); resets < 2 || resets > 7 || saves > 10 {
					t.Errorf("%d resets and %d saves in an hour of trouble", resets, saves)
				}
				synctest.Wait()
				if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "disk on fire") {
					t.Errorf("%d lines in the log:\n%s", n, log.String())
				}
				store.set(nil)
				time.Sleep(30 * time.Minute)
				for _, i := range []int{-1, 1, 2} {
					c.Put(key(i), embedding(i, 4))
				}
				time.Sleep(settled)
				if got, _ := store.stored(key(2)); !same(got, embedding(2, 4)) {
					t.Error("it is not written to again")
				}
				store.set(errors.New("again"))
				trigger(c)
				time.Sleep(settled)
				synctest.Wait()
				if n := strings.Count(log.String(), "\n"); n != 2 {
					t.Errorf("%d lines after another trouble:\n%s", n, log.String())
				}
				stop()
				if !store.closed {
					t.Error("not closed")
				}
			})
		})
	}
}

// A disk that hangs holds nobody up and takes no memory without bound.
func TestPutNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.stall = make(chan struct{})
		c := newCache(t, vectorcache.Config{Store: store})
		stop := start(t, c)
		c.Put(key(0), embedding(0, 4))
		time.Sleep(settled) // the writer hangs
		began := time.Now()
		const dim = 4096
		for i := 1; i < 3000; i++ { // 48 MB
			c.Put(key(i), embedding(i, dim))
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("waited %v", took)
		}
		close(store.stall)
		time.Sleep(settled)
		if n := store.size(); n < 500 || n > 16<<20/(4*dim)+1 {
			t.Errorf("%d of 3000 were queued for the disk", n)
		}
		stop()
	})
}

// Whoever damages the file under a running cache costs it what was in the
// file, and nobody a wrong vector.
func TestFileDamagedWhileRunning(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	var log bytes.Buffer
	c := newCache(t, vectorcache.Config{Memory: 20_000, Store: openStore(t, path), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	stop := start(t, c)
	for i := range 2000 { // more than SQLite keeps in its own memory
		c.Put(key(i), embedding(i, 1024))
	}
	eventually(t, "all is written", func() bool { return c.Stats().DiskBytes > 2000*4*1024 })
	raw, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path+"-wal", 0); err != nil {
		t.Fatal(err)
	}
	noise := bytes.Repeat([]byte("noise"), 100)
	size := c.Stats().DiskBytes
	for offset := int64(4096); offset < size; offset += 4096 {
		if _, err := raw.WriteAt(noise, offset); err != nil {
			t.Fatal(err)
		}
	}
	raw.Close()
	eventually(t, "the cache is begun anew and written to", func() bool {
		for i := range 2000 {
			if e := get(c, key(i)); e.Vector != nil && !same(e, embedding(i, 1024)) {
				t.Fatalf("a wrong vector for %d", i)
			}
		}
		c.Put(key(5000), embedding(5000, 1024))
		for i := range 10 { // out of memory, so that it must come from the file
			c.Put(key(6000+i), embedding(6000+i, 1024))
		}
		return same(get(c, key(5000)), embedding(5000, 1024)) && get(c, key(1500)).Vector == nil
	})
	stop()
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("%d lines in the log:\n%s", n, log.String())
	}
}

// eventually polls for what a real disk does in its own time.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not within a minute: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Uses are told to the store once an hour, with memory hits as well.
func TestUseReachesTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		c := newCache(t, vectorcache.Config{Store: store})
		stop := start(t, c)
		c.Put(key(1), embedding(1, 4))
		time.Sleep(settled)
		_, put := store.stored(key(1))
		saves, _ := store.count()
		for range 100 {
			get(c, key(1))
		}
		time.Sleep(settled)
		if again, _ := store.count(); again != saves {
			t.Errorf("%d writes for uses within the hour", again-saves)
		}
		time.Sleep(5 * time.Hour)
		for range 100 {
			get(c, key(1))
		}
		time.Sleep(settled)
		again, _ := store.count()
		if _, used := store.stored(key(1)); again != saves+1 || used != put+5 {
			t.Errorf("%d writes, used in hour %d, put in %d", again-saves, used, put)
		}
		stop()
	})
}

// What was never stored is not looked for on disk, and everything that was is
// found, also by a process that comes later.
func TestNewTextsAreNotLookedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		for i := range 100 {
			store.entries[key(i)] = embedding(i, 4)
		}
		c := newCache(t, vectorcache.Config{Memory: 10 << 10, Store: store})
		if loads, _ := store.asked(); !same(get(c, key(99)), embedding(99, 4)) || loads != 0 {
			t.Fatalf("%d look-ups, and none for what is stored", loads)
		}
		stop := start(t, c)
		defer stop()
		synctest.Wait()
		for i := 1000; i < 2000; i++ {
			if get(c, key(i)).Vector != nil {
				t.Fatalf("%d was never put", i)
			}
			c.Put(key(i), embedding(i, 4))
		}
		if loads, _ := store.asked(); loads != 1 {
			t.Errorf("%d look-ups for 1000 new texts", loads-1)
		}
		time.Sleep(settled)
		for i := range 100 {
			if !same(get(c, key(i)), embedding(i, 4)) || !same(get(c, key(1000+i)), embedding(1000+i, 4)) {
				t.Fatalf("%d is not found on disk", i)
			}
		}
		other := vector.KeyOf("g", "1")
		if get(c, other).Vector != nil {
			t.Error("a vector of another fingerprint")
		}
	})
}

// A store that gives up what is old is read again now and then, or all that
// was ever in it would be remembered.
func TestForgottenTextsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		c := newCache(t, vectorcache.Config{Memory: 1 << 10, Store: store})
		stop := start(t, c)
		defer stop()
		for i := range 30_000 {
			c.Put(key(i), embedding(i, 4))
			if i%1000 == 0 {
				time.Sleep(settled)
				store.empty()
			}
		}
		time.Sleep(settled)
		before, reads := store.asked()
		if reads < 4 || reads > 10 {
			t.Errorf("read %d times for 30000 entries of which few are left", reads)
		}
		for i := range 20_000 {
			get(c, key(i))
		}
		if after, _ := store.asked(); after-before > 6000 {
			t.Errorf("%d of 20000 texts that are gone were looked for", after-before)
		}
	})
}

// Much is written sooner, so that the queue takes all of a burst.
func TestMuchDoesNotLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		c := newCache(t, vectorcache.Config{Store: store})
		stop := start(t, c)
		defer stop()
		const dim = 4096
		for i := range 3000 { // 48 MB in 1.5 seconds
			c.Put(key(i), embedding(i, dim))
			time.Sleep(time.Millisecond / 2)
		}
		time.Sleep(settled)
		if n := store.size(); n != 3000 {
			t.Errorf("%d of 3000 were written", n)
		}
	})
}

// Run writes what is left before it closes the store.
func TestRunWritesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		c := newCache(t, vectorcache.Config{Store: store})
		stop := start(t, c)
		c.Put(key(1), embedding(1, 4))
		time.Sleep(settled)
		c.Put(key(2), embedding(2, 4)) // it has not lingered yet
		stop()
		if len(store.entries) != 2 || !store.closed {
			t.Errorf("%d written, closed %v", len(store.entries), store.closed)
		}
		if e := get(c, key(1)); !same(e, embedding(1, 4)) {
			t.Error("memory does not serve after Run")
		}
	})
}

func BenchmarkHit(b *testing.B) {
	c := newCache(b, vectorcache.Config{})
	for i := range 1000 {
		c.Put(key(i), embedding(i, 1024))
	}
	keys := []vector.Key{key(500)}
	b.ReportAllocs()
	for b.Loop() {
		into := [1]vector.Embedding{}
		c.Load(b.Context(), keys, into[:])
		if into[0].Vector == nil {
			b.Fatal("missed")
		}
	}
}

// What an entry takes beside its components, as the memory limit counts it.
func BenchmarkEntryOverhead(b *testing.B) {
	c := newCache(b, vectorcache.Config{Memory: 1 << 40})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c.Put(key(i), vector.Embedding{})
	}
}
