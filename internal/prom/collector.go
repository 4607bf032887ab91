package prom

import (
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/metrics"
	"github.com/ondol-app/ondol/internal/yielding"
)

// Collector is a prometheus.Collector over the functions of its Config.
type Collector struct {
	config Config
	desc   descriptions
}

type descriptions struct {
	executing, draining, waiting, oldest, limit, requests, wait, service *prometheus.Desc
	checked, invalid, restarts, up                                       *prometheus.Desc
	hits, misses, joins, entries, bytes                                  *prometheus.Desc
	documents, chunks, folders, embedded, reused                         *prometheus.Desc
	paused, pauses, utilization, share, contention, memory               *prometheus.Desc
}

// New makes a collector.
func New(config Config) (*Collector, error) {
	seen := make(map[string]bool)
	for _, role := range config.Roles {
		if role.Name == "" || role.Admission == nil {
			return nil, errors.New("prom: a role needs a name and its admission")
		}
		if seen[role.Name] {
			return nil, fmt.Errorf("prom: role %s stands twice", role.Name)
		}
		seen[role.Name] = true
	}
	return &Collector{config: config, desc: describe()}, nil
}

func describe() descriptions {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("ondol_"+name, help, labels, nil)
	}
	return descriptions{
		executing: desc("admission_executing", "Requests at the engine whose caller is there.", "role"),
		draining:  desc("admission_draining", "Requests at the engine whose caller has left.", "role"),
		waiting:   desc("admission_waiting", "Requests in the queue.", "role", "lane"),
		oldest:    desc("admission_oldest_wait_seconds", "How long the first client in the queue has waited.", "role"),
		limit:     desc("admission_limit", "Most requests of a kind at once.", "role", "limit"),
		requests:  desc("admission_requests_total", "Requests by how they ended.", "role", "outcome"),
		wait:      desc("admission_wait_seconds", "From a client's arrival to its permit.", "role"),
		service:   desc("admission_service_seconds", "From a permit to its release.", "role"),

		checked:  desc("vectors_checked_total", "Vectors found valid.", "role"),
		invalid:  desc("replies_invalid_total", "Replies of the engine found invalid.", "role"),
		restarts: desc("engine_restarts_total", "Restarts of the engine nobody asked for.", "role"),
		up:       desc("engine_up", "1 when the engine is ready for work.", "role"),

		hits:    desc("cache_hits_total", "Inputs served from the cache."),
		misses:  desc("cache_misses_total", "Inputs that were not in the cache."),
		joins:   desc("cache_joins_total", "Inputs that joined the same one in flight."),
		entries: desc("cache_entries", "Vectors in the cache."),
		bytes:   desc("cache_bytes", "Size of the cache."),

		documents: desc("index_documents", "Documents by state.", "state"),
		chunks:    desc("index_chunks", "Pieces of text searchable by word."),
		folders:   desc("index_folders", "Watched folders."),
		embedded:  desc("index_chunks_embedded_total", "Pieces of text embedded by indexing."),
		reused:    desc("index_chunks_reused_total", "Pieces of text whose vector was there already."),

		paused:      desc("yielding_paused", "1 while making vectors waits for that reason.", "reason"),
		pauses:      desc("yielding_pauses_total", "How often making vectors had to wait so that the machine stays usable."),
		utilization: desc("gpu_utilization_ratio", "Share of the time that the busiest GPU is busy."),
		share:       desc("gpu_share_ratio", "GPU seconds a second, by whose work it is.", "of"),
		contention:  desc("gpu_contention_ratio", "Others' share of the GPU while our engines execute."),
		memory:      desc("gpu_memory_bytes", "Memory of the GPU.", "kind"),
	}
}

// all is every description: some metrics come only once there is a figure.
func (d descriptions) all() []*prometheus.Desc {
	return []*prometheus.Desc{
		d.executing, d.draining, d.waiting, d.oldest, d.limit, d.requests, d.wait, d.service,
		d.checked, d.invalid, d.restarts, d.up,
		d.hits, d.misses, d.joins, d.entries, d.bytes,
		d.documents, d.chunks, d.folders, d.embedded, d.reused,
		d.paused, d.pauses, d.utilization, d.share, d.contention, d.memory,
	}
}

