package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ondol-app/ondol/internal/chunk"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/extract"
	"github.com/ondol-app/ondol/internal/sqlite"
)

// fill writes the documents as files and puts them into the index the way the
// indexer does.
func fill(ctx context.Context, db *sqlite.DB, e engine, dir string, documents []file) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	folder, err := db.AddFolder(ctx, dir)
	if err != nil {
		return err
	}
	var changes document.Changes
	for _, d := range documents {
		path := filepath.Join(dir, filepath.FromSlash(d.name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, d.content, 0o600); err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		changes.Found = append(changes.Found, document.File{Path: d.name, FileID: d.name, Size: info.Size(), Modified: info.ModTime().UTC()})
	}
	if err := db.ApplyScan(ctx, folder.ID, changes); err != nil {
		return err
	}
	files, err := db.Files(ctx, folder.ID)
	if err != nil {
		return err
	}
	for name, known := range files {
		if err := add(ctx, db, e, filepath.Join(dir, name), known); err != nil {
			return fmt.Errorf("index %s: %w", name, err)
		}
	}
	return nil
}

func add(ctx context.Context, db *sqlite.DB, e engine, path string, known document.Known) error {
	text, err := extract.Read(ctx, path, extract.DefaultLimits())
	if extract.ReasonOf(err) == document.ReasonEmpty {
		return db.SaveSkipped(ctx, known.ID, document.ReasonEmpty, known.File)
	}
	if err != nil {
		return err
	}
	chunks, err := chunk.Split(text.Content, text.Kind, text.Language, chunk.DefaultSize(), e.count(ctx))
	if err != nil {
		return err
	}
	if _, err = db.SaveText(ctx, known.ID, document.Text{Hash: text.Hash, Title: text.Title, Kind: text.Kind, File: known.File,
		Chunks: chunks, Fingerprint: e.fingerprint}); err != nil || e.client == nil {
		return err
	}
	missing, err := db.MissingVectors(ctx, known.ID, e.fingerprint)
	if err != nil || len(missing) == 0 {
		return err
	}
	texts := make([]string, len(missing))
	for i, c := range missing {
		texts[i] = c.EmbedText()
	}
	vectors, err := e.embed(ctx, texts)
	if err != nil {
		return err
	}
	byHash := make(map[document.Hash][]float32)
	for i, c := range missing {
		byHash[c.Hash()] = vectors[i]
	}
	_, err = db.SaveVectors(ctx, known.ID, e.fingerprint, e.dim, byHash)
	return err
}
