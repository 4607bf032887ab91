package indexer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/vector"
)

// filler makes the vectors of an engine beside the one in service, text by
// text in the order they came, until none is missing; those of later edits
// follow. What is missing is read from the store, so a process that died goes
// on where it stopped.
type filler struct {
	ix   *Indexer
	wake chan struct{} // 1-buffered: there may be texts, or another candidate

	mu        sync.Mutex
	candidate *filling // nil for none; guarded by mu
}

// filling is the work for one candidate. But for what mu guards it belongs to
// the goroutine of run.
type filling struct {
	engine Embedder
	ended  context.Context // done when another candidate, or none, is there
	end    context.CancelFunc

	mu      sync.Mutex
	maker   document.Maker         // what engine makes, once the store knows of it; guarded by mu
	refused map[document.Hash]bool // texts that the engine gives no vector for; written by run's goroutine alone, with mu held

	gate  *engineGate
	pace  pacer
	alone bool // the last call failed: one text at a time until one succeeds
	tries int  // failures in a row of one that is alone

	// A pass goes through the texts in order.
	after  int64 // it has dealt with those up to this number
	whole  bool  // it began with the first
	passed int64 // refused ones that it met
}

func newFiller(ix *Indexer) *filler { return &filler{ix: ix, wake: make(chan struct{}, 1)} }

// Build has the vectors of another engine made beside those of the one in
// service, for all texts of the index, until it is called again; nil ends it.
// It returns at once. Where both engines compute on the same processor, the
// candidate's Embed has to wait while clients of the other one do.
func (ix *Indexer) Build(candidate Embedder) {
	f := ix.filler
	f.mu.Lock()
	if f.candidate != nil {
		f.candidate.end()
		f.candidate = nil
	}
	if candidate != nil {
		ended, end := context.WithCancel(context.Background())
		f.candidate = &filling{engine: candidate, ended: ended, end: end, gate: newEngineGate(),
			pace: pacer{hold: ix.cfg.Hold}, refused: make(map[document.Hash]bool), whole: true}
	}
	f.mu.Unlock()
	f.kick()
}

// kick makes the filler look for texts again.
func (f *filler) kick() { signal(f.wake) }

func (f *filler) current() *filling {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.candidate
}

// fingerprint is that of the candidate's vectors, with the number of texts
// that it gives none for; empty for none.
func (f *filler) fingerprint() (fingerprint string, refused int64) {
	if c := f.current(); c != nil {
		return c.known().Fingerprint, c.refusals()
	}
	return "", 0
}

// run fills until ctx is done.
func (f *filler) run(ctx context.Context) error {
	for ctx.Err() == nil {
		c := f.current()
		if c == nil {
			f.sleep(ctx)
			continue
		}
		work, stop := context.WithCancel(ctx)
		release := context.AfterFunc(c.ended, stop)
		f.fill(work, c)
		release()
		stop()
	}
	return ctx.Err()
}

// fill works for a candidate until ctx is done.
func (f *filler) fill(ctx context.Context, c *filling) {
	for ctx.Err() == nil {
		busy, err := f.step(ctx, c)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			_ = f.ix.storeFailed(ctx, "Fill generation", err) // the end of ctx is seen above
		case !busy:
			f.sleep(ctx)
		}
	}
}

func (f *filler) sleep(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-f.wake:
	}
}

// step deals with one batch; busy means that there is more to do now. Its
// error is the store's.
func (f *filler) step(ctx context.Context, c *filling) (busy bool, err error) {
	maker, err := c.engine.Maker()
	if err != nil {
		_ = c.gate.wait(ctx) // the end of ctx is for fill
		return true, nil
	}
	if maker != c.known() {
		if _, err := f.ix.cfg.Store.Feed(ctx, maker); err != nil {
			return false, err
		}
		c.become(maker)
	}
	if now, err := f.ix.cfg.Embedder.Maker(); err == nil && now.Fingerprint == maker.Fingerprint {
		return false, nil // it is in service: its vectors are made with the documents
	}
	lacking, err := f.ix.cfg.Store.Backlog(ctx, maker.Fingerprint, c.after, maxInputs)
	if err != nil {
		return false, err
	}
	if len(lacking) == 0 {
		return f.endPass(ctx, c, maker.Fingerprint)
	}
	b := c.choose(lacking)
	if len(b.texts) > 0 {
		if done, err := f.embed(ctx, c, maker, b); !done || err != nil {
			return true, err
		}
	}
	c.after, c.passed = b.last, c.passed+b.refused
	return true, nil
}

