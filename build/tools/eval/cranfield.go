package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

type entry struct{ id, title, text string }

// readCranfield reads the three files of the Cranfield 1400 collection, 1400
// abstracts and 225 questions judged by people. Gains are binary: grades 1 to 4
// count as relevant, -1 and 5 do not.
func readCranfield(dir string) (collection, error) {
	c := collection{name: "cranfield"}
	abstracts, err := readEntries(filepath.Join(dir, "cran.all.1400"))
	if err != nil {
		return c, err
	}
	for _, a := range abstracts {
		c.documents = append(c.documents, file{a.id + ".md", []byte("# " + a.title + "\n\n" + a.text)})
	}
	asked, err := readEntries(filepath.Join(dir, "cran.qry"))
	if err != nil {
		return c, err
	}
	for _, q := range asked {
		c.queries = append(c.queries, query{"question", strings.Join(strings.Fields(q.text), " "), make(map[string]bool)})
	}
	for _, q := range unanswered {
		c.queries = append(c.queries, query{kind: unanswerable, text: q})
	}
	f, err := os.Open(filepath.Join(dir, "cranqrel"))
	if err != nil {
		return c, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// Query (1 … 225 in the order of the file, whatever its .I says), document, grade.
		var number, doc, grade int
		if _, err := fmt.Sscan(lines.Text(), &number, &doc, &grade); err != nil {
			return c, fmt.Errorf("read judgement %q: %w", lines.Text(), err)
		}
		if number < 1 || number > len(asked) {
			return c, fmt.Errorf("judgement for query %d of %d", number, len(asked))
		}
		if grade >= 1 && grade <= 4 { // -1 and 5: of no interest
			c.queries[number-1].relevant[strconv.Itoa(doc)+".md"] = true
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

// unanswered are questions to which a collection on aerodynamics holds no
// answer, some of them with its words in them.
var unanswered = []string{
	"kimchi stew recipe", "how to bake sourdough bread at home", "deadline for the annual tax return", "who won the world cup in 2002",
	"heart disease treatment for older patients", "rent contract for a small apartment", "guitar chords for beginners", "treatment of diabetes",
	"python list comprehension with two loops", "best restaurants in Paris", "how do I reset my password", "history of the Roman empire",
	"garden plants that need little water", "vacation policy for employees", "causes of the stock market crash", "dog training tips",
	"how to change a flat tire", "wedding speech for the best man", "sales of helicopters in japan last quarter", "wing chun kung fu schools",
	"weather forecast for tomorrow", "flight tickets to new york", "paper folding for children", "lift my mood with music",
	"shock absorber for a mountain bike", "plate tectonics and earthquakes", "boundary dispute between two neighbours", "stream a film online",
	"panel discussion on education", "pressure at the workplace", "gas prices this week", "heating bill of the family house",
	"circuit breaker keeps tripping", "blood circulation in the brain", "laminate flooring for the kitchen", "jet lag remedies",
	"solutions for hair loss", "shell script to rename files", "cone of vanilla ice cream", "buckling a child seat",
}
