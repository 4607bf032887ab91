package catalog

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/agnivade/levenshtein"
)

// Reference is one file of the hub.
type Reference struct {
	Name     string // as a person writes it: a name of the list, or hf:OWNER/REPO:FILE
	Repo     string // OWNER/REPO
	File     string // path in the repository, slash separated
	Revision string // pinned by the list; empty = the newest
	Model    *Model // the entry of the list; nil = not of the list
}

// ReferenceError says what is wrong with what a person wrote. Code is one of
// unknown, form, repo, file, not_gguf, split.
type ReferenceError struct {
	Text    string
	Code    string
	Nearest string // of unknown: the name that was probably meant; may be empty
}

func (e *ReferenceError) Error() string {
	text := fmt.Sprintf("%q names no model: ", e.Text)
	switch e.Code {
	case "unknown":
		if e.Nearest != "" {
			return text + "did you mean " + e.Nearest + "?"
		}
		return text + "take a name of the catalogue, or write hf:OWNER/REPO:FILE"
	case "not_gguf":
		return text + "the file must end in .gguf"
	case "split":
		return text + "models in several files are not supported; take a file that is whole"
	}
	return text + "write hf:OWNER/REPO:FILE"
}

var (
	repoName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}$`)
	// No part begins with a dot, so that none leads up or hides.
	filePath = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+-]{0,127}(/[A-Za-z0-9_][A-Za-z0-9._+-]{0,127}){0,4}$`)
	split    = regexp.MustCompile(`-\d{5}-of-\d{5}\.gguf$`)
)

// Parse reads what a person wrote. The error is a *ReferenceError.
func Parse(text string) (Reference, error) {
	rest, hub := strings.CutPrefix(text, "hf:")
	if !hub {
		name := strings.ToLower(strings.TrimSpace(text))
		for i := range models {
			if m := models[i]; m.Name == name {
				return Reference{Name: m.Name, Repo: m.Repo, File: m.File, Revision: m.Revision, Model: &m}, nil
			}
		}
		return Reference{}, &ReferenceError{Text: text, Code: "unknown", Nearest: nearest(name)}
	}
	repo, file, found := strings.Cut(rest, ":")
	refused := func(code string) (Reference, error) { return Reference{}, &ReferenceError{Text: text, Code: code} }
	switch {
	case !found:
		return refused("form")
	case !repoName.MatchString(repo):
		return refused("repo")
	case !filePath.MatchString(file):
		return refused("file")
	case path.Ext(file) != ".gguf":
		return refused("not_gguf")
	case split.MatchString(file):
		return refused("split")
	}
	for i := range models {
		if m := models[i]; m.Repo == repo && m.File == file {
			return Reference{Name: m.Name, Repo: repo, File: file, Revision: m.Revision, Model: &m}, nil
		}
	}
	return Reference{Name: text, Repo: repo, File: file}, nil
}

// nearest is the name that differs least, where that is at most a third of it.
func nearest(name string) string {
	best, least := "", len(name)/3+1
	for _, m := range models {
		if d := levenshtein.ComputeDistance(name, m.Name); d < least {
			best, least = m.Name, d
		}
	}
	return best
}
