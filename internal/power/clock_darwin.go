package power

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// clocks: CLOCK_MONOTONIC_RAW goes on while the machine sleeps,
// CLOCK_UPTIME_RAW does not (clock_gettime(3)).
func clocks() (whole, awake time.Duration, err error) {
	var a, b unix.Timespec
	err = errors.Join(unix.ClockGettime(unix.CLOCK_UPTIME_RAW, &a), unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &b))
	return time.Duration(b.Nano()), time.Duration(a.Nano()), err
}
