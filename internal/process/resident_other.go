//go:build !linux

package process

// Resident is how many bytes of memory this process takes; false where the
// system does not say.
func Resident() (int64, bool) { return 0, false }
