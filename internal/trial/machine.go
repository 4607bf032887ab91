package trial

import (
	"runtime"
	"strconv"
	"strings"
)

// ThisMachine is what the system says of itself; what it does not say is
// empty.
func ThisMachine() Machine {
	cpu, memory := hardware()
	return Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPU: cpu, CPUs: runtime.NumCPU(), Memory: memory}
}

// field is the value of the first line "name : value" of a file of /proc.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// kilobytes reads "16303428 kB", in bytes; 0 when it is none.
func kilobytes(text string) int64 {
	number, unit, _ := strings.Cut(text, " ")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || unit != "kB" {
		return 0
	}
	return n << 10
}
