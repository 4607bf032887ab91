package engines

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/ondol-app/ondol/internal/llamaserver"
)

// State is everything about the engine beside the live one. It is a value;
// nothing in it is written to after it was handed out.
type State struct {
	Phase     Phase      `json:"phase"`
	Since     time.Time  `json:"since"`
	Live      Setup      `json:"live"`
	Candidate *Candidate `json:"candidate,omitempty"` // the present one, or else the last; nil before the first
	Earlier   *Earlier   `json:"earlier,omitempty"`   // what a rollback brings back; nil when there is none
	Probation *time.Time `json:"probation,omitempty"` // when the engine that was promoted has proved itself
}

// Candidate is an engine that was tried, or is being.
type Candidate struct {
	Order    Order                `json:"order"`
	Setup    Setup                `json:"setup"`
	Model    string               `json:"model"`              // its file's name without .gguf
	Rollback bool                 `json:"rollback,omitempty"` // it served before, and is to again
	At       time.Time            `json:"at"`                 // when it was ordered
	Outcome  Outcome              `json:"outcome"`
	Engine   *llamaserver.Status  `json:"engine,omitempty"` // as it is, or was last
	Progress *Progress            `json:"progress,omitempty"`
	Verdict  *Verdict             `json:"verdict,omitempty"`
	Problem  *llamaserver.Problem `json:"problem,omitempty"` // why it failed, or its promotion was undone
}

// Outcome is what has become of a candidate.
type Outcome string

const (
	Pending    Outcome = "pending"     // nothing yet
	Passed     Outcome = "passed"      // every check
	Refused    Outcome = "refused"     // a check failed: see the verdict
	Failed     Outcome = "failed"      // it did not start, or broke: see the problem
	Dropped    Outcome = "dropped"     // not wanted any more
	Promoted   Outcome = "promoted"    // it is live, on probation
	Proved     Outcome = "proved"      // it is live, and the settings are its own
	RolledBack Outcome = "rolled_back" // it was live; the earlier engine is again
)

func (o Outcome) String() string { return string(o) }

// Progress is how far the work under way has come.
type Progress struct {
	Step  Step `json:"step"`
	Done  int  `json:"done"`
	Total int  `json:"total"`
	Waits Wait `json:"waits,omitempty"` // why it does not go on
}

// Step is a piece of work on a candidate.
type Step string

const (
	StepEmbed Step = "embed" // the texts that are compared
	StepTrial Step = "trial" // the requests of the trial
	StepFill  Step = "fill"  // the index is filled with its vectors
)

func (s Step) String() string { return string(s) }

// Wait is why work does not go on.
type Wait string

const (
	NoWait        Wait = ""
	WaitsClients  Wait = "clients"        // clients are served first
	WaitsNoPermit Wait = "background_off" // the settings give work for the index no permit
)

func (w Wait) String() string { return string(w) }

// Earlier is the engine that was live before.
type Earlier struct {
	Setup       Setup     `json:"setup"`
	Fingerprint string    `json:"fingerprint"`
	Until       time.Time `json:"until"` // so long it can be brought back
}

// record is what outlives the app.
type record struct {
	Candidate *Candidate `json:"candidate,omitempty"`
	Earlier   *Earlier   `json:"earlier,omitempty"`
}

// load reads the record; none, or a damaged one, is an empty one, for nothing
// that serves depends on it.
func load(path string) (record, error) {
	var r record
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || path == "" {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		return record{}, fmt.Errorf("read what is known of candidates: %w", err)
	}
	if c := r.Candidate; c != nil {
		c.Progress = nil
		switch c.Outcome { // the app ended first, and its engine with it
		case Pending:
			c.Outcome = Dropped
		case Promoted:
			c.Outcome = RolledBack // the settings are those of the earlier one
		}
	}
	return r, nil
}

func (r record) save(path string) error {
	if path == "" {
		return nil
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(raw)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name()) // half a record is none
	}
	return err
}
