// Command eval measures how well search ranks, on the Cranfield collection:
// 1400 abstracts, 225 questions, judged by people. The documents go through
// the real extractor, chunker, index and starter model.
//
// Gains are binary: grades 1 to 4 count as relevant, -1 and 5 do not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/ondol-app/ondol/internal/search"
	"github.com/ondol-app/ondol/internal/sqlite"
)

type options struct {
	data, server, model, work string
	lexical                   bool
}

func main() {
	var o options
	flag.StringVar(&o.data, "data", "../shared/eval/cranfield", "folder of the collection")
	flag.StringVar(&o.server, "llama-server", "build/deps/llama/llama-server", "llama-server to run")
	flag.StringVar(&o.model, "model", "build/deps/models/ondol-starter-en.gguf", "model to embed with")
	flag.StringVar(&o.work, "work", "", "keep the index in this folder and use it again; empty for a temporary one")
	flag.BoolVar(&o.lexical, "lexical", false, "words alone, without an engine")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "eval:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	c, err := readCranfield(o.data)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the Cranfield collection is not in %s: name its folder with -data (cran.all.1400, cran.qry, cranqrel): %w", o.data, err)
	}
	if err != nil {
		return err
	}
	if o.work == "" {
		if o.work, err = os.MkdirTemp("", "ondol-eval"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.work)) }()
	} else if err := os.MkdirAll(o.work, 0o700); err != nil {
		return err
	}
	var e engine
	if !o.lexical {
		var stop func()
		if e, stop, err = startEngine(ctx, o.server, o.model, o.work); err != nil {
			return err
		}
		defer stop()
	}
	db, err := openIndex(ctx, e, o.work, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return measure(ctx, db, e, c, o.lexical)
}

// openIndex opens the index in work, made first when it is not there.
func openIndex(ctx context.Context, e engine, work string, c collection) (*sqlite.DB, error) {
	path := filepath.Join(work, "index.db")
	_, missing := os.Stat(path)
	db, err := sqlite.Open(path)
	if err != nil || missing == nil {
		return db, err
	}
	began := time.Now()
	if err := fill(ctx, db, e, filepath.Join(work, "docs"), c.documents); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	fmt.Printf("indexed %d documents in %.1f s\n", len(c.documents), time.Since(began).Seconds())
	return db, nil
}

func measure(ctx context.Context, db *sqlite.DB, e engine, c collection, lexical bool) error {
	s, err := search.New(search.Config{Store: db, Embedder: e, Wait: time.Minute})
	if err != nil {
		return err
	}
	modes := []search.Mode{search.Lexical, search.Semantic, search.Hybrid}
	if lexical {
		modes = modes[:1]
	}
	fmt.Printf("%-10s %8s %10s %8s %9s %8s %8s\n", "mode", "nDCG@10", "Recall@10", "MRR@10", "evidence", "false", "ms")
	for _, mode := range modes {
		var sum scores
		found := 0
		began := time.Now()
		for i, q := range c.queries {
			reply, err := s.Search(ctx, search.Request{Query: strings.Join(strings.Fields(q.text), " "), Limit: 10, Mode: mode})
			if err != nil {
				return fmt.Errorf("query %s: %w", q.id, err)
			}
			if len(reply.Degraded) > 0 {
				return fmt.Errorf("query %s: the answer is degraded: %v", q.id, reply.Degraded)
			}
			results := reply.Results
			if reply.Evidence.Found {
				found++
			} else {
				results = reply.NearMisses // the gate is counted apart
			}
			var ids []string
			for _, r := range results {
				ids = append(ids, strings.TrimSuffix(filepath.Base(r.Path), ".md"))
			}
			sum = sum.plus(judge(ids, c.relevant[i]))
		}
		mean, n := sum.over(len(c.queries)), len(c.queries)
		elapsed := float64(time.Since(began).Milliseconds()) / float64(n)
		wrong, err := falseEvidence(ctx, s, mode)
		if err != nil {
			return err
		}
		fmt.Printf("%-10s %8.4f %10.4f %8.4f %5d/%d %5d/%d %8.1f\n", mode, mean.NDCG, mean.Recall, mean.MRR, found, n, wrong, len(unanswered), elapsed)
	}
	return nil
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

// falseEvidence counts the unanswered questions that are given an answer.
func falseEvidence(ctx context.Context, s *search.Searcher, mode search.Mode) (int, error) {
	n := 0
	for _, q := range unanswered {
		reply, err := s.Search(ctx, search.Request{Query: q, Mode: mode, Explain: true})
		if err != nil {
			return n, err
		}
		if reply.Evidence.Found {
			n++
			if os.Getenv("ONDOL_EVAL_VERBOSE") != "" {
				fmt.Printf("    %q: %s, coverage %.2f, matched %v\n", q, reply.Evidence.Reason, reply.Results[0].Explain.Coverage, reply.Results[0].Explain.Matched)
			}
		}
	}
	return n, nil
}
