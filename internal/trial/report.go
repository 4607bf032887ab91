package trial

import "time"

// Outcome is how one request ended.
type Outcome string

const (
	OK      Outcome = "ok"      // valid, and in time
	Late    Outcome = "late"    // no answer within the deadline, or one after it
	Invalid Outcome = "invalid" // an answer that must not be believed
	Failed  Outcome = "failed"  // refused, or any other error
)

func (o Outcome) String() string { return string(o) }

// Report is what a trial found. Times are milliseconds; what was not measured
// is null.
type Report struct {
	ID         string    `json:"id"` // of the time it began, in UTC: sorts by time
	Version    string    `json:"version"`
	Started    time.Time `json:"started"`
	Ended      time.Time `json:"ended"`
	Quick      bool      `json:"quick"`    // a smaller workload than the contract's
	Distinct   bool      `json:"distinct"` // see Options
	DeadlineMS int64     `json:"deadline_ms"`
	Requests   int       `json:"requests"` // of all paths
	Verdict    Verdict   `json:"verdict"`

	Paths     []Path      `json:"paths"`
	Rows      []Row       `json:"rows"`
	Agreement []Agreement `json:"agreement"` // of the first path with each other one

	AtEnd   *AtEnd   `json:"at_end"` // null when no path has a gate
	Others  *Others  `json:"others"` // likewise
	Cache   *Cache   `json:"cache"`  // null when no path has one
	GPU     GPU      `json:"gpu"`
	Machine Machine  `json:"machine"`
	Notes   []Note   `json:"notes"`   // what to know when reading it; never null
	Caveats []Caveat `json:"caveats"` // what it does not prove; never null
	Samples []Sample `json:"samples"` // every request, by path and step
}

// Path is one way to an engine.
type Path struct {
	Name   string `json:"name"`
	Gated  bool   `json:"gated"` // its requests wait in the gate
	Engine Engine `json:"engine"`
}

// Engine is what made the vectors.
type Engine struct {
	Generation  uint64   `json:"generation"` // counts starts of the process
	Fingerprint string   `json:"fingerprint"`
	Model       string   `json:"model"`
	Build       string   `json:"build"`
	Profile     string   `json:"profile"`
	Flags       []string `json:"flags"`
	Dimension   int      `json:"dimension"`
	MaxTokens   int      `json:"max_tokens"` // longest input; 0 = not known
	Normalized  bool     `json:"normalized"` // its vectors have length 1
}

// Row is one step of one path.
type Row struct {
	Path string `json:"path"`
	Step
	Tokens    int             `json:"tokens"` // of each input
	OK        int             `json:"ok"`
	Outcomes  map[Outcome]int `json:"outcomes"`  // of all requests; absent = 0
	Finite    int             `json:"finite"`    // answers whose every component is a finite number
	Dimension int             `json:"dimension"` // of the valid ones; 0 = there is none
	NormMin   *float64        `json:"norm_min"`
	NormMax   *float64        `json:"norm_max"`
	ElapsedMS float64         `json:"elapsed_ms"` // of the whole step

	// Of the valid answers in time, by nearest rank.
	P50MS *float64 `json:"p50_ms"`
	P95MS *float64 `json:"p95_ms"`
	MaxMS *float64 `json:"max_ms"`

	// LongestWaitMS is what the gate said of the client that waited longest,
	// looked at every few milliseconds; null where no gate is passed.
	LongestWaitMS *float64 `json:"longest_wait_ms"`

	RequestsPerSecond float64 `json:"requests_per_second"` // valid ones
	TokensPerSecond   float64 `json:"tokens_per_second"`   // of valid ones
}

// Sample is one request.
type Sample struct {
	Path        string   `json:"path"`
	Concurrency int      `json:"concurrency"`
	Size        Size     `json:"size"`
	Input       int      `json:"input"`      // which of the inputs; the same number is the same text on every path
	StartedMS   float64  `json:"started_ms"` // since the trial began
	ElapsedMS   float64  `json:"elapsed_ms"`
	Outcome     Outcome  `json:"outcome"`
	Code        string   `json:"code,omitempty"` // of what went wrong
	Finite      bool     `json:"finite"`
	Dimension   int      `json:"dimension"` // 0 = no vector came
	Norm        *float64 `json:"norm"`

	took time.Duration
}

