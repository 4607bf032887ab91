package process

import (
	"fmt"
	"time"

	"github.com/shirou/gopsutil/v4/process"
)

// RSS is the resident memory of a process, in bytes. Pages of a model file
// that are mapped and in use count; memory of a GPU that is not the system's
// does not.
func RSS(pid int) (int64, error) {
	p, err := process.NewProcess(int32(pid))
	if err != nil {
		return 0, fmt.Errorf("find process %d: %w", pid, err)
	}
	info, err := p.MemoryInfo()
	if err != nil {
		return 0, fmt.Errorf("read memory of process %d: %w", pid, err)
	}
	return int64(info.RSS), nil
}

// CPUTime is the processor time that a process has taken, its own and the
// system's for it. Work that a GPU does for it is not in it.
func CPUTime(pid int) (time.Duration, error) {
	p, err := process.NewProcess(int32(pid))
	if err != nil {
		return 0, fmt.Errorf("find process %d: %w", pid, err)
	}
	times, err := p.Times()
	if err != nil {
		return 0, fmt.Errorf("read the processor time of process %d: %w", pid, err)
	}
	return time.Duration((times.User + times.System) * float64(time.Second)), nil
}
