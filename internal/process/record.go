package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// sweepWait is how long a killed orphan may take to be gone; a process that
// holds tens of gigabytes needs a moment to give them back.
const sweepWait = 10 * time.Second

// Record is what is kept on disk about a running child, so that a later start
// can tell an orphan of ours from a stranger.
type Record struct {
	Child Identity `json:"child"`
	Owner Identity `json:"owner"` // the app that started it
}

// OwnedError means that the record's child belongs to another app that is alive.
type OwnedError struct{ Owner, Child int }

func (e *OwnedError) Error() string {
	return fmt.Sprintf("process %d belongs to another running instance (process %d): quit that one first", e.Child, e.Owner)
}

// StillAliveError means that a process was killed and is not gone.
type StillAliveError struct{ PID int }

func (e *StillAliveError) Error() string {
	return fmt.Sprintf("process %d was killed and is still there: restart the machine if it stays", e.PID)
}

// Swept tells what a sweep found.
type Swept struct {
	PID    int  // 0 when there was no record
	Killed bool // an orphan was there and is gone now
}

// Sweep ends the orphan that the record at path tells of and removes the
// record. It kills only when process id, start time and executable match; a
// record without a living process is just removed. *OwnedError when the app
// that wrote it is alive and is not this one; *StillAliveError when the kill
// had no effect.
func Sweep(path string) (Swept, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Swept{}, nil
	}
	if err != nil {
		return Swept{}, fmt.Errorf("read process record: %w", err)
	}
	var record Record
	if err := json.Unmarshal(raw, &record); err != nil {
		// Half a record names nobody for sure, and nobody is killed on a guess.
		return Swept{}, removeRecord(path)
	}
	swept := Swept{PID: record.Child.PID}
	if record.Owner.PID != os.Getpid() && record.Owner.Alive() && record.Child.Alive() {
		return swept, &OwnedError{Owner: record.Owner.PID, Child: record.Child.PID}
	}
	swept.Killed, err = record.Child.destroy(sweepWait)
	if err != nil {
		return swept, fmt.Errorf("end orphan: %w", err)
	}
	return swept, removeRecord(path)
}

func writeRecord(path string, child Identity) error {
	if path == "" {
		return nil
	}
	raw, err := json.Marshal(Record{Child: child, Owner: Identify(os.Getpid())})
	if err != nil {
		return fmt.Errorf("write process record: %w", err)
	}
	// Renamed into place: a crash leaves the old record or the new one, never half of one.
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("write process record: %w", err)
	}
	_, err = tmp.Write(raw)
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write process record: %w", errors.Join(err, os.Remove(tmp.Name())))
	}
	return nil
}

func removeRecord(path string) error {
	if path == "" {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove process record: %w", err)
	}
	return nil
}
