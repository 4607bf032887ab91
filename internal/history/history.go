// Package history keeps the last ten minutes by the second and the last day by
// the minute, of figures that would otherwise be known for the moment only: what
// the plots of the window show. It is memory only; the journal is what lasts.
//
// app wires it, control shows it. It knows no part: it is handed a function
// that reads the figures. Run is its one goroutine and, when nobody looks and
// nothing is under way, wakes once a minute. Seconds are kept while somebody
// looks (Seconds was called lately), and while requests are under way, so the
// minutes before somebody looked are there when it matters; a gap means that
// nothing went on, or that nobody knows.
package history

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ondol-app/ondol/internal/metrics"
)

// What is kept.
const (
	Short      = 10 * time.Minute
	ShortEvery = time.Second
	Long       = 24 * time.Hour
	LongEvery  = time.Minute
)

// lookTime is how long after a look, or after the last request, seconds are
// still kept.
const lookTime = 30 * time.Second

// Reading is the figures at one moment.
type Reading struct {
	At         time.Time
	Executing  int // with Draining: permits that are taken
	Draining   int
	Waiting    int
	Background int // of those taken, indexing's
	OldestWait time.Duration

	Outcomes map[string]uint64 // how requests ended, since the start
	Wait     metrics.Snapshot  // of requests that were granted, since the start
	Service  metrics.Snapshot  // of permits that were given back, since the start

	Pending int64 // documents that are not searchable by meaning yet
	RSS     int64 // bytes of the app's memory; 0 = not known here
	GPU     *GPU  // nil = nobody watched it
}

// GPU is how it was used; what is nil was not known.
type GPU struct {
	Utilization *float64 `json:"utilization,omitempty"` // of the busiest GPU, whoever used it; 0 to 1
	Ours        *float64 `json:"ours,omitempty"`        // GPU seconds a second
	Others      *float64 `json:"others,omitempty"`
	Contention  *float64 `json:"contention,omitempty"`    // others' share while we executed
	MemoryInUse *int64   `json:"memory_in_use,omitempty"` // bytes
}

// Point is one interval: gauges as at its end, counts of what ended in it.
type Point struct {
	At           time.Time         `json:"at"` // the end of the interval
	Executing    int               `json:"executing"`
	Draining     int               `json:"draining"`
	Waiting      int               `json:"waiting"`
	Background   int               `json:"background"`
	OldestWaitMS int64             `json:"oldest_wait_ms"`
	Outcomes     map[string]uint64 `json:"outcomes,omitempty"` // those that were not 0
	WaitMS       *Quantiles        `json:"wait_ms,omitempty"`  // nil when no request was granted
	ServiceMS    *Quantiles        `json:"service_ms,omitempty"`
	Pending      int64             `json:"pending"`
	RSS          int64             `json:"rss_bytes,omitempty"` // absent where it cannot be read
	GPU          *GPU              `json:"gpu,omitempty"`       // absent where nobody watched it
}

// Quantiles are estimated from buckets, in milliseconds.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
}

// Config is what a History is made of; all of it is required.
type Config struct {
	Read func(ctx context.Context) (Reading, error)
	Busy <-chan struct{} // gets a value when requests come to an idle gate
}

// History is safe for concurrent use.
type History struct {
	config Config
	looked chan struct{} // 1-buffered: somebody looks

	mu      sync.Mutex
	seconds ring // guarded by mu
	minutes ring // guarded by mu
}

// New makes a history; it knows nothing before Run.
func New(config Config) *History {
	return &History{
		config: config, looked: make(chan struct{}, 1),
		seconds: ring{size: int(Short / ShortEvery)}, minutes: ring{size: int(Long / LongEvery)},
	}
}

// Seconds is the last ten minutes, oldest first, without what was not watched.
// The next seconds are watched because somebody looks.
func (h *History) Seconds() []Point {
	select {
	case h.looked <- struct{}{}:
	default:
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seconds.since(time.Now().Add(-Short))
}

// Minutes is the last day, oldest first.
func (h *History) Minutes() []Point {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.minutes.since(time.Now().Add(-Long))
}

// Run reads the figures until ctx ends. A reading that fails leaves a gap.
func (h *History) Run(ctx context.Context) error {
	minute := time.NewTicker(LongEvery)
	defer minute.Stop()
	second := time.NewTicker(ShortEvery)
	second.Stop()
	defer second.Stop()
	ticking := false
	var until time.Time // seconds are kept until then
	var last, lastMinute Reading
	if now, err := h.config.Read(ctx); err == nil {
		lastMinute = now
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.looked:
			until = time.Now().Add(lookTime)
		case <-h.config.Busy:
			until = time.Now().Add(lookTime)
		case <-second.C:
			if now, err := h.config.Read(ctx); err == nil {
				h.add(&h.seconds, last, now)
				last = now
				if now.Executing+now.Draining+now.Waiting > 0 {
					until = time.Now().Add(lookTime)
				}
			}
		case <-minute.C:
			if now, err := h.config.Read(ctx); err == nil {
				h.add(&h.minutes, lastMinute, now)
				lastMinute = now
			}
		}
		switch wanted := time.Now().Before(until); {
		case wanted && !ticking:
			ticking = true
			last, _ = h.config.Read(ctx) // what comes is counted from here
			second.Reset(ShortEvery)
		case !wanted && ticking:
			ticking = false
			second.Stop()
		}
	}
}

func (h *History) add(r *ring, before, now Reading) {
	if before.At.IsZero() {
		return // what was before is not known, so neither is what came since
	}
	p := Between(before, now)
	h.mu.Lock()
	defer h.mu.Unlock()
	r.add(p)
}

// Between is the interval from one reading to another.
func Between(before, now Reading) Point {
	p := Point{
		At: now.At.UTC(), Executing: now.Executing, Draining: now.Draining, Waiting: now.Waiting, Background: now.Background,
		OldestWaitMS: now.OldestWait.Milliseconds(), Pending: now.Pending, RSS: now.RSS, GPU: now.GPU,
		WaitMS: quantiles(before.Wait, now.Wait), ServiceMS: quantiles(before.Service, now.Service),
	}
	for outcome, count := range now.Outcomes {
		if n := count - before.Outcomes[outcome]; n > 0 {
			if p.Outcomes == nil {
				p.Outcomes = make(map[string]uint64)
			}
			p.Outcomes[outcome] = n
		}
	}
	return p
}

func quantiles(before, now metrics.Snapshot) *Quantiles {
	d := now.Since(before)
	if d.Count == 0 {
		return nil
	}
	return &Quantiles{P50: 1000 * d.Quantile(0.5), P95: 1000 * d.Quantile(0.95)}
}

// ring holds the last size points.
type ring struct {
	size   int // constant
	points []Point
	next   int // where the next one goes once points is full: the oldest one's place
}

func (r *ring) add(p Point) {
	if len(r.points) < r.size {
		r.points = append(r.points, p)
		return
	}
	r.points[r.next] = p
	r.next = (r.next + 1) % r.size
}

// since copies the points after a moment, oldest first.
func (r *ring) since(at time.Time) []Point {
	all := slices.Concat(r.points[r.next:], r.points[:r.next])
	i := slices.IndexFunc(all, func(p Point) bool { return p.At.After(at) })
	if i < 0 {
		return []Point{}
	}
	return all[i:]
}
