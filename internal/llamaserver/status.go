package llamaserver

import (
	"fmt"
	"time"

	"github.com/ondol-app/ondol/internal/canary"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/trust"
)

// State is where the engine stands; see design.md.
type State string

const (
	Stopped  State = "stopped"  // nobody wants it to run
	Starting State = "starting" // looking for program and model, sweeping, starting
	Loading  State = "loading"  // the process runs and reads the model
	Checking State = "checking" // it says ok; a probe is embedded
	Ready    State = "ready"    // its vectors may be used
	Degraded State = "degraded" // was ready, does not answer its health check; requests are still sent
	Draining State = "draining" // being ended
	Unloaded State = "unloaded" // ended because nobody used it; the next request starts it
	Failed   State = "failed"   // ended by itself; Status.RetryAt says when it is tried again, if at all
)

func (s State) String() string { return string(s) }

// Cause says why the state was entered.
type Cause string

const (
	CauseRequested Cause = "requested"    // a person or the app's start asked for it
	CauseProgress  Cause = "progress"     // the step before succeeded
	CauseRetry     Cause = "retry"        // the back-off is over
	CauseProblem   Cause = "problem"      // Status.LastError tells which
	CauseBudget    Cause = "budget_spent" // a problem too many in too short a time
	CauseReplaced  Cause = "replaced"     // its user no longer trusts it
	CauseShutdown  Cause = "shutdown"     // the app ends
	CauseIdle      Cause = "idle"         // nobody used it for long
	CauseWoken     Cause = "woken"        // somebody wants to use it again
)

func (c Cause) String() string { return string(c) }

// Code names a problem; sentences for people are made from it elsewhere.
type Code string

const (
	CodeBinaryMissing  Code = "binary_missing"  // no llama-server found
	CodeBinaryUnusable Code = "binary_unusable" // it does not run
	CodeModelMissing   Code = "model_missing"
	CodeModelInvalid   Code = "model_invalid"  // not a GGUF file
	CodeFlagsRejected  Code = "flags_rejected" // this version does not know a flag
	CodeRunDir         Code = "run_dir_unusable"
	CodeMemory         Code = "memory_short"     // it needs more memory than there is; Args: need, budget, smaller
	CodeGPUMemory      Code = "gpu_memory_short" // and this on the GPU; Args: gpu, working_set, smaller
	CodeSocketTooLong  Code = "socket_too_long"
	CodeSocketTaken    Code = "socket_taken"   // somebody else listens there
	CodeOtherInstance  Code = "other_instance" // the recorded engine belongs to a running app
	CodeOrphan         Code = "orphan_alive"   // an orphan could not be ended
	CodeStart          Code = "start_failed"   // the process could not be started
	CodeLoadExit       Code = "exit_at_load"   // it ended before it was ready
	CodeLoadTimeout    Code = "load_timeout"   // it was not ready in time
	CodeProbe          Code = "probe_invalid"  // its vectors are not valid
	CodeProbeFailed    Code = "probe_failed"   // it did not answer the probe
	CodeCrash          Code = "crash"          // it ended while in use
	CodeUnresponsive   Code = "unresponsive"   // health checks failed in a row
	CodeReplaced       Code = "replaced"       // Replace was called
	CodePoisoned       Code = "poisoned"       // its vectors were wrong for a text that it had right before
	CodeHang           Code = "hang"           // it did not answer a request in time
	CodeWatchdog       Code = "watchdog"       // it said itself that it does not compute any more
	CodeCanaryInvalid  Code = "canary_invalid" // see package canary
	CodeCanaryDrift    Code = "canary_drift"
	CodeCanaryTogether Code = "canary_together"
	CodeStuck          Code = "stuck" // its exit was never seen
)

// Remedy names what helps against a problem.
type Remedy string

const (
	RemedyInstall   Remedy = "install_llama_server"
	RemedyModel     Remedy = "choose_model"
	RemedyFlags     Remedy = "check_flags"
	RemedyProfile   Remedy = "choose_profile" // Args: smaller
	RemedySmaller   Remedy = "choose_smaller_model"
	RemedyHome      Remedy = "change_home"
	RemedyQuitOther Remedy = "quit_other_instance"
	RemedyLog       Remedy = "read_log"
	RemedyReboot    Remedy = "restart_machine"
)

var remedies = map[Code]Remedy{
	CodeBinaryMissing: RemedyInstall, CodeBinaryUnusable: RemedyInstall,
	CodeModelMissing: RemedyModel, CodeModelInvalid: RemedyModel,
	CodeFlagsRejected: RemedyFlags,
	CodeRunDir:        RemedyHome, CodeSocketTooLong: RemedyHome,
	CodeSocketTaken: RemedyQuitOther, CodeOtherInstance: RemedyQuitOther,
	CodeOrphan: RemedyReboot, CodeStuck: RemedyReboot,
}

