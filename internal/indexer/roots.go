package indexer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/ondol-app/ondol/internal/document"
)

// Add begins to watch the directory at path and returns it as the index knows
// it: absolute, without symbolic links. Its first scan follows by itself. It
// returns a *document.FolderRefusedError for a folder of Ondol's own or of the
// system.
func (ix *Indexer) Add(ctx context.Context, path string) (document.Folder, error) {
	root, err := resolve(path)
	if err != nil {
		return document.Folder{}, err
	}
	if err := refuse(runtime.GOOS, root, resolved(ix.cfg.Own)); err != nil {
		return document.Folder{}, fmt.Errorf("add folder: %w", err)
	}
	var added document.Folder
	err = ix.do(ctx, func(run context.Context) error {
		f, err := ix.cfg.Store.AddFolder(run, root)
		if err != nil {
			return err
		}
		added = f
		return ix.start(run, f)
	})
	if err != nil {
		return document.Folder{}, fmt.Errorf("add folder: %w", err)
	}
	return added, nil
}

func resolve(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("add folder: %q is not an absolute path", path)
	}
	root, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("add folder: %w", err)
	}
	info, err := os.Stat(root)
	if err != nil {
		return "", fmt.Errorf("add folder: %w", err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("add folder: %s is not a folder: add the folder that it lies in", root)
	}
	return root, nil
}

// Remove stops watching a folder and takes its documents out of the index.
// The files themselves are not touched.
func (ix *Indexer) Remove(ctx context.Context, id document.FolderID) error {
	err := ix.do(ctx, func(run context.Context) error {
		if r := ix.actors[id]; r != nil {
			r.cancel()
			<-r.ended
			ix.mu.Lock()
			delete(ix.actors, id)
			ix.mu.Unlock()
			ix.queue.dropFolder(id)
		}
		return ix.cfg.Store.RemoveFolder(run, id)
	})
	if err != nil {
		return fmt.Errorf("remove folder: %w", err)
	}
	return nil
}

// Rescan asks for a complete scan of a folder and returns at once.
func (ix *Indexer) Rescan(ctx context.Context, id document.FolderID) error {
	ix.mu.RLock()
	r := ix.actors[id]
	ix.mu.RUnlock()
	if r == nil {
		return fmt.Errorf("rescan folder %d: %w", id, document.ErrNotFound)
	}
	r.rescan()
	return ctx.Err()
}