// Agreement is how alike two paths' vectors of the same texts are.
type Agreement struct {
	Paths          [2]string `json:"paths"`
	Compared       int       `json:"compared"` // texts that both have a valid vector of
	Equal          int       `json:"equal"`    // no component differs by more than 1e-6
	Different      int       `json:"different"`
	MinCosine      *float64  `json:"min_cosine"`
	MaxDifference  *float64  `json:"max_difference"`  // of a component
	RequiredCosine *float64  `json:"required_cosine"` // null = the paths need not agree
}

// AtEnd is the gate after the last request.
type AtEnd struct {
	Executing  int `json:"executing"`
	Draining   int `json:"draining"`
	Waiting    int `json:"waiting"`
	Background int `json:"background"` // of executing and draining: work for the index, which may go on
}

// Clients is how many requests of clients are in the gate.
func (e *AtEnd) Clients() int { return e.Executing + e.Draining - e.Background + e.Waiting }

// Others is what else went through the gate meanwhile, indexing included.
type Others struct {
	Requests int64 `json:"requests"`
	Refused  int64 `json:"refused"` // of them, for a full queue or too long a wait
}

// Cache is where the vectors of the gated paths came from, all requests of
// that time counted.
type Cache struct {
	Hits   uint64 `json:"hits"`
	Joins  uint64 `json:"joins"`
	Misses uint64 `json:"misses"` // computed
}

// GPU is the load that other programs put on the GPU during the run.
type GPU struct {
	Available  bool     `json:"available"`
	Reason     string   `json:"reason,omitempty"`      // code: why it is not
	OthersMean *float64 `json:"others_mean,omitempty"` // share, 0 … 1
	OthersMax  *float64 `json:"others_max,omitempty"`
}

// Machine is where it ran.
type Machine struct {
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	CPU    string `json:"cpu"` // empty = not known
	CPUs   int    `json:"cpus"`
	Memory int64  `json:"memory"` // bytes; 0 = not known
}

// Note is something to know when reading a report.
type Note string

const (
	NoteDeadline Note = "deadline" // shorter than the gateway may take; see FullDeadline
	NoteQuick    Note = "quick"    // the smaller workload
	NoteShort    Note = "short"    // without the inputs that an engine does not take
	NoteMarked   Note = "marked"   // inputs of a size differ in their beginnings alone
	NoteDistinct Note = "distinct" // inputs have nothing in common
	NoteHeld     Note = "held"     // clients waited while requests went past the gate
	NoteOthers   Note = "others"   // other requests ran meanwhile
	NoteNoGPU    Note = "no_gpu"   // the GPU's load is not known
)

func (n Note) String() string { return string(n) }

// Caveat is something that a trial does not prove.
type Caveat string

const (
	CaveatSmallSample Caveat = "small_sample" // p95 of ten requests is no promise
	CaveatWorkloads   Caveat = "workloads"    // other workloads, machines, models cannot be compared with it
)

func (c Caveat) String() string { return string(c) }

// Verdict is what the trial comes to.
type Verdict struct {
	Pass    bool     `json:"pass"`
	Reasons []Reason `json:"reasons"` // why not; never null
}

// Reason is why a trial failed.
type Reason struct {
	Code ReasonCode        `json:"code"`
	Args map[string]string `json:"args,omitempty"` // placeholders of the code's sentence
}

// ReasonCode names a reason.
type ReasonCode string

const (
	ReasonLate          ReasonCode = "late"           // {path}, {count}, {seconds}
	ReasonInvalid       ReasonCode = "invalid"        // {path}, {count}, {codes}
	ReasonFailed        ReasonCode = "failed"         // {path}, {count}, {codes}
	ReasonDifferent     ReasonCode = "different"      // {a}, {b}, {count}, {cosine}
	ReasonNotIdle       ReasonCode = "not_idle"       // {executing}, {draining}, {waiting}
	ReasonEngineChanged ReasonCode = "engine_changed" // {path}
	ReasonCached        ReasonCode = "cached"         // {computed}, {asked}: the engine did not do the work
)

func (c ReasonCode) String() string { return string(c) }
