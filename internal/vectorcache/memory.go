package vectorcache

import (
	"container/list"
	"sync"

	"github.com/ondol-app/ondol/internal/vector"
)

// entryOverhead is about what an entry takes beside its components: the key
// twice, list element, map slot, slice header (see BenchmarkEntryOverhead).
const entryOverhead = 384

// memory is a map bounded by bytes that gives up what was used least recently.
type memory struct {
	limit int64 // bytes

	mu      sync.Mutex
	entries map[vector.Key]*list.Element // guarded by mu; of *entry
	order   *list.List                   // guarded by mu; the most recently used in front
	bytes   int64                        // guarded by mu; at most limit
}

type entry struct {
	key       vector.Key
	embedding vector.Embedding
	hour      int64 // in which its use was last told to the store
}

func (e *entry) size() int64 { return entryOverhead + 4*int64(cap(e.embedding.Vector)) }

func newMemory(limit int64) *memory {
	return &memory{limit: limit, entries: make(map[vector.Key]*list.Element), order: list.New()}
}

// get returns what is kept under key. stale says that this is the first use in
// this hour, which the store should know of.
func (m *memory) get(key vector.Key, hour int64) (found vector.Embedding, ok, stale bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	element := m.entries[key]
	if element == nil {
		return vector.Embedding{}, false, false
	}
	m.order.MoveToFront(element)
	e := element.Value.(*entry)
	stale = e.hour < hour
	e.hour = max(e.hour, hour)
	return e.embedding, true, stale
}

// put keeps an embedding, which takes the place of one of the same key.
func (m *memory) put(key vector.Key, embedding vector.Embedding, hour int64) {
	e := &entry{key: key, embedding: embedding, hour: hour}
	m.mu.Lock()
	defer m.mu.Unlock()
	if element := m.entries[key]; element != nil {
		m.drop(element)
	}
	if e.size() > m.limit {
		return
	}
	for m.bytes+e.size() > m.limit {
		m.drop(m.order.Back())
	}
	m.entries[key] = m.order.PushFront(e)
	m.bytes += e.size()
}

func (m *memory) drop(element *list.Element) {
	e := m.order.Remove(element).(*entry)
	delete(m.entries, e.key)
	m.bytes -= e.size()
}

func (m *memory) stats() (entries int, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entries), m.bytes
}
