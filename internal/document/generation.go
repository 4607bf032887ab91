package document

import "time"

// Maker is what makes vectors of one kind. Two vectors may be compared when
// their makers have the same fingerprint, and only then.
type Maker struct {
	Fingerprint string `json:"fingerprint"` // of model, engine build, flags and dimension
	Dim         int    `json:"dimension"`   // components of a vector
	Model       string `json:"model"`       // name, for people
	Build       string `json:"build"`       // of the engine, as it tells it; empty when not known
	// Recipe is how to start this engine again, in words of whoever starts
	// engines; the index keeps it and never reads it. Empty when nobody can.
	Recipe string `json:"recipe,omitempty"`
}

// GenerationState is where the vectors of one maker stand.
type GenerationState string

const (
	// Building means that texts are without a vector and that it was never complete.
	Building GenerationState = "building"
	// Ready means that it was complete and no engine of it has been in service since.
	Ready GenerationState = "ready"
	// Active means the one whose engine is in service, or was until another
	// engine took its place whose generation is still being built. There is at most one.
	Active GenerationState = "active"
	// Retired means that it was active and another one is now. It is kept for a while.
	Retired GenerationState = "retired"
)

// String returns the state as it stands in the database and in JSON.
func (s GenerationState) String() string { return string(s) }

// Generation is all vectors of one maker.
type Generation struct {
	Maker
	State     GenerationState `json:"state"`
	Texts     int64           `json:"texts"`               // different passages in the index now
	Embedded  int64           `json:"embedded"`            // those of them that have a vector of this generation
	Vectors   int64           `json:"vectors"`             // all its vectors: also those of passages that went a short while ago
	Bytes     int64           `json:"bytes"`               // what they take on disk, to about a tenth
	Created   time.Time       `json:"created"`             // UTC, as all below
	Completed time.Time       `json:"completed,omitzero"`  // when no text was missing for the first time; zero before
	Activated time.Time       `json:"activated,omitzero"`  // when it became active the last time
	Retired   time.Time       `json:"retired_at,omitzero"` // since when another one is active; zero unless State is Retired
	Used      time.Time       `json:"used"`                // when an engine of it was seen last, to about an hour
}

// Missing is how many texts have no vector of this generation.
func (g Generation) Missing() int64 { return max(0, g.Texts-g.Embedded) }

// Whole reports whether it was complete once, or was never anything but the
// one in service: what it lacks then is what is new or changed.
func (g Generation) Whole() bool { return g.State == Active || !g.Completed.IsZero() }

// SemanticReply is the answer to a search among vectors.
type SemanticReply struct {
	Hits       []Hit      // best first; equal scores by chunk id
	Generation Generation // that was searched, at the moment of the search; Building with no vector where there is none
}

// Lacking is a text that has no vector of a generation, with the first passage that has it.
type Lacking struct {
	Text  int64 // number of the text; texts that came later have higher ones
	Chunk Chunk
}
