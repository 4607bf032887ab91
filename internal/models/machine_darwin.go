package models

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// ThisMachine asks the system.
func ThisMachine() (Machine, error) {
	total, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return Machine{}, fmt.Errorf("ask for the memory's size: %w", err)
	}
	m := Machine{Total: int64(total), WorkingSet: MetalWorkingSet(int64(total))}
	// An owner may have raised the limit; 0 is the system's own.
	if limit, err := unix.SysctlUint32("iogpu.wired_limit_mb"); err == nil && limit > 0 {
		m.WorkingSet = int64(limit) << 20
	}
	return m, nil
}
