package power

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// clocks: CLOCK_BOOTTIME goes on while the machine is suspended,
// CLOCK_MONOTONIC does not (clock_gettime(2)).
func clocks() (whole, awake time.Duration, err error) {
	var a, b unix.Timespec
	err = errors.Join(unix.ClockGettime(unix.CLOCK_MONOTONIC, &a), unix.ClockGettime(unix.CLOCK_BOOTTIME, &b))
	return time.Duration(b.Nano()), time.Duration(a.Nano()), err
}
