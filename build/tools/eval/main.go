// Command eval measures how well search ranks, on a collection of its own in
// two languages and on Cranfield. The documents go through the real extractor,
// chunker, index and model.
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
	"time"

	"github.com/ondol-app/ondol/internal/search"
	"github.com/ondol-app/ondol/internal/sqlite"
)

type options struct {
	data, server, model, work string
	lexical, verbose          bool
}

func main() {
	var o options
	flag.StringVar(&o.data, "data", "../shared/eval/cranfield", "folder of the Cranfield collection; without it only our own is measured")
	flag.StringVar(&o.server, "llama-server", "build/deps/llama/llama-server", "llama-server to run")
	flag.StringVar(&o.model, "model", "build/deps/models/ondol-starter-en.gguf", "model to embed with")
	flag.StringVar(&o.work, "work", "", "keep the index in this folder and use it again; empty for a temporary one")
	flag.BoolVar(&o.lexical, "lexical", false, "words alone, without an engine")
	flag.BoolVar(&o.verbose, "v", false, "name every query whose first result does not answer it, and every wrong answer")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "eval:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	mixed, err := readMixed()
	if err != nil {
		return err
	}
	collections := []collection{mixed}
	cranfield, err := readCranfield(o.data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fmt.Printf("Cranfield is left out: its files (cran.all.1400, cran.qry, cranqrel) are not in %s; name their folder with -data\n", o.data)
	case err != nil:
		return err
	default:
		collections = append(collections, cranfield)
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
	for _, c := range collections {
		if err := c.run(ctx, e, filepath.Join(o.work, c.name), o); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

func (c collection) run(ctx context.Context, e engine, work string, o options) (err error) {
	db, err := c.open(ctx, e, work)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	modes := []search.Mode{search.Lexical, search.Semantic, search.Hybrid}
	if o.lexical {
		modes = modes[:1]
	}
	fmt.Printf("\n%s: %d documents, %d queries\n", c.name, len(c.documents), len(c.queries))
	return c.measure(ctx, db, e, filepath.Join(work, documents), modes, o.verbose)
}

// documents is the folder in a collection's folder that is indexed.
const documents = "docs"

// open opens the index in work, made first when it is not there.
func (c collection) open(ctx context.Context, e engine, work string) (*sqlite.DB, error) {
	if err := os.MkdirAll(work, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(work, "index.db")
	_, missing := os.Stat(path)
	db, err := sqlite.Open(path)
	if err != nil || missing == nil {
		return db, err
	}
	began := time.Now()
	if err := fill(ctx, db, e, filepath.Join(work, documents), c.documents); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	fmt.Printf("indexed %d documents in %.1f s\n", len(c.documents), time.Since(began).Seconds())
	return db, nil
}
