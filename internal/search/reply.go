package search

import (
	"time"

	"github.com/ondol-app/ondol/internal/document"
)

// Degradation names what an answer had to do without. Codes, never sentences.
type Degradation string

const (
	// EngineUnavailable: there is no engine, or it refused the query; words alone.
	EngineUnavailable Degradation = "engine_unavailable"
	// EngineTimeout: no vector for the query within the wait; words alone.
	EngineTimeout Degradation = "engine_timeout"
	// VectorsPending: part of the index has no vectors yet; it is found by word only.
	VectorsPending Degradation = "vectors_pending"
	// Rebuilding: the vectors of the engine in service are being made for the
	// first time; what has none yet is found by word only. Index.Rebuilding counts.
	Rebuilding Degradation = "rebuilding"
	// QueryUnknown: the model knows no word of the query, so its vector says nothing.
	QueryUnknown Degradation = "query_unknown_to_model"
	// TermsDropped: the query has more words than can be looked up at once.
	TermsDropped Degradation = "terms_dropped"
	// RerankUnavailable: reranking was asked for and there is no reranker.
	RerankUnavailable Degradation = "rerank_unavailable"
)

// Reply is the answer to a Request, as it stands on the wire.
type Reply struct {
	Results    []Result      `json:"results"`     // best first, one a document; empty when there is no evidence
	Evidence   Evidence      `json:"evidence"`    // whether Results answer the query
	NearMisses []Result      `json:"near_misses"` // the closest of what is no evidence; empty when there is evidence
	Index      Index         `json:"index"`
	Timings    Timings       `json:"timings_ms"`
	Degraded   []Degradation `json:"degraded"`
}

// Result is one document with its best passage.
type Result struct {
	Document document.ID      `json:"document"`
	Path     string           `json:"path"`  // absolute
	Title    string           `json:"title"` // its own, or the file's name without extension
	Kind     document.Kind    `json:"kind"`
	Modified time.Time        `json:"modified"`
	Location Location         `json:"location"`
	Snippet  Snippet          `json:"snippet"`
	Score    float64          `json:"score"`           // 0 … 1, comparable across queries of one mode and model
	Stale    bool             `json:"stale,omitempty"` // the file is no longer known to be what is shown: StaleReason
	State    document.State   `json:"state"`           // of the document: where it is not "indexed", its next version or its vectors are missing
	Chunk    document.ChunkID `json:"chunk"`           // the passage

	StaleReason StaleReason     `json:"stale_reason,omitempty"` // empty unless Stale
	Reason      document.Reason `json:"reason,omitempty"`       // where State is "failed": why; what is shown may be of before

	Explain *Explain `json:"explain,omitempty"`
}

// StaleReason is why a result may not be what the file says now.
type StaleReason string

const (
	StaleChanged StaleReason = "changed" // the file has changed since it was read
	StaleOffline StaleReason = "offline" // its folder is away or must not be read; nothing is known of the file
	StaleGone    StaleReason = "gone"    // the file is gone: no result, counted in Index.StaleRemoved
)

// Location is where in the document the passage stands.
type Location struct {
	Lines   []int  `json:"lines,omitempty"`   // first and last, 1-based
	Heading string `json:"heading,omitempty"` // path of headings
}

// Snippet is a short piece of the passage.
type Snippet struct {
	Text  string   `json:"text"`
	Marks [][2]int `json:"marks"` // byte offsets into Text, [start, end), ascending, apart; what matched
}

// Evidence says whether anything in the index answers the query.
type Evidence struct {
	Found  bool   `json:"found"`
	Reason Reason `json:"reason"`
}

// Reason is the signal behind Evidence.
type Reason string

const (
	ReasonPhrase     Reason = "phrase"      // the quoted phrase stands there
	ReasonWords      Reason = "words"       // enough of the query's rare words stand there together
	ReasonMeaning    Reason = "meaning"     // a passage is nearer than chance allows for this model
	ReasonNoPhrase   Reason = "no_phrase"   // nothing holds the quoted phrase
	ReasonWeak       Reason = "weak"        // only common words or distant passages
	ReasonNothing    Reason = "nothing"     // no passage at all
	ReasonEmptyIndex Reason = "empty_index" // no folder is watched

	ReasonIndexPending  Reason = "index_pending"  // folders are watched, nothing of them has been read yet
	ReasonIndexTextless Reason = "index_textless" // folders are watched, no file of theirs gave text
)

// Index is the state of the index that was searched.
type Index struct {
	Pending      int64     `json:"pending"`              // documents on their way
	LastScan     time.Time `json:"last_scan,omitzero"`   // the oldest of the folders' last complete scans
	StaleRemoved int       `json:"stale_removed"`        // hits left out because their file is gone
	Rebuilding   *Rebuild  `json:"rebuilding,omitempty"` // only where the reply is degraded by it
}

// Rebuild is how far the vectors are that the query was compared with.
type Rebuild struct {
	Embedded int64 `json:"embedded"` // passages that have theirs
	Texts    int64 `json:"texts"`    // passages in all, equal ones counted once
}

// Timings are milliseconds by stage. Embed and the two lists overlap.
type Timings struct {
	Embed    float64 `json:"embed"`
	Lexical  float64 `json:"lexical"`
	Semantic float64 `json:"semantic"`
	Passages float64 `json:"passages"` // reading, checking files, snippets
	Total    float64 `json:"total"`
}

// Explain shows how a result came by its score.
type Explain struct {
	LexicalRank  int      `json:"lexical_rank,omitempty"` // among documents, from 1; 0 for absent
	SemanticRank int      `json:"semantic_rank,omitempty"`
	BM25         float64  `json:"bm25"`
	Coverage     float64  `json:"coverage"`           // share of the query's word weight that stands in the passage, 0 … 1
	Cosine       *float64 `json:"cosine,omitempty"`   // raw; absent when the passage is not among the nearest
	Distance     *float64 `json:"distance,omitempty"` // of Cosine from the query's background in this index, in spreads beyond chance
	Words        float64  `json:"words"`              // what each side puts into the score
	Meaning      float64  `json:"meaning"`
	Matched      []string `json:"matched,omitempty"` // terms of the query
	Fingerprint  string   `json:"fingerprint,omitempty"`
}
