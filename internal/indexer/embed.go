package indexer

import (
	"context"
	"errors"
	"time"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/vector"
)

// embedder is the second stage. One goroutine owns it, because indexing holds
// at most one permit of the engine.
type embedder struct {
	ix    *Indexer
	pace  pacer
	alone bool // the last call failed: one document at a time until one succeeds

	// rest is what did not fit into the last batch of a long document, whose
	// ticket stays taken; nil for none. Its chunks are missing vectors of restOf.
	rest   *part
	restOf string
}

// part is the share of one document in a batch.
type part struct {
	ticket *ticket
	chunks []document.Chunk // without a vector, in reading order
}

// batch is what one call of the engine embeds: the texts of its parts, each
// text once.
type batch struct {
	fingerprint string
	budget      int // tokens
	parts       []part
	texts       []string
	hashes      []document.Hash       // of texts
	index       map[document.Hash]int // into texts
	tokens      int
}

func (b *batch) full(next int) bool {
	return len(b.texts) > 0 && (b.tokens+next > b.budget || len(b.texts) >= maxInputs)
}

// add moves chunks from the front of p into the batch while they fit and
// returns what is left.
func (b *batch) add(p part) (left *part) {
	taken := 0
	for _, c := range p.chunks {
		hash := c.Hash()
		if _, ok := b.index[hash]; !ok {
			if b.full(c.Tokens) {
				break
			}
			b.index[hash] = len(b.texts)
			b.texts = append(b.texts, c.EmbedText())
			b.hashes = append(b.hashes, hash)
			b.tokens += max(c.Tokens, 1)
		}
		taken++
	}
	if taken > 0 {
		b.parts = append(b.parts, part{p.ticket, p.chunks[:taken]})
	}
	if taken == len(p.chunks) {
		return nil
	}
	return &part{p.ticket, p.chunks[taken:]}
}

// run embeds until ctx is done.
func (e *embedder) run(ctx context.Context) error {
	defer func() {
		if e.rest != nil {
			e.ix.queue.release(e.rest.ticket)
		}
	}()
	for {
		err := e.step(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if err := e.ix.storeFailed(ctx, "Embed", err); err != nil {
				return err
			}
		}
	}
}

// step embeds one batch. It waits for a document first and asks what vectors
// the engine gives then: what it gave when the wait began may be long past.
func (e *embedder) step(ctx context.Context) error {
	t, err := e.pick(ctx, true)
	if err != nil {
		return err
	}
	maker, err := e.ix.cfg.Embedder.Maker()
	if err != nil {
		if t != nil {
			e.ix.queue.release(t)
		}
		return e.ix.engine.wait(ctx)
	}
	if err := e.ix.ensure(ctx, maker); err != nil {
		if t != nil {
			e.ix.queue.release(t)
		}
		return err
	}
	b := &batch{fingerprint: maker.Fingerprint, budget: e.pace.budget(), index: make(map[document.Hash]int)}
	if err := e.gather(ctx, b, t); err != nil {
		e.giveBack(b.parts)
		return err
	}
	if len(b.parts) == 0 {
		return nil
	}
	return e.embed(ctx, b)
}

// gather fills a batch: t when there is one, then urgent documents, then the
// rest of the last batch, then whatever waits.
func (e *embedder) gather(ctx context.Context, b *batch, t *ticket) error {
	if e.rest != nil && (e.restOf != b.fingerprint || e.ix.queue.isStale(e.rest.ticket)) {
		e.ix.queue.release(e.rest.ticket)
		e.rest = nil
	}
	for {
		p, err := e.next(ctx, b, t)
		if err != nil {
			return err
		}
		if p != nil {
			left := b.add(*p)
			if left != nil && e.rest == nil {
				e.rest, e.restOf = left, b.fingerprint
			} else if left != nil && len(left.chunks) == len(p.chunks) {
				e.ix.queue.release(p.ticket) // nothing of it is in the batch
			}
			if left != nil {
				return nil
			}
		}
		if b.full(0) || e.alone && len(b.parts) > 0 {
			return nil
		}
		if t, err = e.pick(ctx, false); err != nil || t == nil && e.rest == nil {
			return err
		}
	}
}

// next is what t, or the rest of the last batch, misses; nil for nothing.
func (e *embedder) next(ctx context.Context, b *batch, t *ticket) (*part, error) {
	if t != nil {
		return e.missing(ctx, t, b.fingerprint)
	}
	p := e.rest
	e.rest = nil
	return p, nil
}

// pick takes the next document; nil means that the rest of the last batch is
// next, or that nothing waits.
func (e *embedder) pick(ctx context.Context, wait bool) (*ticket, error) {
	if e.rest != nil {
		return e.ix.queue.takeUrgent(stageVectors), nil
	}
	if wait {
		return e.ix.queue.next(ctx, stageVectors)
	}
	t, _, err := e.ix.queue.take(ctx, stageVectors)
	return t, err
}