// permanent problems stay until a person changes something: no restart is tried.
var permanent = map[Code]bool{
	CodeBinaryMissing: true, CodeModelMissing: true, CodeModelInvalid: true, CodeFlagsRejected: true,
	CodeMemory: true, CodeGPUMemory: true, CodeRunDir: true, CodeSocketTooLong: true, CodeSocketTaken: true, CodeOtherInstance: true, CodeOrphan: true, CodeStuck: true,
}

// Problem is why the engine is not, or was not, usable.
type Problem struct {
	Code    Code              `json:"code"`
	Message string            `json:"message"` // English, one line, names the remedy where there is one
	Remedy  Remedy            `json:"remedy"`
	Args    map[string]string `json:"args,omitempty"` // placeholders of the sentences of code and remedy; may be nil
	Log     []string          `json:"log,omitempty"`  // the engine's last lines, oldest first
	At      time.Time         `json:"at"`

	inputs []trust.Input // that the engine had; for evidence
}

func (p *Problem) Error() string { return string(p.Code) + ": " + p.Message }

func problem(code Code, format string, args ...any) *Problem {
	remedy, known := remedies[code]
	if !known {
		remedy = RemedyLog
	}
	return &Problem{Code: code, Message: fmt.Sprintf(format, args...), Remedy: remedy}
}

// Model is the file the engine runs. Dimension, Context, MaxTokens and SHA256
// are known once it was ready.
type Model struct {
	Path         string `json:"path"`
	Name         string `json:"name"`         // file name without .gguf
	Architecture string `json:"architecture"` // of the GGUF header: "qwen3", "bert" …
	Dimension    int    `json:"dimension"`    // components of a vector
	Context      int    `json:"context"`      // tokens of one slot
	MaxTokens    int    `json:"max_tokens"`   // longest input, tokens
	SHA256       string `json:"sha256"`
}

// Memory is what the engine takes, estimated before it was started, and what
// it may take, bytes.
type Memory struct {
	Need       int64 `json:"need"`
	GPU        int64 `json:"gpu"` // of Need, what the GPU must reach
	Budget     int64 `json:"budget"`
	WorkingSet int64 `json:"working_set"` // of the GPU; 0 = not told apart
}

// Probe is the last embedding made to see whether the engine's vectors are valid.
type Probe struct {
	OK bool       `json:"ok"`
	At *time.Time `json:"at,omitempty"` // nil before the first
}

// Status is the engine at one moment. It is a value; nothing in it is shared.
type Status struct {
	State       State      `json:"state"`
	Cause       Cause      `json:"cause"`
	Since       time.Time  `json:"since"`
	Generation  uint64     `json:"generation"` // counts starts; 0 before the first
	PID         int        `json:"pid"`        // 0 when no process runs
	Restarts    int        `json:"restarts"`   // automatic ones since the app started
	Binary      string     `json:"binary"`     // path of llama-server, once found
	Version     string     `json:"version"`    // as it tells it
	Profile     string     `json:"profile"`
	Flags       []string   `json:"flags"` // every argument it was started with
	Model       Model      `json:"model"`
	Memory      *Memory    `json:"memory,omitempty"`     // nil when it was not checked
	Fingerprint string     `json:"fingerprint"`          // names the numbers it makes; once it was ready
	LastError   *Problem   `json:"last_error,omitempty"` // stays after a recovery
	RetryAt     *time.Time `json:"retry_at,omitempty"`   // only in state failed
	Probe       Probe      `json:"probe"`
	LoadMS      int64      `json:"load_ms"` // from start to ready, of the last engine that got there; 0 = none did

	Canary     *canary.Result `json:"canary,omitempty"`        // the last; nil before the first
	OneAtATime *OneAtATime    `json:"one_at_a_time,omitempty"` // nil = several texts at once are fine
}

// Instance is one started engine that was found good. It stays valid for
// reading after the engine is gone; its Client then fails.
type Instance struct {
	Generation  uint64
	Client      *llamaclient.Client
	ModelName   string
	Dim         int       // components of a vector
	MaxTokens   int       // longest input, tokens
	BatchTokens int       // tokens worth sending in one call
	Slots       int       // inputs computed at once
	Checked     time.Time // when it was begun to be found good
	Normalized  bool      // vectors have length 1
	Fingerprint string    // vectors are compared only within one fingerprint

	Probe      []float32 // what it answered to canary.Probe; nil for roles that make no vectors
	OneAtATime bool      // its vectors are right only when it computes one text at a time

	canaries *canaries // nil for roles that make no vectors
}

// NotReadyError says that there is no engine to ask just now.
type NotReadyError struct {
	State      State
	RetryAfter time.Duration // estimate, at least a second
	Final      bool          // nobody but a person will start one

	// Asleep is the engine that was unloaded, as it was, without its process;
	// nil unless Wake, or Awaken, brings it back. It is still set while it comes.
	Asleep *Instance
}

func (e *NotReadyError) Error() string {
	return fmt.Sprintf("the engine is %s; try again in %v", e.State, e.RetryAfter.Round(time.Second))
}
