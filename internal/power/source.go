package power

import (
	"bytes"
	"errors"
	"io/fs"
)

// Source is what the machine lives on.
type Source string

const (
	Mains   Source = "mains"
	Battery Source = "battery"
)

// String returns the source as it is logged.
func (s Source) String() string { return string(s) }

// Now is what the machine lives on now; Mains where that is not known.
func Now() Source {
	source, err := system()
	if err != nil {
		return Mains
	}
	return source
}

// supplies reads what Linux says in /sys/class/power_supply: a folder for
// each supply (Documentation/ABI/testing/sysfs-class-power). Whatever feeds the
// machine from outside wins; else a battery of the machine itself, not of a
// mouse, that is being discharged. An empty folder is a machine without one.
func supplies(sys fs.FS) (Source, error) {
	list, err := fs.ReadDir(sys, ".")
	if errors.Is(err, fs.ErrNotExist) {
		return Mains, nil
	}
	if err != nil {
		return "", err
	}
	source := Mains
	for _, entry := range list {
		field := func(name string) string {
			text, err := fs.ReadFile(sys, entry.Name()+"/"+name)
			if err != nil {
				return "" // a supply need not tell everything
			}
			return string(bytes.TrimSpace(text))
		}
		switch kind := field("type"); {
		case field("scope") == "Device":
		case kind == "Mains" || kind == "USB" || kind == "Wireless":
			if field("online") == "1" {
				return Mains, nil
			}
		case (kind == "Battery" || kind == "UPS") && field("status") == "Discharging":
			source = Battery
		}
	}
	return source, nil
}

// providing reads what macOS calls the source (IOKit/ps/IOPSKeys.h).
func providing(name string) Source {
	if name == "Battery Power" || name == "UPS Power" {
		return Battery
	}
	return Mains // "AC Power"
}
