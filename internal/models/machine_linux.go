package models

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroupLimit is where a container's limit stands (cgroup v2); "max" is none.
const cgroupLimit = "/sys/fs/cgroup/memory.max"

// ThisMachine asks the system.
func ThisMachine() (Machine, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return Machine{}, fmt.Errorf("ask for the memory's size: %w", err)
	}
	m := Machine{Total: int64(uint64(info.Totalram) * uint64(info.Unit))}
	if text, err := os.ReadFile(cgroupLimit); err == nil {
		if limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && limit > 0 {
			m.Total = min(m.Total, limit)
		}
	}
	return m, nil
}