// missing is what a document lacks. One that lacks nothing is settled, its
// ticket given back, and nil returned.
func (e *embedder) missing(ctx context.Context, t *ticket, fingerprint string) (*part, error) {
	chunks, err := e.ix.cfg.Store.MissingVectors(ctx, t.ID, fingerprint)
	if err == nil && len(chunks) > 0 {
		return &part{t, chunks}, nil
	}
	var state document.State
	if err == nil {
		state, err = e.ix.cfg.Store.Settle(ctx, t.ID, fingerprint)
	}
	if err != nil && !gone(err) {
		e.ix.queue.release(t)
		return nil, err
	}
	e.ix.handOn(t, state, fingerprint)
	return nil, nil
}

// embed embeds a batch and stores its vectors, one document after the other.
// The tickets are given back but for that of the rest.
func (e *embedder) embed(ctx context.Context, b *batch) error {
	start := time.Now()
	vectors, got, err := e.ix.cfg.Embedder.Embed(ctx, b.texts)
	switch {
	case err != nil:
	case got != b.fingerprint:
		e.giveBack(b.parts)
		e.ix.EngineChanged()
		return pause(ctx, engineRetryMin)
	case len(vectors) != len(b.texts):
		err = &vector.InvalidError{Problems: []vector.Problem{{Index: vector.WholeReply, Reason: vector.ReasonCount}}}
	}
	if err != nil {
		return e.failed(ctx, b, err)
	}
	e.pace.observe(b.tokens, time.Since(start))
	e.alone = false
	e.ix.engine.served()
	e.ix.stats.embedded.Add(int64(len(b.texts)))
	e.ix.speed.observe(b.fingerprint, len(b.texts), e.ix.cfg.Now())
	for i, p := range b.parts {
		if err := e.save(ctx, b, p, vectors); err != nil {
			e.giveBack(b.parts[i+1:])
			return err
		}
	}
	e.skipDone(b)
	return ctx.Err()
}

// save stores the vectors of one document and gives its ticket back. A stale
// one is saved as well: vectors belong to texts, and the store leaves the
// state of a document that is found again alone.
func (e *embedder) save(ctx context.Context, b *batch, p part, vectors [][]float32) error {
	byHash := make(map[document.Hash][]float32, len(p.chunks))
	for _, c := range p.chunks {
		hash := c.Hash()
		byHash[hash] = vectors[b.index[hash]]
	}
	state, err := e.ix.cfg.Store.SaveVectors(ctx, p.ticket.ID, b.fingerprint, len(vectors[0]), byHash)
	if err != nil && !gone(err) {
		e.giveBack([]part{p})
		return err
	}
	if !e.isRest(p.ticket) {
		e.ix.handOn(p.ticket, state, b.fingerprint)
	}
	return nil
}

// skipDone takes out of the rest what the batch embedded for another document,
// and lets the rest go when a scan outdated it.
func (e *embedder) skipDone(b *batch) {
	if e.rest == nil {
		return
	}
	var left []document.Chunk
	for _, c := range e.rest.chunks {
		if _, ok := b.index[c.Hash()]; !ok {
			left = append(left, c)
		}
	}
	if e.rest.chunks = left; len(left) == 0 || e.ix.queue.isStale(e.rest.ticket) {
		e.ix.queue.release(e.rest.ticket)
		e.rest = nil
	}
}

func (e *embedder) isRest(t *ticket) bool { return e.rest != nil && e.rest.ticket == t }

// giveBack releases tickets; the rest of one of them goes with it.
func (e *embedder) giveBack(parts []part) {
	for _, p := range parts {
		if e.isRest(p.ticket) {
			e.rest = nil
		}
		e.ix.queue.release(p.ticket)
	}
}

// failed decides about a batch that gave no vectors. A reply that must not be
// believed says nothing certain about single texts, so the documents of a
// larger batch are tried one by one. An error that is about no text makes
// everything wait; a document that is alone when it happens again and again
// is to blame.
func (e *embedder) failed(ctx context.Context, b *batch, err error) error {
	if ctx.Err() != nil {
		e.giveBack(b.parts)
		return ctx.Err()
	}
	var invalid *vector.InvalidError
	var refused *RefusedError
	aboutTexts := errors.As(err, &invalid) || errors.As(err, &refused)
	single := len(b.parts) == 1
	t := b.parts[0].ticket
	switch {
	case single && refused != nil:
		e.dropRest(t)
		return e.ix.giveUp(ctx, t, refused.Reason, err)
	case single && aboutTexts:
		e.dropRest(t)
		return e.ix.giveUp(ctx, t, document.ReasonInvalidVector, err)
	case single && e.ix.queue.triesOf(t) >= maxBlamed:
		e.dropRest(t)
		return e.ix.giveUp(ctx, t, document.ReasonInternal, err)
	case single:
		e.dropRest(t)
		e.ix.queue.putOff(t, time.Second<<e.ix.queue.triesOf(t))
	default:
		e.giveBack(b.parts)
	}
	e.alone = true
	if aboutTexts {
		return nil
	}
	return e.ix.engine.wait(ctx)
}

// dropRest forgets the rest of t, whose ticket somebody else gives back.
func (e *embedder) dropRest(t *ticket) {
	if e.isRest(t) {
		e.rest = nil
	}
}
