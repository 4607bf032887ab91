package indexer

import "sync/atomic"

// Stats are counts since the start, and what is in work now. How many
// documents stand where is in the ledger of the store.
type Stats struct {
	EmbeddedChunks int64 `json:"embedded_chunks"` // texts that the engine embedded
	ReusedChunks   int64 `json:"reused_chunks"`   // passages whose vectors were there already
	Read           int64 `json:"read"`            // documents whose text was made
	Unchanged      int64 `json:"unchanged"`       // documents read again with the same bytes
	Skipped        int64 `json:"skipped"`
	Failed         int64 `json:"failed"`
	InWork         int   `json:"in_work"`        // documents being read or embedded
	EngineWaiting  bool  `json:"engine_waiting"` // documents wait because the engine cannot be had
}

type counters struct {
	embedded, reused, read, unchanged, skipped, failed atomic.Int64
}

// Stats returns the counts.
func (ix *Indexer) Stats() Stats {
	return Stats{
		EmbeddedChunks: ix.stats.embedded.Load(), ReusedChunks: ix.stats.reused.Load(),
		Read: ix.stats.read.Load(), Unchanged: ix.stats.unchanged.Load(),
		Skipped: ix.stats.skipped.Load(), Failed: ix.stats.failed.Load(),
		InWork: ix.queue.inWork(), EngineWaiting: ix.engine.waiting(),
	}
}
