package sqlite_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/ondol-app/ondol/internal/sqlite"
	"github.com/ondol-app/ondol/internal/vector"
)

// cached is an embedding whose every bit depends on seed; its values need not
// be a valid vector, they only have to come back.
func cached(seed, dim int) vector.Embedding {
	e := vector.Embedding{Vector: make([]float32, dim), Tokens: seed, Counted: seed%2 == 0}
	for i := range e.Vector {
		e.Vector[i] = math.Float32frombits(uint32(seed*2654435761 + i*40503))
		if e.Vector[i] != e.Vector[i] {
			e.Vector[i] = float32(math.Copysign(0, -1))
		}
	}
	return e
}

func cacheKey(fingerprint string, n int) vector.Key {
	return vector.KeyOf(fingerprint, fmt.Sprint("text ", n))
}

func openCache(t *testing.T, path string, limit int64) *sqlite.VectorCache {
	t.Helper()
	c := must(sqlite.OpenVectorCache(t.Context(), sqlite.VectorCacheConfig{Path: path, MaxBytes: limit}))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// load is what the cache has under keys, by their places.
func load(t *testing.T, c *sqlite.VectorCache, keys ...vector.Key) map[int]vector.Embedding {
	t.Helper()
	found := make(map[int]vector.Embedding)
	check(t, c.Load(t.Context(), keys, func(i int, e vector.Embedding) { found[i] = e }))
	return found
}

func sameBits(a, b vector.Embedding) bool {
	return a.Tokens == b.Tokens && a.Counted == b.Counted && slices.EqualFunc(a.Vector, b.Vector, func(x, y float32) bool {
		return math.Float32bits(x) == math.Float32bits(y)
	})
}

func TestCacheKeepsEveryBit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "vectors.cache.db")
	c := openCache(t, path, 64<<20)
	entries := make(map[vector.Key]vector.Embedding)
	for i, dim := range []int{1, 128, 1024, 2560, 4096} {
		entries[cacheKey("f1", i)] = cached(i, dim)
	}
	entries[cacheKey("f2", 1)] = cached(77, 128)
	check(t, c.Save(t.Context(), entries, nil, 1))
	verify := func() {
		t.Helper()
		for key, want := range entries {
			got := load(t, c, key)
			if len(got) != 1 || !sameBits(got[0], want) {
				t.Errorf("%x under %s: %v", key.Text[:4], key.Fingerprint, got)
			}
		}
		// Never across fingerprints.
		if got := load(t, c, cacheKey("f2", 2), cacheKey("f3", 1), cacheKey("f2", 1), cacheKey("", 1)); len(got) != 1 || !sameBits(got[2], cached(77, 128)) {
			t.Errorf("across fingerprints: %v", got)
		}
	}
	verify()
	// An update takes the place of what was there.
	entries[cacheKey("f1", 2)] = cached(99, 1024)
	check(t, c.Save(t.Context(), entries, nil, 2))
	check(t, c.Close())
	if err := c.Load(t.Context(), []vector.Key{cacheKey("f1", 1)}, nil); err == nil {
		t.Error("read after Close")
	}
	c = openCache(t, path, 64<<20)
	verify()
	texts := make(map[[sha256.Size]byte]int)
	check(t, c.Texts(t.Context(), func(text [sha256.Size]byte) { texts[text]++ }))
	if len(texts) != 5 || texts[cacheKey("f1", 0).Text] != 1 || texts[cacheKey("f1", 1).Text] != 2 {
		t.Errorf("texts = %v", texts)
	}
	if info := must(os.Stat(path))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

// diskSize is what the cache's files take.
func diskSize(t *testing.T, path string) (total int64) {
	t.Helper()
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(path + suffix); err == nil {
			total += info.Size()
		}
	}
	return total
}

