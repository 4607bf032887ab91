package trial

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Shelf keeps the last reports, one file each, in a folder of its own.
type Shelf struct {
	Dir  string // made when it is needed
	Keep int    // reports; the oldest go
}

const shelfSuffix = ".json"

// Save puts a report on the shelf, whole or not at all, and takes the oldest
// away.
func (s Shelf) Save(r Report) (err error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of reports: %w", err)
	}
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	aside, err := os.CreateTemp(s.Dir, ".report-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	_, err = aside.Write(body)
	err = errors.Join(err, aside.Close())
	if err == nil {
		err = os.Rename(aside.Name(), filepath.Join(s.Dir, r.ID+shelfSuffix))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write report: %w", err), os.Remove(aside.Name()))
	}
	return s.clear()
}

// clear removes what is too much, and what a save that was cut short left.
func (s Shelf) clear() error {
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return fmt.Errorf("clear the reports: %w", err)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".report-") {
			err = errors.Join(err, os.Remove(filepath.Join(s.Dir, entry.Name())))
		}
	}
	names := reportNames(entries)
	for _, name := range names[:max(len(names)-s.Keep, 0)] {
		err = errors.Join(err, os.Remove(filepath.Join(s.Dir, name)))
	}
	return err
}

// List is the reports, newest first. One that cannot be read is left out: it
// is of another version, or damaged, and says nothing.
func (s Shelf) List() ([]Report, error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return []Report{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the reports: %w", err)
	}
	reports := []Report{}
	for _, name := range slices.Backward(reportNames(entries)) {
		body, err := os.ReadFile(filepath.Join(s.Dir, name))
		if err != nil {
			return nil, fmt.Errorf("read report: %w", err)
		}
		var r Report
		if json.Unmarshal(body, &r) == nil && r.ID+shelfSuffix == name {
			reports = append(reports, r)
		}
	}
	return reports, nil
}

// reportNames are the files of reports, oldest first.
func reportNames(entries []os.DirEntry) []string {
	var names []string
	for _, entry := range entries { // sorted by name, so by time
		if name := entry.Name(); entry.Type().IsRegular() && strings.HasSuffix(name, shelfSuffix) && !strings.HasPrefix(name, ".") {
			names = append(names, name)
		}
	}
	return names
}
