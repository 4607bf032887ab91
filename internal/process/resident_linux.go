package process

import (
	"bytes"
	"os"
	"strconv"
)

// Resident is how many bytes of memory this process takes; false where the
// system does not say.
func Resident() (int64, bool) {
	text, err := os.ReadFile("/proc/self/statm") // size, resident, … in pages: proc(5)
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize()), err == nil
}
