package download

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// longestPause is the most that is waited for by ourselves, and longestAsked
// the most a server may ask for.
const (
	longestPause = time.Minute
	longestAsked = 10 * time.Minute
)

// delay is how long to wait after a number of tries in a row that brought
// nothing: doubling, with jitter over the upper half, and never less than the
// server asked for.
func (d *Downloader) delay(tries int, err error) time.Duration {
	pause := min(d.cfg.Pause<<min(tries-1, 16), longestPause)
	pause = pause/2 + time.Duration(d.random()*float64(pause/2))
	if s, ok := errors.AsType[*StatusError](err); ok {
		pause = max(pause, min(s.After, longestAsked))
	}
	return pause
}

// retryAfter reads a Retry-After header, seconds or a date (RFC 9110, 10.2.3).
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(value); err == nil && seconds > 0 {
		return time.Duration(min(seconds, int(longestAsked/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
