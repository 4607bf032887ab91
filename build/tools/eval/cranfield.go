package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// collection is documents, questions, and which documents answer which.
type collection struct {
	documents []entry
	queries   []entry
	relevant  []map[string]bool // by query: ids of documents
}

type entry struct{ id, title, text string }

// readCranfield reads the three files of the Cranfield 1400 collection.
func readCranfield(dir string) (collection, error) {
	var c collection
	var err error
	if c.documents, err = readEntries(filepath.Join(dir, "cran.all.1400")); err != nil {
		return c, err
	}
	if c.queries, err = readEntries(filepath.Join(dir, "cran.qry")); err != nil {
		return c, err
	}
	c.relevant = make([]map[string]bool, len(c.queries))
	for i := range c.relevant {
		c.relevant[i] = make(map[string]bool)
	}
	f, err := os.Open(filepath.Join(dir, "cranqrel"))
	if err != nil {
		return c, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// Query (1 … 225 in the order of the file, whatever its .I says), document, grade.
		var query, doc, grade int
		if _, err := fmt.Sscan(lines.Text(), &query, &doc, &grade); err != nil {
			return c, fmt.Errorf("read judgement %q: %w", lines.Text(), err)
		}
		if query < 1 || query > len(c.queries) {
			return c, fmt.Errorf("judgement for query %d of %d", query, len(c.queries))
		}
		if grade >= 1 && grade <= 4 { // -1 and 5: of no interest
			c.relevant[query-1][strconv.Itoa(doc)] = true
		}
	}
	return c, nil
}

// readEntries reads SMART's format: .I starts an entry, .T its title, .W its text.
func readEntries(path string) ([]entry, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []entry
	field := ""
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimRight(line, "\r\n")
		if id, ok := strings.CutPrefix(line, ".I "); ok {
			all = append(all, entry{id: strings.TrimSpace(id)})
			continue
		}
		if len(line) == 2 && line[0] == '.' {
			field = line[1:]
			continue
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("read %s: text before the first .I", path)
		}
		switch e := &all[len(all)-1]; field {
		case "T":
			e.title = strings.TrimSpace(e.title + " " + strings.TrimSpace(line))
		case "W":
			e.text += line + "\n"
		}
	}
	return all, nil
}
