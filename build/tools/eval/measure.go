package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ondol-app/ondol/internal/search"
	"github.com/ondol-app/ondol/internal/sqlite"
)

// tally is what one mode reached on the queries of one kind.
type tally struct {
	scores   scores // summed
	first    int    // the first result answers it
	evidence int    // evidence was reported
	n        int
}

// measure prints one line for each mode and kind of query.
func (c collection) measure(ctx context.Context, db *sqlite.DB, e engine, docs string, modes []search.Mode, verbose bool) error {
	s, err := search.New(search.Config{Store: db, Embedder: e, Wait: time.Minute})
	if err != nil {
		return err
	}
	fmt.Printf("%-10s %-10s %8s %10s %8s %7s %9s\n", "mode", "kind", "nDCG@10", "Recall@10", "MRR@10", "first", "evidence")
	for _, mode := range modes {
		kinds, tallies, err := c.tallies(ctx, s, docs, mode, verbose)
		if err != nil {
			return err
		}
		for _, kind := range kinds {
			t := tallies[kind]
			if kind == unanswerable {
				fmt.Printf("%-10s %-10s %45d/%d\n", mode, kind, t.evidence, t.n)
				continue
			}
			mean := t.scores.over(t.n)
			fmt.Printf("%-10s %-10s %8.4f %10.4f %8.4f %3d/%d %5d/%d\n", mode, kind, mean.NDCG, mean.Recall, mean.MRR, t.first, t.n, t.evidence, t.n)
		}
	}
	return nil
}

// everything is the kind under which all answerable queries are counted once more.
const everything = "all"

func (c collection) tallies(ctx context.Context, s *search.Searcher, docs string, mode search.Mode, verbose bool) (kinds []string, tallies map[string]*tally, err error) {
	tallies = map[string]*tally{everything: {}}
	for _, q := range c.queries {
		if tallies[q.kind] == nil {
			tallies[q.kind] = &tally{}
			kinds = append(kinds, q.kind)
		}
		ranking, found, err := ask(ctx, s, docs, mode, q.text)
		if err != nil {
			return nil, nil, fmt.Errorf("query %q: %w", q.text, err)
		}
		counted := []*tally{tallies[q.kind]}
		if q.kind != unanswerable {
			counted = append(counted, tallies[everything])
		}
		first := len(ranking) > 0 && q.relevant[ranking[0]]
		for _, t := range counted {
			t.n++
			t.scores = t.scores.plus(judge(ranking, q.relevant))
			if first {
				t.first++
			}
			if found {
				t.evidence++
			}
		}
		if verbose && (!first && q.kind != unanswerable || found != (q.kind != unanswerable)) {
			fmt.Printf("    %s %s %q: evidence %v, %s\n", mode, q.kind, q.text, found, strings.Join(ranking[:min(3, len(ranking))], ", "))
		}
	}
	return append(kinds, everything), tallies, nil
}

// ask is one search. Without evidence the ranking is that of the near misses:
// how well it ranks and what it calls evidence are measured apart.
func ask(ctx context.Context, s *search.Searcher, docs string, mode search.Mode, text string) (ranking []string, found bool, err error) {
	reply, err := s.Search(ctx, search.Request{Query: text, Limit: 10, Mode: mode})
	if err != nil {
		return nil, false, err
	}
	if slices.ContainsFunc(reply.Degraded, func(d search.Degradation) bool { return d != search.QueryUnknown }) {
		return nil, false, fmt.Errorf("the answer is degraded: %v", reply.Degraded)
	}
	results := reply.Results
	if !reply.Evidence.Found {
		results = reply.NearMisses
	}
	for _, r := range results {
		name, err := filepath.Rel(docs, r.Path)
		if err != nil {
			return nil, false, err
		}
		ranking = append(ranking, filepath.ToSlash(name))
	}
	return ranking, reply.Evidence.Found, nil
}
