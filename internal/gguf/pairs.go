package gguf

// Types of values (enum gguf_type).
const (
	kindText = 8
	kindList = 9
)

// kinds are the value types of fixed size.
var kinds = map[uint32]struct {
	size   int  // bytes
	signed bool // a whole number with a sign
	float  bool
}{
	0: {size: 1}, 1: {size: 1, signed: true}, 2: {size: 2}, 3: {size: 2, signed: true}, 4: {size: 4}, 5: {size: 4, signed: true},
	6: {size: 4, float: true}, 7: {size: 1}, 10: {size: 8}, 11: {size: 8, signed: true}, 12: {size: 8, float: true},
}

// list is what is kept of an array.
type list struct {
	length  int
	numbers []int64 // nil when they are no whole numbers, or many
}

// pair reads one key and its value.
func (d *decoder) pair(h *Header) {
	key := d.name()
	kind := d.u32()
	if d.err != nil {
		return
	}
	if h.has(key) {
		d.damaged("the key %q stands twice", key) // llama.cpp refuses it too
		return
	}
	switch kind {
	case kindText:
		n := d.u64()
		if n > maxText { // of no use to anybody here
			d.skip(n)
			n = 0
		}
		h.texts[key] = d.keep(int(n))
	case kindList:
		h.lists[key] = d.list(key)
	default:
		if number, ok := d.number(kind); ok {
			h.numbers[key] = number
		}
	}
}

// number reads a value of fixed size. Floats are read and not told: nothing
// here is computed from one.
func (d *decoder) number(kind uint32) (int64, bool) {
	k, fixed := kinds[kind]
	if !fixed {
		d.damaged("a value of unknown type %d", kind)
		return 0, false
	}
	n := d.whole(k.size)
	if k.signed {
		unused := 64 - 8*k.size
		return int64(n<<unused) >> unused, !k.float
	}
	return int64(n), !k.float && int64(n) >= 0
}

// list reads an array. One of arrays is damage: llama.cpp takes none, and a
// file could nest them without end.
func (d *decoder) list(key string) list {
	kind, n := d.u32(), d.u64()
	k, fixed := kinds[kind]
	switch {
	case d.err != nil:
	case !fixed && kind != kindText:
		d.damaged("%s is a list of type %d", key, kind)
	case n > maxHeader: // every element has a byte
		d.damaged("%s is a list of %d elements", key, n)
	case kind == kindText:
		for i := uint64(0); i < n && d.err == nil; i++ {
			d.skip(d.u64())
		}
	case k.float || n > maxNumbers:
		d.skip(n * uint64(k.size))
	default:
		l := list{length: int(n)}
		d.kept += 8 * l.length
		for i := uint64(0); i < n && d.err == nil; i++ {
			number, _ := d.number(kind)
			l.numbers = append(l.numbers, number)
		}
		return l
	}
	return list{length: int(n)}
}
