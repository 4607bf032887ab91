package indexer_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ondol-app/ondol/internal/chunk"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/enginetest"
	"github.com/ondol-app/ondol/internal/indexer"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/search"
	"github.com/ondol-app/ondol/internal/sqlite"
	"github.com/ondol-app/ondol/internal/vector"
)

// engine is a supervised llama-server as indexer and search use it. It counts
// what the engine was given.
type engine struct {
	*llamaserver.Server
	mu     sync.Mutex
	inputs map[document.Hash]int // guarded by mu; passages alone
}

func (e *engine) Maker() (document.Maker, error) {
	now, err := e.Current()
	if err != nil {
		return document.Maker{}, err
	}
	return document.Maker{Fingerprint: now.Fingerprint, Dim: now.Dim, Model: now.ModelName}, nil
}

func (e *engine) embed(ctx context.Context, texts []string) ([][]float32, string, error) {
	now, err := e.Current()
	if err != nil {
		return nil, "", err
	}
	reply, err := now.Client.Embed(ctx, texts, vector.Expect{Count: len(texts), Dim: now.Dim, Normalized: true})
	return reply.Vectors, now.Fingerprint, err
}

func (e *engine) Embed(ctx context.Context, texts []string) ([][]float32, string, error) {
	e.mu.Lock()
	for _, text := range texts {
		e.inputs[document.HashText(text)]++
	}
	e.mu.Unlock()
	return e.embed(ctx, texts)
}

func (e *engine) CountTokens(ctx context.Context, texts []string) ([]int, error) {
	now, err := e.Current()
	if err != nil {
		return nil, err
	}
	return now.Client.CountTokens(ctx, texts)
}

// given is every text the engine was given, and how often, since asked last.
func (e *engine) given() map[document.Hash]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.inputs
	e.inputs = make(map[document.Hash]int)
	return all
}

// front is the engine in service.
type front struct{ now atomic.Pointer[engine] }

func (f *front) Maker() (document.Maker, error) { return f.now.Load().Maker() }

func (f *front) Embed(ctx context.Context, texts []string) ([][]float32, string, error) {
	return f.now.Load().Embed(ctx, texts)
}

func (f *front) CountTokens(ctx context.Context, texts []string) ([]int, error) {
	return f.now.Load().CountTokens(ctx, texts)
}

func (f *front) EmbedQuery(ctx context.Context, text string) ([]float32, string, error) {
	vectors, fingerprint, err := f.now.Load().embed(ctx, []string{text})
	if err != nil {
		return nil, "", err
	}
	return vectors[0], fingerprint, nil
}

// bench is an index with two real engines of different flags, the first in service.
type bench struct {
	db       *sqlite.DB
	ix       *indexer.Indexer
	search   *search.Searcher
	front    front
	old, new *engine
}

// benchFiles says where a bench lives, in words that a child process understands.
type benchFiles struct{ index, root, run, server, model string }

func (f benchFiles) String() string {
	return strings.Join([]string{f.index, f.root, f.run, f.server, f.model}, "\n")
}

func benchFilesOf(text string) benchFiles {
	p := strings.Split(text, "\n")
	return benchFiles{p[0], p[1], p[2], p[3], p[4]}
}