func TestCacheIsBounded(t *testing.T) {
	const limit = 4 << 20
	path := filepath.Join(t.TempDir(), "c.db")
	c := openCache(t, path, limit)
	favourite := cacheKey("f", 0)
	check(t, c.Save(t.Context(), map[vector.Key]vector.Embedding{favourite: cached(0, 1024)}, nil, 0))
	last := 0
	for hour := range int64(60) { // ten times the limit
		entries := make(map[vector.Key]vector.Embedding)
		for range 170 {
			last++
			entries[cacheKey("f", last)] = cached(last, 1024)
		}
		check(t, c.Save(t.Context(), entries, []vector.Key{favourite, cacheKey("f", -5)}, hour))
		// The log of one transaction comes on top until it is folded in.
		if size := diskSize(t, path); size > 2*limit || c.Bytes() > limit {
			t.Fatalf("hour %d: %d bytes on disk, it says %d", hour, size, c.Bytes())
		}
	}
	if got := load(t, c, favourite, cacheKey("f", 1), cacheKey("f", last)); len(got) != 2 || !sameBits(got[0], cached(0, 1024)) || !sameBits(got[2], cached(last, 1024)) {
		t.Errorf("kept %d of: the one in use, the oldest, the newest", len(got))
	}
	kept := 0
	for i := range last {
		kept += len(load(t, c, cacheKey("f", i+1)))
	}
	if most := limit / 4096; kept < most/2 || kept > most {
		t.Errorf("%d kept, the limit has room for about %d", kept, most)
	}
	// One that is too large by itself, and more at once than the limit takes.
	check(t, c.Save(t.Context(), map[vector.Key]vector.Embedding{cacheKey("f", -1): cached(1, 1<<20)}, nil, 61))
	if got := load(t, c, cacheKey("f", -1)); len(got) != 0 {
		t.Error("an entry larger than the limit was kept")
	}
	flood := make(map[vector.Key]vector.Embedding)
	for i := range 3000 {
		flood[cacheKey("flood", i)] = cached(i, 1024)
	}
	check(t, c.Save(t.Context(), flood, nil, 62))
	if c.Bytes() > limit {
		t.Errorf("after a flood: %d bytes", c.Bytes())
	}
	check(t, c.Close())
	if size := diskSize(t, path); size > limit {
		t.Errorf("closed: %d bytes on disk", size)
	}
	// A lower limit takes effect with the next write.
	c = openCache(t, path, limit/4)
	check(t, c.Save(t.Context(), map[vector.Key]vector.Embedding{cacheKey("f", -2): cached(2, 1024)}, nil, 63))
	check(t, c.Close())
	if size := diskSize(t, path); size > limit/4 {
		t.Errorf("under the lower limit: %d bytes on disk", size)
	}
}

func TestCacheBegunAnew(t *testing.T) {
	entries := map[vector.Key]vector.Embedding{}
	for i := range 200 {
		entries[cacheKey("f", i)] = cached(i, 256)
	}
	damage := map[string]func(t *testing.T, path string){
		"no database": func(t *testing.T, path string) {
			check(t, os.WriteFile(path, []byte("this is not a database at all"), 0o600))
		},
		"cut off": func(t *testing.T, path string) { check(t, os.Truncate(path, 40<<10)) },
		"empty":   func(t *testing.T, path string) { check(t, os.Truncate(path, 0)) },
		"a later version": func(t *testing.T, path string) {
			overwrite(t, path, 60, []byte{0, 0, 0, 9})
		},
		"noise in the middle": func(t *testing.T, path string) {
			for offset := int64(4096); offset < 200<<10; offset += 4096 {
				overwrite(t, path, offset, []byte("noise noise noise noise"))
			}
		},
		"gone": func(t *testing.T, path string) { check(t, os.Remove(path)) },
	}
	for name, spoil := range damage {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "c.db")
			c := openCache(t, path, 4<<20)
			check(t, c.Save(t.Context(), entries, nil, 1))
			check(t, c.Close())
			spoil(t, path)
			c = openCache(t, path, 4<<20)
			// Whatever it still gives is right; an error has it reset.
			err := c.Load(t.Context(), keysOf(entries), func(i int, e vector.Embedding) {
				if want := entries[keysOf(entries)[i]]; !sameBits(e, want) {
					t.Error("a wrong vector")
				}
			})
			if err != nil {
				check(t, c.Reset(t.Context()))
			}
			check(t, c.Save(t.Context(), entries, nil, 2))
			if got := load(t, c, keysOf(entries)...); len(got) != len(entries) {
				t.Errorf("%d of %d after the new beginning", len(got), len(entries))
			}
		})
	}
}

func overwrite(t *testing.T, path string, offset int64, with []byte) {
	t.Helper()
	f := must(os.OpenFile(path, os.O_RDWR, 0))(t)
	must(f.WriteAt(with, offset))(t)
	check(t, f.Close())
}