// endPass asks whether the generation is whole. Texts may lack their vector
// behind a pass that began in the middle: one from the first text on follows.
func (f *filler) endPass(ctx context.Context, c *filling, fingerprint string) (busy bool, err error) {
	var allowed int64
	if c.whole {
		allowed = c.passed
	}
	g, err := f.ix.cfg.Store.Finish(ctx, fingerprint, false, allowed)
	if err != nil {
		return false, err
	}
	again := !c.whole && g.Missing() > int64(len(c.refused))
	if again {
		c.after, c.passed = 0, 0
	}
	c.whole = again
	return again, nil
}

// stretch is what one call of the candidate embeds.
type stretch struct {
	texts   []string
	hashes  []document.Hash
	tokens  int
	last    int64 // number of the last text dealt with when the call succeeds
	refused int64 // texts before it that are known to be refused
}

// choose takes texts from the front of lacking while they fit into a batch.
func (c *filling) choose(lacking []document.Lacking) stretch {
	var b stretch
	for _, l := range lacking {
		hash := l.Chunk.Hash()
		if c.refused[hash] {
			b.refused, b.last = b.refused+1, l.Text
			continue
		}
		if len(b.texts) > 0 && (c.alone || b.tokens+l.Chunk.Tokens > c.pace.budget()) {
			break
		}
		b.texts, b.hashes = append(b.texts, l.Chunk.EmbedText()), append(b.hashes, hash)
		b.tokens, b.last = b.tokens+max(l.Chunk.Tokens, 1), l.Text
	}
	return b
}

// embed has a stretch embedded and stores its vectors; done means that it is
// dealt with. Its error is the store's.
func (f *filler) embed(ctx context.Context, c *filling, maker document.Maker, b stretch) (done bool, err error) {
	start := time.Now()
	vectors, got, err := c.engine.Embed(ctx, b.texts)
	switch {
	case err == nil && got != maker.Fingerprint:
		_ = c.gate.wait(ctx) // it is being exchanged; step asks again what it makes
		return false, nil
	case err == nil && len(vectors) != len(b.texts):
		err = &vector.InvalidError{Problems: []vector.Problem{{Index: vector.WholeReply, Reason: vector.ReasonCount}}}
	}
	if err != nil {
		return f.failed(ctx, c, b, err), nil
	}
	c.pace.observe(b.tokens, time.Since(start))
	c.gate.served()
	c.alone, c.tries = false, 0
	byHash := make(map[document.Hash][]float32, len(vectors))
	for i, hash := range b.hashes {
		byHash[hash] = vectors[i]
	}
	if err := f.ix.cfg.Store.AddVectors(ctx, maker.Fingerprint, len(vectors[0]), byHash); err != nil {
		return false, err
	}
	f.ix.speed.observe(maker.Fingerprint, len(vectors), f.ix.cfg.Now())
	return true, nil
}

// failed decides about a stretch that gave no vectors, as embedder.failed does;
// done means that its one text is refused.
func (f *filler) failed(ctx context.Context, c *filling, b stretch, err error) (done bool) {
	if ctx.Err() != nil {
		return false
	}
	var invalid *vector.InvalidError
	var refused *RefusedError
	aboutTexts := errors.As(err, &invalid) || errors.As(err, &refused)
	single := len(b.texts) == 1
	c.alone = true
	if single && !aboutTexts {
		if _, down := c.engine.Maker(); down == nil {
			c.tries++
		}
		aboutTexts = c.tries > maxBlamed
	}
	switch {
	case single && aboutTexts:
		f.ix.cfg.Log.Warn("A candidate gives no vector for a text", "text", b.hashes[0], "err", err)
		c.mu.Lock()
		c.refused[b.hashes[0]] = true
		c.mu.Unlock()
		c.passed, c.tries = c.passed+1, 0
		return true
	case !aboutTexts:
		_ = c.gate.wait(ctx) // the end of ctx is for fill
	}
	return false
}

func (c *filling) known() document.Maker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.maker
}

// become notes what the engine makes. Another kind begins with the first text.
func (c *filling) become(maker document.Maker) {
	c.mu.Lock()
	other := c.maker.Fingerprint != maker.Fingerprint
	c.maker = maker
	if other {
		clear(c.refused)
	}
	c.mu.Unlock()
	if other {
		c.after, c.whole, c.passed = 0, true, 0
	}
}

// refusals is how many texts the engine gives no vector for.
func (c *filling) refusals() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(len(c.refused))
}
