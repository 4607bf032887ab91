package main

import (
	"bufio"
	_ "embed"
	"fmt"
	"strings"

	"golang.org/x/tools/txtar"
)

// collection is documents, and queries with the documents that answer them.
type collection struct {
	name      string
	documents []file
	queries   []query
}

type file struct {
	name    string // relative, with slashes
	content []byte
}

type query struct {
	kind     string
	text     string
	relevant map[string]bool // by name; empty = nothing here answers it
}

// unanswerable is the kind of the queries without an answer.
const unanswerable = "none"

//go:embed testdata/mixed.txtar
var mixedDocuments []byte

//go:embed testdata/mixed.tsv
var mixedQueries string

// readMixed is the collection beside this file: Korean, English, code and both
// languages in one query, a quarter of the queries without an answer.
func readMixed() (collection, error) {
	c := collection{name: "mixed"}
	known := make(map[string]bool)
	for _, f := range txtar.Parse(mixedDocuments).Files {
		c.documents = append(c.documents, file{f.Name, f.Data})
		known[f.Name] = true
	}
	for lines := bufio.NewScanner(strings.NewReader(mixedQueries)); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		fields := strings.Split(lines.Text(), "\t")
		if len(fields) != 3 {
			return c, fmt.Errorf("read %q: want kind, query and documents", lines.Text())
		}
		q := query{kind: fields[0], text: fields[1], relevant: make(map[string]bool)}
		if fields[2] != "-" {
			for name := range strings.SplitSeq(fields[2], ",") {
				if !known[name] {
					return c, fmt.Errorf("query %q: there is no document %s", q.text, name)
				}
				q.relevant[name] = true
			}
		}
		if (q.kind == unanswerable) != (len(q.relevant) == 0) {
			return c, fmt.Errorf("query %q: kind %s with %d documents", q.text, q.kind, len(q.relevant))
		}
		c.queries = append(c.queries, q)
	}
	return c, nil
}
