package models

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// What Ollama's manifests look like: manifests/HOST/NAMESPACE/NAME/TAG is JSON
// whose layers name files in blobs by their hash.
const (
	modelLayer  = "application/vnd.ollama.image.model"
	maxManifest = 1 << 20 // bytes; a real one has a thousand
	manifestAt  = 4       // elements of a manifest's path
)

// digest is a blob's name; nothing else may be made a path of.
var digest = regexp.MustCompile(`^sha256:([0-9a-f]{64})$`)

// ollama lists the models of Ollama's manifests. A model's name is Ollama's
// own: without its default host and namespace.
func ollama(ctx context.Context, root string) ([]candidate, error) {
	manifests := filepath.Join(root, "manifests")
	var found []candidate
	var first error
	err := filepath.WalkDir(manifests, func(path string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && len(found) >= maxEntries {
			return fs.SkipAll
		}
		if err == nil && entry.Type().IsRegular() {
			rel, _ := filepath.Rel(manifests, path) // path is below manifests
			var blobs []string
			if blobs, err = modelBlobs(path); err == nil {
				for _, blob := range blobs {
					found = append(found, candidate{filepath.Join(root, "blobs", blob), ollamaName(filepath.ToSlash(rel))})
				}
			}
		}
		if err != nil && first == nil {
			first = err
		}
		if err != nil && entry != nil && entry.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	if first == nil {
		first = err
	}
	return found, first
}

// modelBlobs are the files of a manifest's model layers.
func modelBlobs(path string) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxManifest))
	if err != nil {
		return nil, err
	}
	var manifest struct {
		Layers []struct {
			MediaType string `json:"mediaType"`
			Digest    string `json:"digest"`
		} `json:"layers"`
	}
	if err := json.Unmarshal(data, &manifest); err != nil {
		return nil, fmt.Errorf("read manifest %s: %w", path, err)
	}
	var blobs []string
	for _, layer := range manifest.Layers {
		if name := digest.FindStringSubmatch(layer.Digest); name != nil && layer.MediaType == modelLayer {
			blobs = append(blobs, "sha256-"+name[1])
		}
	}
	return blobs, nil
}

// ollamaName makes name:tag of a manifest's path.
func ollamaName(rel string) string {
	parts := strings.Split(rel, "/")
	if len(parts) != manifestAt {
		return rel
	}
	name := parts[2] + ":" + parts[3]
	switch {
	case parts[0] != "registry.ollama.ai":
		return strings.Join(parts[:2], "/") + "/" + name
	case parts[1] != "library":
		return parts[1] + "/" + name
	}
	return name
}
