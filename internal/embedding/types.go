package embedding

import (
	"context"
	"fmt"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/canary"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/trust"
	"github.com/ondol-app/ondol/internal/upstream"
	"github.com/ondol-app/ondol/internal/vector"
)

// Engine is the supervised engine as this package needs it.
type Engine interface {
	// Current is the instance to use now, or one that is asleep. An error,
	// best an *UnavailableError, means there is none.
	Current() (Instance, error)

	// Borrow is Current for whoever is about to use the instance's client;
	// there is an error while it is asleep. Another may succeed it meanwhile,
	// but for that it is not ended before done was called, which is once, and
	// never when there is an error.
	Borrow() (instance Instance, done func(), err error)

	// Wake has an instance that is asleep started, and returns at once.
	Wake()

	// Replace ends the instance of that generation, whatever state it is in,
	// and returns when its process is gone; at once when it is gone already.
	Replace(ctx context.Context, generation uint64, fault trust.Fault) error

	// End says how the instance of that generation ended; EndNone while it has
	// not.
	End(generation uint64) trust.End

	// Changed returns a channel that gets a value after what Current says may
	// have changed, and a function that ends this.
	Changed() (changed <-chan struct{}, stop func())
}

// Checker looks, with canaries, whether an instance is still sound. It asks
// for a turn before every step. An error means that nothing was found out.
type Checker interface {
	Recheck(ctx context.Context, generation uint64, turn canary.Turn) (canary.Result, error)
}

// Quarantine remembers, over restarts of the app, which texts an engine is not
// given again. It is bounded: the oldest are forgotten.
type Quarantine interface {
	Quarantined(ctx context.Context, fingerprint string) ([]trust.Quarantined, error) // newest first; of all when empty
	Arrest(ctx context.Context, q trust.Quarantined) error
	Release(ctx context.Context, hash string) (released int, err error) // of all when empty
}

// Client is one instance's connection; *llamaclient.Client is one.
type Client interface {
	Embed(ctx context.Context, inputs []string, want vector.Expect) (llamaclient.Reply, error)
	CountTokens(ctx context.Context, texts []string) ([]int, error)
}

// Instance is one life of the engine, from ready to its end.
type Instance struct {
	Generation  uint64 // rises with every start
	Client      Client
	Model       string // name shown to clients
	Dim         int    // components of a vector
	MaxTokens   int    // longest input, special tokens included; 0 = not known
	BatchTokens int    // tokens of one engine call at which it is split; 0 = by number alone
	Fingerprint string // of model, build, flags and dimension: what makes vectors comparable

	// Unnormalized says that vectors need not have norm 1. llama-server
	// normalises unless told otherwise, so the zero value is the strict one.
	Unnormalized bool

	// Probe is what it answered to canary.Probe when it was checked; nil = not known.
	Probe []float32

	// OneAtATime says that its vectors are right only when it computes one
	// text at a time.
	OneAtATime bool

	// Asleep says that it was unloaded because nobody used it, and that Wake
	// brings back another like it, or is about to; Client must not be used.
	Asleep bool

	// Checked is when it was begun to be found good.
	Checked time.Time
}

// Request is one caller's wish.
type Request struct {
	Lane   admission.Lane
	Inputs []string // at least one; UTF-8

	// Truncate cuts an input that is too long instead of refusing it, at the
	// end, to as many tokens as the engine takes.
	Truncate bool
}

// Result is a valid answer.
type Result struct {
	Vectors     [][]float32 // in input order, each of Dim components; shared, never to be written to
	Tokens      int         // of all inputs, special tokens included
	Model       string
	Fingerprint string
	Dim         int

	Truncated []int // inputs that were cut, rising; nil unless Request.Truncate
	Cached    int   // inputs that were known already
	Joined    int   // inputs that another request was computing
}

// Info describes what the engine makes now.
type Info struct {
	Model       string
	Dim         int
	MaxTokens   int
	Fingerprint string
}

// Validity tells how the replies were judged since the start.
type Validity struct {
	Checked     uint64          `json:"checked"`                // vectors found valid
	Rejected    uint64          `json:"rejected"`               // replies found invalid
	LastInvalid *time.Time      `json:"last_invalid,omitempty"` // nil = never
	LastReasons []vector.Reason `json:"last_reasons,omitempty"` // of that reply, each once
	Quarantined int             `json:"quarantined"`            // texts the present engine is not given
}

// CacheStats tells where vectors came from since the start, by distinct texts
// of requests, and what is kept.
type CacheStats struct {
	Hits      uint64 `json:"hits"`       // known already
	Misses    uint64 `json:"misses"`     // computed, or tried to
	Joins     uint64 `json:"joins"`      // waited for while another request computed them
	Entries   int    `json:"entries"`    // in memory
	Bytes     int64  `json:"bytes"`      // in memory
	DiskBytes int64  `json:"disk_bytes"` // 0 when nothing is kept on disk
}

// UnavailableError says that there is no engine to ask; 503 to a client.
type UnavailableError = upstream.UnavailableError

// TooLongError says that an input does not fit the engine. It is cut only when
// the request says so.
type TooLongError struct {
	Index  int // in Request.Inputs
	Tokens int // of the input, special tokens included
	Limit  int // of the engine

	AtLeast bool // the input was not counted to its end: it has at least Tokens
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("input %d has %s tokens, the engine takes at most %d; shorten or split it", e.Index, e.Count(), e.Limit)
}

// Count is Tokens in words: "9001", "at least 9001".
func (e *TooLongError) Count() string {
	if e.AtLeast {
		return fmt.Sprintf("at least %d", e.Tokens)
	}
	return fmt.Sprint(e.Tokens)
}

// TimeoutError says that the engine did not answer in time; 504 to a client.
type TimeoutError = upstream.TimeoutError