func keysOf(entries map[vector.Key]vector.Embedding) []vector.Key {
	keys := make([]vector.Key, 0, len(entries))
	for key := range entries {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, vector.Key.Compare)
	return keys
}

// Any one bit of the file may be wrong: never a wrong vector.
func TestCacheNeverBelievesAFlippedBit(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.db")
	c := openCache(t, path, 4<<20)
	entries := map[vector.Key]vector.Embedding{}
	for i := range 20 {
		entries[cacheKey("f", i)] = cached(i, 256)
	}
	check(t, c.Save(t.Context(), entries, nil, 1))
	check(t, c.Close())
	sound := must(os.ReadFile(path))(t)
	keys := keysOf(entries)
	refused := 0
	for n := range 100 {
		spoilt := slices.Clone(sound)
		spoilt[100+(n*7919)%(len(spoilt)-100)] ^= 1 << (n % 8)
		check(t, os.WriteFile(path, spoilt, 0o600))
		c := must(sqlite.OpenVectorCache(t.Context(), sqlite.VectorCacheConfig{Path: path, MaxBytes: 4 << 20}))(t)
		err := c.Load(t.Context(), keys, func(i int, e vector.Embedding) {
			if !sameBits(e, entries[keys[i]]) {
				t.Errorf("flip %d: a wrong vector", n)
			}
		})
		if err != nil {
			refused++
		}
		check(t, c.Close())
	}
	if refused == 0 {
		t.Error("no flip was noticed, so none hit a row")
	}
}

func TestCacheDeletedWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	c := openCache(t, path, 4<<20)
	one := map[vector.Key]vector.Embedding{cacheKey("f", 1): cached(1, 64)}
	check(t, c.Save(t.Context(), one, nil, 1))
	check(t, os.RemoveAll(filepath.Dir(path)))
	two := map[vector.Key]vector.Embedding{cacheKey("f", 2): cached(2, 64)}
	check(t, c.Save(t.Context(), two, nil, 1))
	if got := load(t, c, cacheKey("f", 1), cacheKey("f", 2)); len(got) != 1 || !sameBits(got[1], cached(2, 64)) {
		t.Errorf("after the deletion: %v", got)
	}
	if diskSize(t, path) == 0 {
		t.Error("nothing on disk")
	}
}

func TestCacheLeavesOthersFilesAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	check(t, must(sqlite.Open(path))(t).Close())
	before := must(os.ReadFile(path))(t)
	_, err := sqlite.OpenVectorCache(t.Context(), sqlite.VectorCacheConfig{Path: path, MaxBytes: 4 << 20})
	var foreign *sqlite.ForeignError
	if !errors.As(err, &foreign) {
		t.Errorf("error = %v, want *ForeignError", err)
	}
	if after := must(os.ReadFile(path))(t); !slices.Equal(before, after) {
		t.Error("it was changed")
	}
	folder := t.TempDir()
	if _, err := sqlite.OpenVectorCache(t.Context(), sqlite.VectorCacheConfig{Path: folder, MaxBytes: 4 << 20}); err == nil {
		t.Error("a folder was opened")
	}
	if _, err := os.Stat(folder); err != nil {
		t.Error("the folder is gone")
	}
	link := filepath.Join(t.TempDir(), "link.db")
	check(t, os.Symlink(path, link))
	if _, err := sqlite.OpenVectorCache(t.Context(), sqlite.VectorCacheConfig{Path: link, MaxBytes: 4 << 20}); err == nil {
		t.Error("a link was followed")
	}
	if _, err := sqlite.OpenVectorCache(t.Context(), sqlite.VectorCacheConfig{Path: filepath.Join(t.TempDir(), "c.db"), MaxBytes: 1000}); err == nil {
		t.Error("a limit too small for anything was accepted")
	}
}

// Readers go on while the file is written, reset and closed.
func TestCacheReadersAndWriter(t *testing.T) {
	c := openCache(t, filepath.Join(t.TempDir(), "c.db"), 4<<20)
	done, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := 0; done.Err() == nil; i++ {
				n := i % 300
				err := c.Load(done, []vector.Key{cacheKey("f", n)}, func(_ int, e vector.Embedding) {
					if !sameBits(e, cached(n, 256)) {
						t.Errorf("a wrong vector for %d", n)
					}
				})
				if err != nil && done.Err() == nil {
					t.Errorf("Load: %v", err)
					return
				}
			}
		})
	}
	for round := range 30 {
		entries := make(map[vector.Key]vector.Embedding)
		for i := range 100 {
			n := (round*37 + i) % 300
			entries[cacheKey("f", n)] = cached(n, 256)
		}
		check(t, c.Save(t.Context(), entries, nil, int64(round)))
		if round%10 == 9 {
			check(t, c.Reset(t.Context()))
		}
	}
	stop()
	wg.Wait()
	check(t, c.Close())
}