// runBench runs a bench and calls work once both engines are ready; it ends
// everything when work returns.
func runBench(ctx context.Context, files benchFiles, work func(ctx context.Context, b *bench) error) error {
	db, err := sqlite.Open(files.index)
	if err != nil {
		return err
	}
	defer db.Close()
	b := &bench{db: db}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	for i, e := range []**engine{&b.old, &b.new} {
		dir := filepath.Join(files.run, fmt.Sprint(i))
		server, err := llamaserver.New(llamaserver.Config{
			Binary: files.server, Model: files.model, RunDir: dir, LogDir: dir, HashCache: filepath.Join(files.run, "hashes.json"), Autostart: true,
			Profile: llamaserver.Profile{Name: "test", Flags: strings.Fields(fmt.Sprintf("--embeddings -ngl 34 -c 32768 -b %d -ub 4096 -np 4 -t 1", 4096*(i+1)))},
		})
		if err != nil {
			return err
		}
		*e = &engine{Server: server, inputs: make(map[document.Hash]int)}
		g.Go(func() error { return server.Run(ctx) })
	}
	b.front.now.Store(b.old)
	for _, e := range []*engine{b.old, b.new} {
		if err := waitReady(ctx, e); err != nil {
			return err
		}
	}
	if b.search, err = search.New(search.Config{Store: db, Embedder: &b.front, Wait: patience}); err != nil {
		return err
	}
	if b.ix, err = indexer.New(indexer.Config{Store: db, Embedder: &b.front, Watch: quick, ChunkSize: chunk.Size{Min: 12, Max: 48},
		Log: slog.New(slog.DiscardHandler)}); err != nil {
		return err
	}
	g.Go(func() error { return b.ix.Run(ctx) })
	g.Go(func() error {
		defer cancel()
		return work(ctx, b)
	})
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func waitReady(ctx context.Context, e *engine) error {
	changed, stop := e.Changed()
	defer stop()
	for {
		if _, err := e.Maker(); err == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(patience):
			return fmt.Errorf("the engine is %s: %v", e.Snapshot().State, e.Snapshot().LastError)
		}
	}
}

// childBench is where the child process fills a candidate's generation until it is killed.
const childBench = "ONDOL_TEST_INDEXER_BENCH"

