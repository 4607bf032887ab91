package cli

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/ondol-app/ondol/internal/control"
)

// errNotRunning means that nobody answers on the control socket.
var errNotRunning = &exitError{code: exitNotRunning, err: &complaint{code: "not_running", key: "error.not_running"}}

// client speaks to the running app of this home.
func (c *commands) client() (*control.Client, error) {
	paths, err := c.paths()
	if err != nil {
		return nil, err
	}
	if err := paths.CheckRun(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, errNotRunning
		}
		return nil, err
	}
	return control.NewClient(paths.ControlSocket()), nil
}

// json writes a value; in a stream every value is one line.
func (c *commands) json(value any, stream bool) error {
	if !stream {
		return writeJSON(c.term.out, value)
	}
	encoder := json.NewEncoder(c.term.out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// clear empties the screen for the next look.
func (t *terminal) clear() { io.WriteString(t.out, "\x1b[H\x1b[2J") }

// progress shows how long work goes on: one line that is written over on a
// terminal, a line for each change elsewhere, nothing for a program. It goes
// to standard error, since it is not the answer.
type progress struct {
	c    *commands
	last string
}

func (c *commands) progress() *progress { return &progress{c: c} }

func (p *progress) step(text string) {
	if p.c.asJSON || text == p.last {
		return
	}
	p.last = text
	if p.c.term.repaints {
		io.WriteString(p.c.term.err, "\r\x1b[K"+fit(text, p.c.term.columns-1))
		return
	}
	io.WriteString(p.c.term.err, text+"\n")
}

func (p *progress) end() {
	if p.last != "" && p.c.term.repaints {
		io.WriteString(p.c.term.err, "\r\x1b[K")
	}
}

// totals is what became of the requests so far, most frequent first.
func totals[K ~string, N int | int64 | uint64](say sayer, counts map[K]N) string {
	var parts []string
	for _, outcome := range byCount(counts) {
		if counts[outcome] > 0 {
			parts = append(parts, say("totals."+string(outcome), "count", counts[outcome]))
		}
	}
	return strings.Join(parts, " · ")
}

// byCount is the keys, largest count first, equal counts by name.
func byCount[K ~string, N int | int64 | uint64](counts map[K]N) []K {
	keys := slices.Sorted(maps.Keys(counts))
	slices.SortStableFunc(keys, func(a, b K) int {
		switch {
		case counts[a] > counts[b]:
			return -1
		case counts[a] < counts[b]:
			return 1
		}
		return 0
	})
	return keys
}