// Describe implements prometheus.Collector. It asks nobody for a figure.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range c.desc.all() {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	s := scrape{to}
	for _, role := range c.config.Roles {
		c.admission(s, role.Name, role.Admission())
		if role.Validity != nil {
			v := role.Validity()
			s.counter(c.desc.checked, v.Checked, role.Name)
			s.counter(c.desc.invalid, v.Rejected, role.Name)
		}
		if role.Engine != nil {
			e := role.Engine()
			s.counter(c.desc.restarts, uint64(max(e.Restarts, 0)), role.Name)
			up := 0.
			if e.Ready {
				up = 1
			}
			s.gauge(c.desc.up, up, role.Name)
		}
	}
	c.cache(s)
	c.index(s)
	c.gpu(s)
}

func (c *Collector) admission(s scrape, role string, stats admission.Stats) {
	s.gauge(c.desc.executing, float64(stats.Executing), role)
	s.gauge(c.desc.draining, float64(stats.Draining), role)
	s.gauge(c.desc.waiting, float64(stats.Waiting), role, admission.LaneClient.String())
	s.gauge(c.desc.waiting, float64(stats.BackgroundWaiting), role, admission.LaneBackground.String())
	s.gauge(c.desc.oldest, float64(stats.OldestWaitMS)/1000, role)
	s.gauge(c.desc.limit, float64(stats.Limits.Executing), role, "executing")
	s.gauge(c.desc.limit, float64(stats.Limits.Waiting), role, "waiting")
	s.gauge(c.desc.limit, float64(stats.Limits.Background), role, "background")
	for outcome, n := range stats.Totals {
		s.counter(c.desc.requests, n, role, outcome.String())
	}
	s.histogram(c.desc.wait, stats.WaitSeconds, role)
	s.histogram(c.desc.service, stats.ServiceSeconds, role)
}

func (c *Collector) cache(s scrape) {
	if c.config.Cache == nil {
		return
	}
	now := c.config.Cache()
	s.counter(c.desc.hits, now.Hits)
	s.counter(c.desc.misses, now.Misses)
	s.counter(c.desc.joins, now.Joins)
	s.gauge(c.desc.entries, float64(now.Entries))
	s.gauge(c.desc.bytes, float64(now.Bytes))
}

func (c *Collector) index(s scrape) {
	if c.config.Index == nil {
		return
	}
	now, err := c.config.Index()
	if err != nil {
		return
	}
	n := now.Counts
	for state, count := range map[string]int64{"indexed": n.Indexed, "skipped": n.Skipped, "failed": n.Failed, "pending": n.Pending} {
		s.gauge(c.desc.documents, float64(count), state)
	}
	s.gauge(c.desc.chunks, float64(n.Chunks))
	s.gauge(c.desc.folders, float64(now.Folders))
	s.counter(c.desc.embedded, uint64(max(now.EmbeddedChunks, 0)))
	s.counter(c.desc.reused, uint64(max(now.ReusedChunks, 0)))
}

func (c *Collector) gpu(s scrape) {
	if c.config.Yielding != nil {
		now := c.config.Yielding()
		s.counter(c.desc.pauses, now.Pauses)
		for _, reason := range yielding.Reasons() {
			paused := 0.
			if slices.Contains(now.Reasons, reason) {
				paused = 1
			}
			s.gauge(c.desc.paused, paused, reason.String())
		}
	}
	if c.config.GPU == nil {
		return
	}
	now := c.config.GPU()
	s.known(c.desc.utilization, now.Utilization)
	s.known(c.desc.share, now.Ours, "ours")
	s.known(c.desc.share, now.Others, "others")
	s.known(c.desc.contention, now.Contention)
	for kind, bytes := range map[string]*int64{"in_use": now.MemoryInUse, "working_set": now.WorkingSet} {
		if bytes != nil {
			s.gauge(c.desc.memory, float64(*bytes), kind)
		}
	}
}

// scrape is where one round of metrics goes. The Must functions panic only
// when labels and description differ in number, which every test run shows.
type scrape struct{ to chan<- prometheus.Metric }

func (s scrape) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s.to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

// known is a gauge where there is a figure.
func (s scrape) known(d *prometheus.Desc, v *float64, labels ...string) {
	if v != nil {
		s.gauge(d, *v, labels...)
	}
}

func (s scrape) counter(d *prometheus.Desc, n uint64, labels ...string) {
	s.to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func (s scrape) histogram(d *prometheus.Desc, h metrics.Snapshot, labels ...string) {
	buckets := make(map[float64]uint64, len(h.Buckets))
	for _, b := range h.Buckets {
		buckets[b.LE] = b.Count
	}
	s.to <- prometheus.MustNewConstHistogram(d, h.Count, h.Sum, buckets, labels...)
}
