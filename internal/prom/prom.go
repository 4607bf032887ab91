// Package prom turns the app's own figures into Prometheus' text format.
//
// Only app imports it. A Collector is handed functions that return snapshots
// and calls each once for a scrape: it holds no figure, starts no goroutine
// and asks neither the engine nor the database writer. A function that is nil
// leaves its metrics out.
//
// Metrics; all times are in seconds, all counters since the app's start:
//
//	ondol_admission_executing{role}              requests at the engine, caller there
//	ondol_admission_draining{role}               requests at the engine, caller gone
//	ondol_admission_waiting{role,lane}           requests in the queue
//	ondol_admission_oldest_wait_seconds{role}    of the waiting clients
//	ondol_admission_limit{role,limit}            executing, waiting, background
//	ondol_admission_requests_total{role,outcome} how requests ended
//	ondol_admission_wait_seconds{role}           histogram: from arrival to the permit
//	ondol_admission_service_seconds{role}        histogram: from the permit to its release
//	ondol_vectors_checked_total{role}            vectors found valid
//	ondol_replies_invalid_total{role}            replies found invalid
//	ondol_cache_hits_total, ondol_cache_misses_total, ondol_cache_joins_total
//	ondol_cache_entries, ondol_cache_bytes
//	ondol_engine_restarts_total{role}            automatic ones
//	ondol_engine_up{role}                        1 = ready for work
//	ondol_index_documents{state}                 indexed, skipped, failed, pending
//	ondol_index_chunks                           pieces of text searchable by word
//	ondol_index_folders
//	ondol_index_chunks_embedded_total, ondol_index_chunks_reused_total
//	ondol_yielding_paused{reason}                1 = making vectors waits for that reason
//	ondol_yielding_pauses_total                  how often it had to
//	ondol_gpu_utilization_ratio                  of the busiest GPU; each of these where it is known
//	ondol_gpu_share_ratio{of}                    GPU seconds a second: ours, others
//	ondol_gpu_contention_ratio                   others' share while we execute
//	ondol_gpu_memory_bytes{kind}                 in_use, working_set
package prom

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/gpu"
	"github.com/ondol-app/ondol/internal/yielding"
)

// Role is one engine role as it is shown.
type Role struct {
	Name      string // value of the label role: "embed", "rerank", "chat"
	Admission func() admission.Stats
	Validity  func() embedding.Validity // nil for a role that makes no vectors
	Engine    func() Engine             // nil for a role without an engine of ours
}

// Engine is an engine's state.
type Engine struct {
	Ready    bool
	Restarts int // automatic ones
}

// Cache is the state of the vector cache.
type Cache struct {
	Hits, Misses, Joins uint64
	Entries             int64
	Bytes               int64
}

// Index is the state of the index.
type Index struct {
	Counts         document.Counts
	Folders        int
	EmbeddedChunks int64
	ReusedChunks   int64
}

// Yielding is whether making vectors waits.
type Yielding struct {
	Reasons []yielding.Reason // of a pause; none = there is none
	Pauses  uint64            // since the start
}

// Config of a Collector. Role names must differ.
type Config struct {
	Roles []Role
	Cache func() Cache
	Index func() (Index, error) // an error leaves the index out of this scrape

	GPU      func() gpu.Status
	Yielding func() Yielding
}

// Handler serves the metrics of c, of the Go runtime and of the process.
func Handler(c *Collector) (http.Handler, error) {
	registry := prometheus.NewPedanticRegistry()
	for _, collector := range []prometheus.Collector{
		c, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}
