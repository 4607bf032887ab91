//go:build !linux && !darwin

package power

import (
	"errors"
	"time"
)

func clocks() (whole, awake time.Duration, err error) { return 0, 0, errors.ErrUnsupported }
