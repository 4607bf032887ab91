package models

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/ondol-app/ondol/internal/gguf"
)

// Source is whose model it is.
type Source string

// The sources, in the order in which a file found twice is named.
const (
	SourceOwn         Source = "own"          // our folder of models
	SourceStarter     Source = "starter"      // the model that comes with the app
	SourceHuggingFace Source = "hugging_face" // the Hugging Face cache
	SourceOllama      Source = "ollama"
	SourceLMStudio    Source = "lm_studio"
	SourceLlamaCpp    Source = "llama_cpp" // llama.cpp's own cache
	SourceSetting     Source = "setting"   // named in the settings
)

// String returns the source as it stands in JSON.
func (s Source) String() string { return string(s) }

// Found is a model on this machine.
type Found struct {
	Model
	Ref    string `json:"ref"` // what its source calls it: owner/repo:file, name:tag, or the file's name
	Source Source `json:"source"`
}

// Place is a folder or file that models are looked for in.
type Place struct {
	Source Source `json:"source"`
	Path   string `json:"path"`
}

// Unreadable is a place, or a model in one, that could not be read.
type Unreadable struct {
	Place
	Reason string `json:"reason"` // English
}

// Discovery is what was found, by source and ref.
type Discovery struct {
	Models     []Found      `json:"models"`     // never null
	Unreadable []Unreadable `json:"unreadable"` // never null
}

// Environment is what the places depend on.
type Environment struct {
	GOOS    string
	Home    string
	Getenv  func(string) string // required
	Own     string              // our folder of models
	Starter string              // path of the bundled model; may be empty
}

// Places are where models may lie; a place need not be there.
func Places(env Environment) []Place {
	first := func(paths ...string) string {
		for _, p := range paths {
			if filepath.IsAbs(p) {
				return p
			}
		}
		return ""
	}
	under := func(base string, elements ...string) string {
		if base == "" {
			return ""
		}
		return filepath.Join(append([]string{base}, elements...)...)
	}
	caches := first(env.Getenv("XDG_CACHE_HOME"), under(env.Home, ".cache"))
	llama := under(caches, "llama.cpp")
	if env.GOOS == "darwin" {
		llama = under(env.Home, "Library", "Caches", "llama.cpp")
	}
	places := []Place{
		{SourceOwn, env.Own},
		{SourceStarter, env.Starter},
		{SourceHuggingFace, first(env.Getenv("HF_HUB_CACHE"), env.Getenv("HUGGINGFACE_HUB_CACHE"), under(env.Getenv("HF_HOME"), "hub"), under(caches, "huggingface", "hub"))},
		{SourceOllama, first(env.Getenv("OLLAMA_MODELS"), under(env.Home, ".ollama", "models"))},
		{SourceLMStudio, under(env.Home, ".lmstudio", "models")},
		{SourceLMStudio, under(env.Home, ".cache", "lm-studio", "models")},
		{SourceLlamaCpp, first(env.Getenv("LLAMA_CACHE"), llama)},
	}
	if env.GOOS == "linux" && env.Getenv("OLLAMA_MODELS") == "" {
		places = append(places, Place{SourceOllama, "/usr/share/ollama/.ollama/models"}) // of its system service
	}
	kept := places[:0]
	for _, p := range places {
		if p.Path != "" {
			kept = append(kept, p)
		}
	}
	return kept
}

// candidate is a file that may be a model.
type candidate struct{ path, ref string }

// What a place may hold before the rest is left alone: a cache has hundreds.
const (
	maxEntries = 20000
	maxDepth   = 6
)

// Discover looks through the places. A file reached in several ways is told
// once, as the first place calls it. A place that is not there is no news; one
// that cannot be read is told and the others are looked at. The error is ctx's.
func Discover(ctx context.Context, places []Place) (Discovery, error) {
	d := Discovery{Models: []Found{}, Unreadable: []Unreadable{}}
	var seen []os.FileInfo
	for _, place := range places {
		candidates, err := look(ctx, place)
		if ctx.Err() != nil {
			return d, ctx.Err()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			d.Unreadable = append(d.Unreadable, Unreadable{place, err.Error()})
		}
		for _, c := range candidates {
			if ctx.Err() != nil {
				return d, ctx.Err()
			}
			d.take(place.Source, c, &seen)
		}
	}
	sort.SliceStable(d.Models, func(i, j int) bool { return strings.ToLower(d.Models[i].Ref) < strings.ToLower(d.Models[j].Ref) })
	return d, nil
}

// take inspects a candidate and keeps it if it is a model that is not known yet.
func (d *Discovery) take(source Source, c candidate, seen *[]os.FileInfo) {
	info, err := os.Stat(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return // a link to what was deleted
	}
	if err == nil {
		for _, known := range *seen {
			if os.SameFile(known, info) {
				return
			}
		}
		*seen = append(*seen, info)
		var m *Model
		if m, err = Inspect(c.path); err == nil {
			if m.Role != "" {
				d.Models = append(d.Models, Found{Model: *m, Ref: c.ref, Source: source})
			}
			return
		}
	}
	if _, later := errors.AsType[*NotFirstPartError](err); later || errors.Is(err, gguf.ErrNotGGUF) && source == SourceOllama {
		return // told with its first part; a model Ollama keeps in another format
	}
	d.Unreadable = append(d.Unreadable, Unreadable{Place{source, c.path}, err.Error()})
}

// look lists what a place holds. What could be listed comes along with an error.
func look(ctx context.Context, place Place) ([]candidate, error) {
	switch place.Source {
	case SourceHuggingFace:
		return huggingFace(ctx, place.Path)
	case SourceOllama:
		return ollama(ctx, place.Path)
	case SourceStarter, SourceSetting:
		_, err := os.Stat(place.Path)
		return []candidate{{place.Path, strings.TrimSuffix(filepath.Base(place.Path), ".gguf")}}, err
	}
	return folder(ctx, place.Path)
}

// folder lists the GGUF files below root by their path in it, as LM Studio,
// llama.cpp and we ourselves keep them.
func folder(ctx context.Context, root string) ([]candidate, error) {
	var found []candidate
	err := walk(ctx, root, func(path, rel string) {
		found = append(found, candidate{path, strings.TrimSuffix(filepath.ToSlash(rel), ".gguf")})
	})
	return found, err
}

// walk calls use for every GGUF file below root, following links to files but
// to no folders. It goes on past folders that cannot be read and returns the
// first such error.
func walk(ctx context.Context, root string, use func(path, rel string)) error {
	entries := 0
	var first error
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if first == nil {
				first = err
			}
			if entry != nil && entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if entries++; entries > maxEntries {
			first = errors.Join(first, errors.New("it holds too many files; the rest was not looked at"))
			return fs.SkipAll
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if strings.Count(rel, string(filepath.Separator)) >= maxDepth {
				return fs.SkipDir
			}
			return nil
		}
		if strings.EqualFold(filepath.Ext(path), ".gguf") && !strings.HasPrefix(entry.Name(), "mmproj") {
			use(path, rel)
		}
		return nil
	})
	return errors.Join(first, err)
}