func BenchmarkCacheLoad(b *testing.B) {
	for _, dim := range []int{128, 1024, 2560} {
		b.Run(fmt.Sprint(dim), func(b *testing.B) {
			c, err := sqlite.OpenVectorCache(b.Context(), sqlite.VectorCacheConfig{Path: filepath.Join(b.TempDir(), "c.db"), MaxBytes: 64 << 20})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			entries := make(map[vector.Key]vector.Embedding)
			for i := range 1000 {
				entries[cacheKey("f", i)] = cached(i, dim)
			}
			if err := c.Save(b.Context(), entries, nil, 1); err != nil {
				b.Fatal(err)
			}
			for name, shift := range map[string]int{"hit": 0, "miss": 1000} {
				b.Run(name, func(b *testing.B) {
					b.ReportAllocs()
					for i := 0; b.Loop(); i++ {
						if err := c.Load(b.Context(), []vector.Key{cacheKey("f", i%1000+shift)}, func(int, vector.Embedding) {}); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		})
	}
}

// crashCacheEnv makes the test binary a writer of the cache that is killed.
const crashCacheEnv = "ONDOL_TEST_CRASH_CACHE"

func cacheForever(path string) error {
	c, err := sqlite.OpenVectorCache(context.Background(), sqlite.VectorCacheConfig{Path: path, MaxBytes: 2 << 20})
	if err != nil {
		return err
	}
	for hour := int64(0); ; hour++ {
		entries := make(map[vector.Key]vector.Embedding)
		for i := range 40 {
			n := int(hour)*7%500 + i
			entries[cacheKey("f", n)] = cached(n, 512)
		}
		if err := c.Save(context.Background(), entries, nil, hour); err != nil {
			return err
		}
		fmt.Println(hour)
	}
}

// A process that is killed in the middle of writing leaves right vectors only,
// and a cache that goes on.
func TestCacheKilledWhileWriting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	for round := range 6 {
		killAfter(t, crashCacheEnv, path, 5+round*13)
		c := must(sqlite.OpenVectorCache(t.Context(), sqlite.VectorCacheConfig{Path: path, MaxBytes: 2 << 20}))(t)
		right := 0
		for n := range 540 {
			for _, e := range load(t, c, cacheKey("f", n)) {
				right++
				if !sameBits(e, cached(n, 512)) {
					t.Errorf("round %d: a wrong vector for %d", round, n)
				}
			}
		}
		if right == 0 {
			t.Errorf("round %d: nothing survived", round)
		}
		check(t, c.Save(t.Context(), map[vector.Key]vector.Embedding{cacheKey("g", round): cached(round, 64)}, nil, 1<<20))
		check(t, c.Close())
	}
}

// A Save that fails changes nothing, and Reset brings the cache back.
func TestCacheOnAFullDisk(t *testing.T) {
	c := openCache(t, filepath.Join(t.TempDir(), "c.db"), 4<<20)
	one := map[vector.Key]vector.Embedding{cacheKey("f", 1): cached(1, 64)}
	check(t, c.Save(t.Context(), one, nil, 1))
	check(t, c.Full(t.Context()))
	two := map[vector.Key]vector.Embedding{}
	for i := range 400 {
		two[cacheKey("g", i)] = cached(i, 64)
	}
	if err := c.Save(t.Context(), two, nil, 1); err == nil {
		t.Fatal("saved on a full disk")
	}
	if got := load(t, c, cacheKey("f", 1)); len(got) != 1 {
		t.Error("what was there before is gone")
	}
	if got := load(t, c, keysOf(two)...); len(got) != 0 {
		t.Errorf("%d of a Save that failed are there", len(got))
	}
	check(t, c.Reset(t.Context()))
	check(t, c.Save(t.Context(), two, nil, 1))
	if got := load(t, c, keysOf(two)...); len(got) != len(two) {
		t.Errorf("%d of %d after Reset", len(got), len(two))
	}
}
