package indexer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/ondol-app/ondol/internal/chunk"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/extract"
)

const (
	// settle is how old a file's time must be before it is read. Clocks of file
	// systems tick every few milliseconds: a second write within one tick would
	// leave no trace, and the first text would pass for the last.
	settle = 50 * time.Millisecond
	// maxChanging is how often in a row a file may change while it is read
	// before that is its state; a log that never rests must not be read forever.
	maxChanging = 6
	// directoryPause is the time a scan has to find that a directory which could
	// not be looked at can be now.
	directoryPause = 10 * time.Second
	// maxBlamed is how often in a row the engine may fail on one document while
	// it is up, before the document is blamed.
	maxBlamed = 3
)

// errEngine means that the engine cannot be had now: the document waits.
var errEngine = errors.New("the engine is not available")

// errReader means a defect of a reader: it panicked.
var errReader = errors.New("the reader broke")

// readText is one worker of the first stage. It returns when ctx is done.
func (ix *Indexer) readText(ctx context.Context) error {
	for {
		t, err := ix.queue.next(ctx, stageText)
		if err != nil {
			if err := ix.storeFailed(ctx, "Read queue", err); err != nil {
				return err
			}
			continue
		}
		if err := ix.readTicket(ctx, t); err != nil {
			return err
		}
	}
}

// readTicket brings one document from found to embedding, indexed, skipped or
// failed, or puts it off. It gives the ticket back; its error ends the worker.
func (ix *Indexer) readTicket(ctx context.Context, t *ticket) error {
	err := ix.readDocument(ctx, t)
	if ctx.Err() != nil {
		ix.queue.release(t)
		return ctx.Err()
	}
	switch {
	case err == nil:
	case gone(err):
		ix.queue.done(t)
	case errors.Is(err, errEngine):
		ix.queue.release(t)
		return ix.engine.wait(ctx)
	default:
		ix.queue.release(t)
		return ix.storeFailed(ctx, "Save text", err)
	}
	return nil
}

// readDocument does the work of readTicket. On nil the ticket is given back.
func (ix *Indexer) readDocument(ctx context.Context, t *ticket) error {
	root, ok := ix.rootOf(t.FolderID)
	if !ok {
		return errStale
	}
	if dir, ok := strings.CutSuffix(t.Path, "/"); ok {
		if err := ix.lookAt(t.FolderID, dir); err != nil {
			return ix.fail(ctx, t, extract.ReasonOf(err), err.Error())
		}
		ix.queue.putOff(t, directoryPause) // the scan takes it away
		return nil
	}
	before, info, err := statFile(root, t.Path)
	if err != nil || !info.Mode().IsRegular() {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return ix.fail(ctx, t, extract.ReasonOf(err), err.Error())
		}
		// Only a scan may decide that it is gone.
		ix.queue.putOff(t, time.Second)
		ix.hint(t.FolderID, t.Path)
		return nil
	}
	if age := ix.cfg.Now().Sub(before.Modified); age >= 0 && age < settle {
		ix.queue.rest(t, settle-age)
		return nil
	}
	text, err := ix.extract(ctx, filepath.Join(root, filepath.FromSlash(t.Path)))
	after, _, again := statFile(root, t.Path)
	if again != nil || !after.SameContent(before) || errors.Is(err, extract.ErrChanging) {
		return ix.changing(ctx, t)
	}
	var skip *extract.SkipError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &skip):
		return ix.skip(ctx, t, skip.Reason, before)
	case errors.Is(err, errReader):
		return ix.fail(ctx, t, document.ReasonInternal, err.Error())
	case err != nil:
		return ix.fail(ctx, t, extract.ReasonOf(err), err.Error())
	}
	return ix.record(ctx, t, before, text)
}

// record cuts a text and stores it.
func (ix *Indexer) record(ctx context.Context, t *ticket, file document.File, text extract.Text) error {
	maker, err := ix.cfg.Embedder.Maker()
	if err != nil {
		return errEngine
	}
	fingerprint := maker.Fingerprint
	if text.Hash == t.Hash && t.Hash != "" && text.Kind == t.Kind && text.Language == t.Language {
		return ix.touch(ctx, t, fingerprint, file)
	}
	var engine error
	chunks, err := chunk.Split(text.Content, text.Kind, text.Language, ix.cfg.ChunkSize, func(texts []string) ([]int, error) {
		counts, err := ix.cfg.Embedder.CountTokens(ctx, texts)
		engine = err
		return counts, err
	})
	switch {
	case engine != nil:
		return ix.blame(ctx, t, engine)
	case err != nil:
		return ix.fail(ctx, t, document.ReasonInternal, err.Error())
	case len(chunks) == 0:
		return ix.skip(ctx, t, document.ReasonEmpty, file)
	}
	ix.engine.served()
	var state document.State
	var missing []document.Chunk
	err = ix.queue.write(t, func() (err error) {
		state, err = ix.cfg.Store.SaveText(ctx, t.ID, document.Text{
			Hash: text.Hash, Title: text.Title, Kind: text.Kind, Language: text.Language,
			File: file, Chunks: chunks, Fingerprint: fingerprint,
		})
		if err == nil && state == document.Embedding {
			missing, err = ix.cfg.Store.MissingVectors(ctx, t.ID, fingerprint)
		}
		return err
	})
	if err != nil {
		return err
	}
	ix.stats.read.Add(1)
	ix.stats.reused.Add(int64(len(chunks) - len(missing)))
	ix.filler.kick()
	ix.handOn(t, state, fingerprint)
	return nil
}

