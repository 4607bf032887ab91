package admission

import "time"

const (
	// The range of an estimate: SDKs ignore a longer one than a minute.
	minRetry = time.Millisecond
	maxRetry = time.Minute

	// assumedService stands in until a first request has been served.
	assumedService = time.Second

	// serviceWeight is the share of the newest observation: the mean follows
	// a change of load within some ten requests.
	serviceWeight = 0.2
)

// serviceTime is a moving mean of how long clients hold a permit.
type serviceTime struct {
	mean float64 // seconds
	any  bool    // something was observed
}

func (s *serviceTime) observe(held time.Duration) {
	seconds := max(held.Seconds(), 0)
	if !s.any {
		s.mean, s.any = seconds, true
		return
	}
	s.mean += serviceWeight * (seconds - s.mean)
}

// estimate is when a request that arrived now would be granted a permit, had
// it a place: everyone who waits and itself, served by all permits at the
// recent pace. When all permits have been held for longer than that pace, the
// recent past says too little and the shortest of these holds is taken.
func (p *Policy) estimate(now time.Time) time.Duration {
	service := assumedService
	if p.service.any {
		service = time.Duration(p.service.mean * float64(time.Second))
	}
	if p.free() <= 0 {
		shortest := time.Duration(-1)
		for _, h := range p.holders {
			if held := now.Sub(h.since); shortest < 0 || held < shortest {
				shortest = held
			}
		}
		service = max(service, shortest)
	}
	ahead := float64(len(p.clients) + 1)
	estimate := ahead * float64(service) / float64(p.limits.Executing)
	return time.Duration(min(max(estimate, float64(minRetry)), float64(maxRetry)))
}
