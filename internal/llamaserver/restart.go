package llamaserver

import "time"

// RestartPolicy says how often and how soon an engine that broke is started
// again. A zero policy is no policy; see DefaultRestartPolicy.
type RestartPolicy struct {
	First  time.Duration // back-off after the first failure; it doubles
	Max    time.Duration // longest back-off
	Budget int           // restarts within Window; the next failure is final
	Window time.Duration // also how long an engine must be ready for the back-off to begin anew
}

// DefaultRestartPolicy is the contract's: 4 restarts in 10 minutes.
func DefaultRestartPolicy() RestartPolicy {
	return RestartPolicy{First: 500 * time.Millisecond, Max: 30 * time.Second, Budget: 4, Window: 10 * time.Minute}
}

// restarts counts failures against a policy. It reads no clock.
type restarts struct {
	policy RestartPolicy
	recent []time.Time // failures that led to a restart, within the window, oldest first
	streak int         // failures since the engine was last ready for a whole window
}

// failed takes note of a failure now and says after what back-off to start
// again; ok is false when the budget is spent.
func (r *restarts) failed(now time.Time, readyFor time.Duration) (backoff time.Duration, ok bool) {
	for len(r.recent) > 0 && now.Sub(r.recent[0]) >= r.policy.Window {
		r.recent = r.recent[1:]
	}
	if readyFor >= r.policy.Window {
		r.streak = 0
	}
	if len(r.recent) >= r.policy.Budget {
		return 0, false
	}
	r.recent = append(r.recent, now)
	backoff = r.policy.First
	for range r.streak {
		backoff = min(2*backoff, r.policy.Max)
	}
	r.streak++
	return backoff, true
}

// reset forgets every failure: a person asked for a start.
func (r *restarts) reset() { r.recent, r.streak = nil, 0 }