// touch is record for bytes that are indexed already.
func (ix *Indexer) touch(ctx context.Context, t *ticket, fingerprint string, file document.File) error {
	var state document.State
	err := ix.queue.write(t, func() (err error) {
		state, err = ix.cfg.Store.Touch(ctx, t.ID, fingerprint, file)
		return err
	})
	if err != nil {
		return err
	}
	ix.stats.unchanged.Add(1)
	ix.handOn(t, state, fingerprint)
	return nil
}

// handOn gives back the ticket of a document that stands in state now. When the
// engine's vectors became of another kind since fingerprint was asked for, an
// indexed document has the old kind and the store is asked to requeue it.
func (ix *Indexer) handOn(t *ticket, state document.State, fingerprint string) {
	if state == document.Embedding {
		ix.queue.pass(t)
		return
	}
	ix.queue.done(t)
	if now, err := ix.cfg.Embedder.Maker(); err == nil && now.Fingerprint != fingerprint {
		signal(ix.requeue)
	}
	ix.lookWhole()
}

func (ix *Indexer) skip(ctx context.Context, t *ticket, reason document.Reason, file document.File) error {
	err := ix.queue.write(t, func() error { return ix.cfg.Store.SaveSkipped(ctx, t.ID, reason, file) })
	if err == nil {
		ix.stats.skipped.Add(1)
		ix.queue.done(t)
		ix.lookWhole()
	}
	return err
}

// fail records a failure and when it is tried again: after 1 min, then twice
// as long each time, at most an hour.
func (ix *Indexer) fail(ctx context.Context, t *ticket, reason document.Reason, detail string) error {
	retry := ix.cfg.Now().Add(retryDelay(t.Tries))
	err := ix.queue.write(t, func() error { return ix.cfg.Store.SaveFailed(ctx, t.ID, reason, detail, retry) })
	if err == nil {
		ix.stats.failed.Add(1)
		ix.queue.done(t)
		ix.lookWhole()
	}
	return err
}

func retryDelay(tries int) time.Duration {
	return min(time.Minute<<min(tries, 10), time.Hour)
}

// changing puts off a document whose file moved while it was read.
func (ix *Indexer) changing(ctx context.Context, t *ticket) error {
	n := ix.queue.triesOf(t)
	if n >= maxChanging {
		return ix.fail(ctx, t, document.ReasonChanging, "the file kept changing while it was read")
	}
	ix.queue.putOff(t, 250*time.Millisecond<<n)
	ix.hint(t.FolderID, t.Path)
	return nil
}

// blame decides about an error of the engine: while the engine is down the
// document waits; when it is up and fails on this document again and again,
// the document is at fault.
func (ix *Indexer) blame(ctx context.Context, t *ticket, err error) error {
	var refused *RefusedError
	if errors.As(err, &refused) {
		return ix.fail(ctx, t, refused.Reason, err.Error())
	}
	if _, down := ix.cfg.Embedder.Maker(); down != nil || ctx.Err() != nil {
		return errEngine
	}
	n := ix.queue.triesOf(t)
	if n >= maxBlamed {
		return ix.fail(ctx, t, document.ReasonInternal, err.Error())
	}
	ix.queue.putOff(t, time.Second<<n)
	return nil
}

// giveUp is fail for a ticket that is given back whatever happens.
func (ix *Indexer) giveUp(ctx context.Context, t *ticket, reason document.Reason, cause error) error {
	err := ix.fail(ctx, t, reason, cause.Error())
	if err == nil {
		return nil
	}
	ix.queue.done(t)
	if gone(err) {
		return nil
	}
	return ix.storeFailed(ctx, "Save failure", err)
}

// gone reports whether a write met a document that is no longer there, or no
// longer the one that was read: there is nothing to save.
func gone(err error) bool { return errors.Is(err, errStale) || errors.Is(err, document.ErrNotFound) }

// extract reads a file. A defect in a reader costs one document.
func (ix *Indexer) extract(ctx context.Context, path string) (text extract.Text, err error) {
	defer func() {
		if p := recover(); p != nil {
			ix.cfg.Log.Error("Reader panicked", "path", path, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("%w: %v", errReader, p)
		}
	}()
	return extract.Read(ctx, path, ix.cfg.Limits)
}
