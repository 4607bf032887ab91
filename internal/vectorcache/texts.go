package vectorcache

import (
	"encoding/binary"

	"github.com/ondol-app/ondol/internal/vector"
)

// texts knows for which texts the store has nothing, so that a new text, which
// is the usual one, costs no look-up on disk. It may take a text for a known
// one: the same text under another fingerprint, one that the store has given
// up since, or one in some ten thousand by chance. It never misses one.
//
// A text stands as the first four bytes of its hash, which makes some 10 bytes
// each: 1 MB for a full store of 1024 dimensions, 6 MB for one of 128.
type texts struct {
	known map[uint32]struct{} // nil = not read yet: everything may be there
	read  int                 // how many of them were in the store when it was read
}

func short(key vector.Key) uint32 { return binary.LittleEndian.Uint32(key.Text[:]) }

func (t *texts) mayHold(key vector.Key) bool {
	if t.known == nil {
		return true
	}
	_, ok := t.known[short(key)]
	return ok
}

func (t *texts) add(key vector.Key) {
	if t.known != nil {
		t.known[short(key)] = struct{}{}
	}
}

// fewUnread is how many additions a small store may have before it is read again.
const fewUnread = 4096

// stale says that most of what is known was added since the store was read, so
// that much of it may have been given up.
func (t *texts) stale() bool { return len(t.known) > 2*t.read+fewUnread }
