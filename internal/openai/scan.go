package openai

import (
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds how deep values may nest. Real requests stay below ten.
const maxDepth = 1000

// scanner reads JSON (RFC 8259) in place, value by value. A token-wise reader
// of encoding/json costs ten times as much, which a small request would feel.
// The data must be valid UTF-8 and is never changed.
type scanner struct {
	data []byte
	pos  int
}

// peek is the first byte of what comes next, blanks left out; 0 = the end.
func (s *scanner) peek() byte {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// take consumes c when it comes next.
func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.pos++
	return true
}

// unexpected is the error for what stands at pos.
func (s *scanner) unexpected(wanted string) error {
	if s.pos >= len(s.data) {
		return invalid("", CodeInvalidJSON, "the JSON body is empty or ends too early; send one complete object")
	}
	r, _ := utf8.DecodeRune(s.data[s.pos:])
	return invalid("", CodeInvalidJSON, fmt.Sprintf("the body is not valid JSON: %q where %s should be (near byte %d)", r, wanted, s.pos+1))
}

// members calls member for each name of an object, with the scanner before
// the value; member must read it. name is valid only during the call.
func (s *scanner) members(member func(name []byte) error) error {
	return s.list('{', '}', func() error {
		name, err := s.text()
		if err != nil {
			return err
		}
		if !s.take(':') {
			return s.unexpected("a colon")
		}
		return member(name)
	})
}

// list reads what stands between two brackets, separated by commas.
func (s *scanner) list(first, last byte, item func() error) error {
	if !s.take(first) {
		return s.unexpected(string(first))
	}
	if s.take(last) {
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		if s.take(last) {
			return nil
		}
		if !s.take(',') {
			return s.unexpected("a comma or " + string(last))
		}
	}
}

// skip reads one value of any kind.
func (s *scanner) skip(depth int) error {
	if depth > maxDepth {
		return invalid("", CodeInvalidJSON, fmt.Sprintf("the body nests to a depth of more than %d; flatten it", maxDepth))
	}
	switch c := s.peek(); c {
	case '{':
		return s.members(func([]byte) error { return s.skip(depth + 1) })
	case '[':
		return s.list('[', ']', func() error { return s.skip(depth + 1) })
	case '"':
		_, err := s.text()
		return err
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	default:
		_, err := s.number()
		return err
	}
}

func (s *scanner) word(w string) error {
	for i := range len(w) {
		if s.pos >= len(s.data) || s.data[s.pos] != w[i] {
			return s.unexpected("a value")
		}
		s.pos++
	}
	return nil
}

// number reads a number and returns it as it stands.
func (s *scanner) number() ([]byte, error) {
	s.peek()
	start := s.pos
	s.one('-')
	if !s.one('0') && s.digits() == 0 {
		return nil, s.unexpected("a value")
	}
	if s.one('.') && s.digits() == 0 {
		return nil, s.unexpected("a digit")
	}
	if s.one('e') || s.one('E') {
		if !s.one('+') {
			s.one('-')
		}
		if s.digits() == 0 {
			return nil, s.unexpected("a digit")
		}
	}
	return s.data[start:s.pos], nil
}

func (s *scanner) one(c byte) bool {
	if s.pos < len(s.data) && s.data[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

func (s *scanner) digits() int {
	start := s.pos
	for s.pos < len(s.data) && s.data[s.pos]-'0' <= 9 {
		s.pos++
	}
	return s.pos - start
}

// text reads a string. The result may be part of the data; whoever keeps it
// copies it.
func (s *scanner) text() ([]byte, error) {
	if !s.take('"') {
		return nil, s.unexpected("a string")
	}
	for i, c := range s.data[s.pos:] {
		if c == '"' {
			text := s.data[s.pos : s.pos+i]
			s.pos += i + 1
			return text, nil
		}
		if c == '\\' || c < ' ' {
			return s.escaped(i)
		}
	}
	s.pos = len(s.data)
	return nil, s.unexpected("")
}

// escaped is text for a string of which the first n bytes are plain.
func (s *scanner) escaped(n int) ([]byte, error) {
	text := make([]byte, n, n+64)
	copy(text, s.data[s.pos:])
	s.pos += n
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		switch {
		case c == '"':
			s.pos++
			return text, nil
		case c < ' ':
			return nil, s.unexpected("a string without control characters")
		case c != '\\':
			text = append(text, c)
			s.pos++
		default:
			s.pos++
			var err error
			if text, err = s.escape(text); err != nil {
				return nil, err
			}
		}
	}
	return nil, s.unexpected("")
}

// plainEscapes maps the letter after a backslash to its byte.
var plainEscapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape appends what the escape sequence after a backslash stands for. Half
// a surrogate pair becomes U+FFFD.
func (s *scanner) escape(text []byte) ([]byte, error) {
	if s.pos >= len(s.data) {
		return nil, s.unexpected("")
	}
	c := s.data[s.pos]
	if plain := plainEscapes[c]; plain != 0 {
		s.pos++
		return append(text, plain), nil
	}
	if c != 'u' {
		return nil, s.unexpected("an escape sequence")
	}
	s.pos++
	r, ok := s.hex4()
	if !ok {
		return nil, s.unexpected("four hexadecimal digits")
	}
	if utf16.IsSurrogate(r) {
		before := s.pos
		low := rune(utf8.RuneError)
		if s.one('\\') && s.one('u') {
			low, _ = s.hex4()
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			s.pos = before // what follows stands for itself
		}
	}
	return utf8.AppendRune(text, r), nil
}

func (s *scanner) hex4() (rune, bool) {
	var r rune
	for range 4 {
		if s.pos >= len(s.data) {
			return 0, false
		}
		c := s.data[s.pos]
		switch {
		case c-'0' <= 9:
			r = r<<4 | rune(c-'0')
		case c|0x20-'a' <= 5:
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
		s.pos++
	}
	return r, true
}
