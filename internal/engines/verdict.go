package engines

import (
	"time"

	"github.com/ondol-app/ondol/internal/trial"
)

// Check is one thing that a candidate is judged by.
type Check string

const (
	CheckStart     Check = "start"     // it loaded and embedded its first texts
	CheckDimension Check = "dimension" // components of a vector, against the live engine's or the model file's
	CheckValid     Check = "valid"     // share of vectors that are valid
	CheckCanaries  Check = "canaries"  // at the start: lowest cosine of a vector made with others to the one made alone
	CheckTrial     Check = "trial"     // share of the trial's requests that were answered in time, as they should be
	CheckVectors   Check = "vectors"   // lowest cosine of one text's vectors, live and candidate
	CheckOverlap   Check = "overlap"   // share of the ten best passages that are the same, over all searches
	CheckScores    Check = "scores"    // largest difference of one passage's score
	CheckRanks     Check = "ranks"     // rank correlation of all passages, over all searches (Spearman)
	CheckSpeed     Check = "speed"     // the candidate's median times to the live engine's, of the size that fares worse
)

func (c Check) String() string { return string(c) }

// Details of findings that code asks for.
const (
	detailNoLive      = "live_unavailable" // the live engine could not be measured
	detailNotMeasured = "not_measured"     // the candidate could not
)

// Bound says on which side of the limit a value passes.
type Bound string

const (
	AtLeast Bound = "at_least"
	AtMost  Bound = "at_most"
	Exactly Bound = "exactly"
	NoBound Bound = "none" // told, not judged
)

func (b Bound) String() string { return string(b) }

// Finding is the outcome of one check.
type Finding struct {
	Check  Check    `json:"check"`
	Value  *float64 `json:"value"` // nil = not measured
	Bound  Bound    `json:"bound"`
	Limit  *float64 `json:"limit,omitempty"` // nil where nothing is judged
	Pass   bool     `json:"pass"`
	Fatal  bool     `json:"fatal"`            // without it there is no promotion, by force neither
	Detail string   `json:"detail,omitempty"` // a code: why it failed or was not measured
}

// Subject is one of the two engines as it was measured.
type Subject struct {
	Model       string   `json:"model"`
	SHA256      string   `json:"sha256"`
	Version     string   `json:"version"`
	Profile     string   `json:"profile"`
	Flags       []string `json:"flags"`
	Fingerprint string   `json:"fingerprint"`
	Dimension   int      `json:"dimension"`
	LoadMS      *float64 `json:"load_ms"`       // start to ready; nil = not known
	RSSBytes    *int64   `json:"rss_bytes"`     // resident memory of the process; nil = not known
	P50MS       *float64 `json:"p50_ms"`        // of the trial's short requests
	MediumP50MS *float64 `json:"medium_p50_ms"` // nil where an engine does not take them
	P95MS       *float64 `json:"p95_ms"`        // of all of them
	TokensPerS  *float64 `json:"tokens_per_s"`  // of the time that single requests took
}

// Verdict is what a trial found, figure by figure.
type Verdict struct {
	At        time.Time `json:"at"`
	TookMS    int64     `json:"took_ms"`
	Pass      bool      `json:"pass"`
	Quick     bool      `json:"quick"`
	InPlace   bool      `json:"in_place"`
	SameModel bool      `json:"same_model"` // by its hash: vectors must then be alike, text by text
	Texts     int       `json:"texts"`      // passages compared
	Searches  int       `json:"searches"`   // queries ranked
	Requests  int       `json:"requests"`   // of the trial, to each engine
	Live      Subject   `json:"live"`
	Candidate Subject   `json:"candidate"`
	Findings  []Finding `json:"findings"`

	Rows    []trial.Row    `json:"rows"`    // the trial, step by step: the live engine's, then the candidate's; never null
	Reasons []trial.Reason `json:"reasons"` // why the candidate did not pass it; never null
}

// Against lists the findings that did not pass.
func (v *Verdict) Against() []Finding {
	var list []Finding
	for _, f := range v.Findings {
		if !f.Pass {
			list = append(list, f)
		}
	}
	return list
}

// Unopposed says that it did not pass for one reason alone: there is no engine
// in service that it could be compared with, and so none that it could harm.
func (v *Verdict) Unopposed() bool {
	for _, f := range v.Findings {
		if !f.Pass && (f.Fatal || f.Detail != detailNoLive) {
			return false
		}
	}
	return !v.Pass
}

// Fatal says that not even force may promote it.
func (v *Verdict) Fatal() bool {
	for _, f := range v.Findings {
		if !f.Pass && f.Fatal {
			return true
		}
	}
	return false
}