// fillUntilKilled says again and again how many texts have the candidate's vector.
func fillUntilKilled(files benchFiles) error {
	return runBench(context.Background(), files, func(ctx context.Context, b *bench) error {
		b.ix.Build(b.new)
		for {
			fmt.Println(b.generation(ctx, b.new).Embedded)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
}

// generation is that of an engine as it stands; its zero value when there is none.
func (b *bench) generation(ctx context.Context, e *engine) indexer.Generation {
	maker, _ := e.Maker()
	list, _ := b.ix.Generations(ctx)
	for _, g := range list {
		if g.Fingerprint == maker.Fingerprint {
			return g
		}
	}
	return indexer.Generation{}
}

// reach waits until a condition on the two generations holds.
func (b *bench) reach(ctx context.Context, what string, cond func(old, new indexer.Generation) bool) error {
	deadline := time.Now().Add(5 * patience)
	for {
		old, fresh := b.generation(ctx, b.old), b.generation(ctx, b.new)
		counts, err := b.db.Counts(ctx)
		if err == nil && cond(old, fresh) && counts.Pending == 0 {
			return nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return fmt.Errorf("%s: not reached (%v): old %+v\nnew %+v\ncounts %+v", what, ctx.Err(), old, fresh, counts)
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// sections is a document of ten passages that occur nowhere else.
func sections(r *rand.Rand, name string) string {
	words := strings.Fields("river mountain harbour winter kitchen teacher engine garden market letter village doctor window summer bridge music forest captain paper silver")
	var b strings.Builder
	for i := range 10 {
		fmt.Fprintf(&b, "# Part %d of %s\n\n", i, name)
		for range 14 {
			b.WriteString(words[r.IntN(len(words))] + " ")
		}
		b.WriteString("\n\n")
	}
	return b.String()
}

// asker searches all the time, and fails the test when a reply is an error,
// lacks the semantic side, is degraded by more than edits under way, or is of
// more than one generation.
type asker struct {
	t    *testing.T
	b    *bench
	mu   sync.Mutex
	seen map[string]int // replies by fingerprint; guarded by mu
}

// run asks until ctx is done, with a short rest after each reply: two cores are
// shared with the engines.
func (a *asker) run(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		query := []string{"automobile repair manual", "vehicle maintenance"}[i%2]
		reply, err := a.b.search.Search(context.Background(), search.Request{Query: query, Explain: true})
		if err != nil {
			a.t.Errorf("search: %v", err)
			return
		}
		for _, d := range reply.Degraded {
			if d != search.VectorsPending {
				a.t.Errorf("a search was degraded: %v", reply.Degraded)
			}
		}
		near := append(reply.Results, reply.NearMisses...)
		if len(near) == 0 || near[0].Explain.Cosine == nil || filepath.Base(near[0].Path) != "garage.md" {
			a.t.Errorf("%q is not answered by meaning: %+v", query, reply)
			return
		}
		for _, r := range near {
			if r.Explain.Fingerprint != near[0].Explain.Fingerprint {
				a.t.Errorf("one reply is of %s and of %s", near[0].Explain.Fingerprint, r.Explain.Fingerprint)
			}
		}
		a.mu.Lock()
		a.seen[near[0].Explain.Fingerprint]++
		a.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// more waits until some more replies are of an engine's generation.
func (a *asker) more(fingerprint string) error {
	count := func() int {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.seen[fingerprint]
	}
	first := count()
	for deadline := time.Now().Add(patience); count() < first+20; {
		if time.Now().After(deadline) || a.t.Failed() {
			return fmt.Errorf("no more replies by %s", fingerprint)
		}
		<-time.After(10 * time.Millisecond)
	}
	return nil
}

// A model switch on an index of 5000 passages with real engines: search is
// answered by meaning throughout, each reply by one generation; a kill -9 in
// the middle of the filling loses nothing that was stored and repeats none of
// it; edits end up right in both; the switch and the way back embed nothing.
func TestSwitchOf5000Passages(t *testing.T) {
	run, err := os.MkdirTemp("", "s") // t.TempDir may be too long for a socket's name
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(run) })
	files := benchFiles{index: filepath.Join(t.TempDir(), "index.db"), root: mustPath(t, filepath.Join(t.TempDir(), "root")), run: run,
		server: enginetest.LlamaServer(t), model: enginetest.StarterModel(t)}
	r := rand.New(rand.NewPCG(7, 7))
	write := func(name, text string) {
		check(t, os.WriteFile(filepath.Join(files.root, name), []byte(text), 0o644))
	}
	for i := range 500 {
		write(fmt.Sprintf("%03d.md", i), sections(r, fmt.Sprintf("volume %d", i)))
	}
	write("garage.md", "# Automobile repair manual\n\nReplace the brake pads every two years and check the engine oil of each car.\n")

	began := time.Now()
	check(t, runBench(t.Context(), files, func(ctx context.Context, b *bench) error {
		if _, err := b.ix.Add(ctx, files.root); err != nil {
			return err
		}
		return b.reach(ctx, "the first index", func(old, _ indexer.Generation) bool { return old.Texts >= 5000 && old.Missing() == 0 })
	}))
	t.Logf("indexed after %v", time.Since(began).Round(time.Millisecond))

	killed := killWhileFilling(t, files, 1500)
	check(t, runBench(t.Context(), files, func(ctx context.Context, b *bench) error { return goOn(ctx, t, b, write, killed) }))
}

// killWhileFilling kills a process that fills a generation, once so many texts
// have their vector, and returns how many it said last.
func killWhileFilling(t *testing.T, files benchFiles, after int64) (last int64) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childBench+"="+files.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	for lines := bufio.NewScanner(out); last < after && lines.Scan(); {
		if _, err := fmt.Sscan(lines.Text(), &last); err != nil {
			t.Fatalf("child said %q", lines.Text())
		}
	}
	check(t, cmd.Process.Kill())
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the child was not killed: %v", err)
	}
	return last
}

// goOn is what happens after the kill.
func goOn(ctx context.Context, t *testing.T, b *bench, write func(name, text string), killed int64) error {
	oldMaker, _ := b.old.Maker()
	newMaker, _ := b.new.Maker()
	lacking, err := b.db.Backlog(ctx, newMaker.Fingerprint, 0, 10_000)
	if err != nil {
		return err
	}
	wanted := make(map[document.Hash]bool)
	for _, l := range lacking {
		wanted[l.Chunk.Hash()] = true
	}
	before := b.generation(ctx, b.new)
	if before.Embedded < killed || before.State != document.Building || len(lacking) == 0 || int64(len(lacking)) != before.Missing() {
		t.Errorf("%d were stored before the kill, now it is %+v with %d lacking", killed, before, len(lacking))
	}
	t.Logf("killed with %d of %d embedded", before.Embedded, before.Texts)

	asking, stop := context.WithCancel(ctx)
	a := &asker{t: t, b: b, seen: make(map[string]int)}
	var all sync.WaitGroup
	all.Go(func() { a.run(asking) })
	defer all.Wait()
	defer stop()
	began := time.Now()
	b.ix.Build(b.new)
	if err := b.reach(ctx, "half of what is left", func(_, fresh indexer.Generation) bool { return fresh.Missing() < before.Missing()/2 }); err != nil {
		return err
	}
	g := b.generation(ctx, b.new)
	if g.Place != indexer.Candidate || g.State == document.Building && g.Remaining == nil {
		t.Errorf("no time is foretold: %+v", g)
	}
	for i := range 20 { // ten that are new, ten that change
		write(fmt.Sprintf("%03d.md", 495+i), sections(rand.New(rand.NewPCG(9, uint64(i))), fmt.Sprintf("edition %d", i)))
	}
	whole := func(old, fresh indexer.Generation) bool {
		return old.Texts >= 5100 && old.Missing() == 0 && fresh.State == document.Ready && fresh.Missing() == 0
	}
	if err := b.reach(ctx, "the edited index, whole in both", whole); err != nil {
		return err
	}
	t.Logf("filled after %v", time.Since(began).Round(time.Millisecond))
	given, edited := b.new.given(), b.old.given()
	for hash, n := range given {
		_, isEdit := edited[hash]
		if n != 1 || !wanted[hash] && !isEdit {
			t.Errorf("text %s was given to the engine %d times (lacking %v, edited %v)", hash[:8], n, wanted[hash], isEdit)
		}
	}
	if len(edited) == 0 || len(given) < len(lacking) {
		t.Errorf("%d texts were given to the candidate, %d to the engine in service; %d were lacking", len(given), len(edited), len(lacking))
	}

	for _, step := range []struct {
		what string
		to   *engine
	}{{"switch", b.new}, {"way back", b.old}} {
		began := time.Now()
		b.front.now.Store(step.to)
		g, err := b.ix.Follow(ctx)
		if err != nil {
			return err
		}
		followed := time.Since(began)
		reply, err := b.search.Search(ctx, search.Request{Query: "vehicle maintenance", Explain: true})
		if err != nil {
			return err
		}
		t.Logf("%s: after %v, first search by meaning after %v", step.what, followed.Round(time.Microsecond), time.Since(began).Round(time.Microsecond))
		if len(reply.Degraded) != 0 || reply.Index.Pending != 0 || g.State != document.Active || g.Missing() != 0 {
			t.Errorf("%s: %v, %+v, %+v", step.what, reply.Degraded, reply.Index, g)
		}
		if near := append(reply.Results, reply.NearMisses...); len(near) == 0 || near[0].Explain.Fingerprint != g.Fingerprint {
			t.Errorf("%s: answered by %+v, in service is %s", step.what, near, g.Fingerprint)
		}
		if err := a.more(g.Fingerprint); err != nil {
			return err
		}
	}
	if n := len(b.new.given()) + len(b.old.given()); n != 0 {
		t.Errorf("switch and way back gave %d texts to the engines", n)
	}
	stop()
	all.Wait()
	t.Logf("%d searches by the old generation, %d by the new one", a.seen[oldMaker.Fingerprint], a.seen[newMaker.Fingerprint])
	if len(a.seen) != 2 {
		t.Errorf("searches by generation: %v", a.seen)
	}
	return nil
}
