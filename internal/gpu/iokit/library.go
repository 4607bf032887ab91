//go:build darwin || linux

package iokit

import (
	"bytes"
	"fmt"

	"github.com/ebitengine/purego"
)

type (
	ref    uintptr // CFTypeRef; 0 = none
	object uint32  // io_object_t; 0 = none
)

// Constants of CoreFoundation (CFString.h, CFNumber.h).
const (
	encodingUTF8 = 0x08000100
	sint64Type   = 4
)

// library is the functions used of CoreFoundation and IOKit.
type library struct {
	stringCreate  func(allocator uintptr, text string, encoding uint32) ref
	stringGet     func(s ref, buffer *byte, size int, encoding uint32) bool
	stringType    func() uint
	dictType      func() uint
	dictGet       func(d, key ref) ref
	arrayType     func() uint
	arrayCount    func(a ref) int
	arrayGet      func(a ref, i int) ref
	numberType    func() uint
	numberGet     func(n ref, kind int, out *int64) bool
	typeOf        func(ref) uint
	release       func(ref)
	matching      func(name string) ref
	services      func(port uint32, match ref, iterator *object) int32 // takes match over
	next          func(iterator object) object
	releaseObject func(object) int32
	property      func(entry object, key ref, allocator uintptr, options uint32) ref
	children      func(entry object, plane string, iterator *object) int32
	entryID       func(entry object, id *uint64) int32
}

// open binds the functions. A missing one is an error: purego's own
// RegisterLibFunc would panic.
func open(coreFoundation, ioKit string) (*library, error) {
	l := &library{}
	for _, part := range []struct {
		path  string
		names map[string]any
	}{
		{coreFoundation, map[string]any{
			"CFStringCreateWithCString": &l.stringCreate, "CFStringGetCString": &l.stringGet, "CFStringGetTypeID": &l.stringType,
			"CFDictionaryGetTypeID": &l.dictType, "CFDictionaryGetValue": &l.dictGet,
			"CFArrayGetTypeID": &l.arrayType, "CFArrayGetCount": &l.arrayCount, "CFArrayGetValueAtIndex": &l.arrayGet,
			"CFNumberGetTypeID": &l.numberType, "CFNumberGetValue": &l.numberGet, "CFGetTypeID": &l.typeOf, "CFRelease": &l.release,
		}},
		{ioKit, map[string]any{
			"IOServiceMatching": &l.matching, "IOServiceGetMatchingServices": &l.services,
			"IOIteratorNext": &l.next, "IOObjectRelease": &l.releaseObject,
			"IORegistryEntryCreateCFProperty": &l.property, "IORegistryEntryGetChildIterator": &l.children,
			"IORegistryEntryGetRegistryEntryID": &l.entryID,
		}},
	} {
		handle, err := purego.Dlopen(part.path, purego.RTLD_LAZY|purego.RTLD_GLOBAL)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", part.path, err)
		}
		for name, function := range part.names {
			symbol, err := purego.Dlsym(handle, name)
			if err != nil {
				return nil, fmt.Errorf("find %s: %w", name, err)
			}
			purego.RegisterFunc(function, symbol)
		}
	}
	return l, nil
}

// number reads a CFNumber; false for anything else. It takes nothing over.
func (l *library) number(r ref) (int64, bool) {
	if r == 0 || l.typeOf(r) != l.numberType() {
		return 0, false
	}
	var n int64
	ok := l.numberGet(r, sint64Type, &n)
	return n, ok
}

// text reads a CFString of less than 256 bytes; false for anything else. It
// takes nothing over.
func (l *library) text(r ref) (string, bool) {
	if r == 0 || l.typeOf(r) != l.stringType() {
		return "", false
	}
	var buffer [256]byte
	if !l.stringGet(r, &buffer[0], len(buffer), encodingUTF8) {
		return "", false
	}
	end := bytes.IndexByte(buffer[:], 0)
	if end < 0 {
		return "", false
	}
	return string(buffer[:end]), true
}

func (l *library) isDict(r ref) bool { return r != 0 && l.typeOf(r) == l.dictType() }

// each calls do with every object of an iterator, then releases them and it.
func (l *library) each(iterator object, do func(object)) {
	defer l.releaseObject(iterator)
	for o := l.next(iterator); o != 0; o = l.next(iterator) {
		do(o)
		l.releaseObject(o)
	}
}
