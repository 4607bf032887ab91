package llamaclient

import (
	"bytes"

	"github.com/ondol-app/ondol/internal/vector"
)

// quickReply reads a reply as engines write it when they are asked for base64:
// once through, each vector decoded where it stands. It declines (false) at
// the first thing that is not plainly so (a member that it does not know or
// that stands twice, an escape, null, a fraction), so that exactReply decides:
// what it does not decline is what exactReply would have read.
func quickReply(body []byte, count int) (items []item, tokens int, ok bool) {
	q := quick{rest: body}
	items = make([]item, 0, min(count, 2048))
	q.object(func(name []byte) (member int) {
		switch string(name) {
		case "model":
			q.text()
			return 1
		case "object":
			q.text()
			return 2
		case "data":
			q.list(func() { items = append(items, q.item()) })
			return 4
		case "usage":
			tokens = q.usage()
			return 8
		}
		return 0
	})
	q.blank()
	return items, tokens, !q.odd && len(q.rest) == 0
}

func (q *quick) item() item {
	it := item{index: -1}
	q.object(func(name []byte) (member int) {
		switch string(name) {
		case "index":
			it.index = q.number()
			return 1
		case "embedding":
			it.values, it.err = vector.DecodeBase64(q.text())
			return 2
		case "object":
			q.text()
			return 4
		}
		return 0
	})
	return it
}

func (q *quick) usage() (tokens int) {
	q.object(func(name []byte) (member int) {
		switch string(name) {
		case "prompt_tokens":
			tokens = q.number()
			return 1
		case "total_tokens":
			q.number()
			return 2
		}
		return 0
	})
	return tokens
}

// quick reads JSON of few kinds. Once odd is set, nothing it says counts.
type quick struct {
	rest []byte
	odd  bool
}

func (q *quick) blank() {
	for len(q.rest) > 0 && (q.rest[0] == ' ' || q.rest[0] == '\n' || q.rest[0] == '\r' || q.rest[0] == '\t') {
		q.rest = q.rest[1:]
	}
}

// next consumes c when it comes next.
func (q *quick) next(c byte) bool {
	q.blank()
	if len(q.rest) == 0 || q.rest[0] != c {
		return false
	}
	q.rest = q.rest[1:]
	return true
}

// must is next for what has to come.
func (q *quick) must(c byte) {
	if !q.next(c) {
		q.odd = true
	}
}

// object has member read the value behind each name, and return a bit of its
// own for each it knows, 0 for others.
func (q *quick) object(member func(name []byte) int) {
	q.must('{')
	if q.next('}') {
		return
	}
	for seen := 0; !q.odd; {
		name := q.text()
		q.must(':')
		bit := member(name)
		if bit == 0 || seen&bit != 0 {
			q.odd = true
		}
		seen |= bit
		if q.next('}') {
			return
		}
		q.must(',')
	}
}

func (q *quick) list(value func()) {
	q.must('[')
	if q.next(']') {
		return
	}
	for !q.odd {
		value()
		if q.next(']') {
			return
		}
		q.must(',')
	}
}

// text reads a string without escapes, and returns it as it stands.
func (q *quick) text() []byte {
	q.must('"')
	end := bytes.IndexByte(q.rest, '"')
	if q.odd || end < 0 {
		q.odd = true
		return nil
	}
	text := q.rest[:end]
	q.rest = q.rest[end+1:]
	for _, c := range text {
		if c < ' ' || c == '\\' {
			q.odd = true
			return nil
		}
	}
	return text
}

// number reads a whole number of up to nine digits.
func (q *quick) number() (n int) {
	q.blank()
	digits := 0
	for digits < len(q.rest) && q.rest[digits]-'0' <= 9 {
		n = 10*n + int(q.rest[digits]-'0')
		if digits++; digits > 9 {
			break
		}
	}
	if digits == 0 || digits > 9 || digits > 1 && q.rest[0] == '0' {
		q.odd = true
	}
	q.rest = q.rest[digits:] // what no list or object can go on with is found there
	return n
}
