package power

import (
	"errors"
	"fmt"
	"sync"

	"github.com/ebitengine/purego"
)

const (
	ioKit          = "/System/Library/Frameworks/IOKit.framework/IOKit"
	coreFoundation = "/System/Library/Frameworks/CoreFoundation.framework/CoreFoundation"
	utf8           = 0x08000100 // kCFStringEncodingUTF8
)

// frameworks are the functions of macOS that are needed here, found once.
var frameworks = sync.OnceValues(func() (f struct {
	copySources func() uintptr                                                        // IOPSCopyPowerSourcesInfo; to be released
	providing   func(sources uintptr) uintptr                                         // IOPSGetProvidingPowerSourceType; not to be released
	text        func(text uintptr, into *byte, length int, encoding uint32) (ok bool) // CFStringGetCString
	release     func(uintptr)                                                         // CFRelease
}, err error) {
	for _, need := range []struct {
		library, name string
		into          any
	}{
		{ioKit, "IOPSCopyPowerSourcesInfo", &f.copySources},
		{ioKit, "IOPSGetProvidingPowerSourceType", &f.providing},
		{coreFoundation, "CFStringGetCString", &f.text},
		{coreFoundation, "CFRelease", &f.release},
	} {
		library, err := purego.Dlopen(need.library, purego.RTLD_LAZY|purego.RTLD_GLOBAL)
		if err != nil {
			return f, fmt.Errorf("open %s: %w", need.library, err)
		}
		symbol, err := purego.Dlsym(library, need.name)
		if err != nil {
			return f, fmt.Errorf("find %s: %w", need.name, err)
		}
		purego.RegisterFunc(need.into, symbol)
	}
	return f, nil
})

func system() (Source, error) {
	f, err := frameworks()
	if err != nil {
		return "", err
	}
	sources := f.copySources()
	if sources == 0 {
		return "", errors.New("the system does not tell its power sources")
	}
	defer f.release(sources)
	name := f.providing(sources)
	var text [64]byte
	if name == 0 || !f.text(name, &text[0], len(text), utf8) {
		return "", errors.New("the system does not tell its power source")
	}
	length := 0
	for length < len(text) && text[length] != 0 {
		length++
	}
	return providing(string(text[:length])), nil
}
