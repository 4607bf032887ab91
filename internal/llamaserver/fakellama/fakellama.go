// Package fakellama is a stand-in for llama-server that produces faults on
// demand: slow loads, crashes, hangs, ignored signals, vectors that are not
// numbers. What the real program can show is tested with the real program.
//
// For tests only. The test binary plays the program: TestMain calls Main first
// (after process.GuardMain), and Install writes a script that starts it so.
package fakellama

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Mode says what is wrong with the vectors.
type Mode string

const (
	Good      Mode = ""          // unit vectors, one for each input
	Null      Mode = "null"      // every component JSON null, as llama-server writes NaN
	NaN       Mode = "nan"       // base64 of NaN bits
	Zero      Mode = "zero"      // the zero vector
	Count     Mode = "count"     // one vector too few
	Dimension Mode = "dimension" // the second and later vectors are one component short
	Short     Mode = "short"     // all of them are: as many as the model's file tells, less one
	Error     Mode = "error"     // HTTP 500
	Hang      Mode = "hang"      // no answer at all
)

// Faults is how the program behaves. Those of the start are read once, those
// of a request at every request, so Set changes a running one.
type Faults struct {
	// At the start.
	RefuseFlag string `json:"refuse_flag"`  // this flag is an invalid argument
	ExitAtLoad bool   `json:"exit_at_load"` // ends with status 1 instead of getting ready
	LoadMS     int    `json:"load_ms"`      // how long /health says 503
	IgnoreTerm bool   `json:"ignore_term"`  // SIGTERM has no effect
	NoListen   bool   `json:"no_listen"`    // never opens its socket

	// At every request. With says that all of it is so only for a program that
	// was started with this flag and value; empty = for any.
	With string `json:"with"`

	HangHealth bool `json:"hang_health"` // /health does not answer
	SickHealth bool `json:"sick_health"` // /health answers 500
	Vectors    Mode `json:"vectors"`
	DelayMS    int  `json:"delay_ms"` // before an embedding is answered
	Crash      bool `json:"crash"`    // an embedding ends the program with status 3

	// Of inputs that contain the text; empty = none.
	StickyOn string `json:"sticky_on"` // from it on every vector is NaN until the program ends
	HangOn   string `json:"hang_on"`   // no answer at all
	BusyOn   string `json:"busy_on"`   // computes for two seconds before it answers
	CrashOn  string `json:"crash_on"`  // ends the program with status 3
	AlarmOn  string `json:"alarm_on"`  // writes the line a GPU's watchdog leaves in the log, and does not answer

	// FirstLife says that those of inputs are over once the program was started anew.
	FirstLife bool `json:"first_life"`

	Overlap bool    `json:"overlap"` // vectors of requests that run at the same time are NaN
	Sticks  bool    `json:"sticks"`  // with Overlap: and all after them
	Drift   float64 `json:"drift"`   // every vector has this cosine to what it should be; 0 = 1
	Noise   int     `json:"noise"`   // lines written to the log for an embedding
}

// Alarm is the line that ggml-metal writes when macOS gave up on a computation.
const Alarm = "ggml_metal_synchronize: error: command buffer 0 failed with status 5"

// Dim is the number of components of its vectors.
const Dim = 8

// Fake is an installed program.
type Fake struct {
	Path   string // to be started as llama-server
	Model  string // a GGUF file with nothing but a header
	faults string
	starts string
}

const variable = "ONDOL_FAKE_LLAMA"

// Install writes the program and a model into a folder of the test.
func Install(t testing.TB, faults Faults) *Fake {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	f := &Fake{
		Path: filepath.Join(dir, "llama-server"), Model: filepath.Join(dir, "fake-model.gguf"),
		faults: filepath.Join(dir, "faults.json"), starts: filepath.Join(dir, "starts"),
	}
	f.Set(t, faults)
	script := fmt.Sprintf("#!/bin/sh\n%s='%s' exec '%s' \"$@\"\n", variable, dir, own)
	if err := os.WriteFile(f.Path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.Model, header(), 0o644); err != nil {
		t.Fatal(err)
	}
	return f
}

// Set changes how the program behaves from now on.
func (f *Fake) Set(t testing.TB, faults Faults) {
	t.Helper()
	raw, err := json.Marshal(faults)
	if err != nil {
		t.Fatal(err)
	}
	// Renamed into place: the program never reads half of it.
	if err := os.WriteFile(f.faults+".new", raw, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(f.faults+".new", f.faults); err != nil {
		t.Fatal(err)
	}
}

// Starts is how many times the program was started to serve.
func (f *Fake) Starts(t testing.TB) int {
	t.Helper()
	raw, err := os.ReadFile(f.starts)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(raw), "\n")
}
