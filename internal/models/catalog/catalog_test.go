package catalog_test

import (
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/models/catalog"
	"github.com/ondol-app/ondol/internal/upstream"
)

// Every entry must be good enough to be downloaded without asking the hub, and
// to be chosen by somebody who reads the list.
func TestEntriesAreWhole(t *testing.T) {
	hash, commit := regexp.MustCompile(`^[0-9a-f]{64}$`), regexp.MustCompile(`^[0-9a-f]{40}$`)
	profiles := map[string]bool{}
	for _, p := range llamaserver.Profiles() {
		profiles[p.Name] = true
	}
	seen := map[string]bool{}
	for _, m := range catalog.Models() {
		ref, err := catalog.Parse(m.Name)
		if err != nil || ref.Model == nil || ref.Revision != m.Revision {
			t.Errorf("%s: %+v, %v", m.Name, ref, err)
		}
		if _, err := catalog.Parse("hf:" + m.Repo + ":" + m.File); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		if !hash.MatchString(m.SHA256) || !commit.MatchString(m.Revision) || m.Size < 1<<20 || seen[m.SHA256] || seen[m.Name] {
			t.Errorf("%s: %q %q %d", m.Name, m.SHA256, m.Revision, m.Size)
		}
		seen[m.SHA256], seen[m.Name] = true, true
		if m.Licence == "" || !strings.HasPrefix(m.LicenceURL, "https://") || m.Context == 0 || m.Languages == "" || m.Quantisation == "" {
			t.Errorf("%s: %+v", m.Name, m)
		}
		if embeds := m.Role == upstream.RoleEmbed; embeds != (m.Dim > 0) || embeds != profiles[m.Profile] {
			t.Errorf("%s: dim %d, profile %q", m.Name, m.Dim, m.Profile)
		}
	}
}

func TestEntriesHaveSentences(t *testing.T) {
	for _, language := range []string{"en", "ko"} {
		text, err := os.ReadFile("../../../assets/locales/" + language + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var words map[string]string
		if err := json.Unmarshal(text, &words); err != nil {
			t.Fatal(err)
		}
		for _, name := range catalog.Names() {
			if words["model.use."+name] == "" {
				t.Errorf("%s: model.use.%s is missing", language, name)
			}
		}
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		text string
		want catalog.Reference
		code string
	}{
		{"hf:a/b:c.gguf", catalog.Reference{Name: "hf:a/b:c.gguf", Repo: "a/b", File: "c.gguf"}, ""},
		{"hf:a.b/C_d-1.0:sub/c.Q8_0.gguf", catalog.Reference{Name: "hf:a.b/C_d-1.0:sub/c.Q8_0.gguf", Repo: "a.b/C_d-1.0", File: "sub/c.Q8_0.gguf"}, ""},
		{"qwen3-embeding-0.6b", catalog.Reference{}, "unknown"},
		{"hf:a/b", catalog.Reference{}, "form"},
		{"hf:a:c.gguf", catalog.Reference{}, "repo"},
		{"hf:a/b/c:c.gguf", catalog.Reference{}, "repo"},
		{"hf:../b:c.gguf", catalog.Reference{}, "repo"},
		{"hf:a/b:../c.gguf", catalog.Reference{}, "file"},
		{"hf:a/b:x/../c.gguf", catalog.Reference{}, "file"},
		{"hf:a/b:/etc/c.gguf", catalog.Reference{}, "file"},
		{"hf:a/b:.c.gguf", catalog.Reference{}, "file"},
		{"hf:a/b:c.gguf?x=1", catalog.Reference{}, "file"},
		{"hf:a/b:c.gguf\n", catalog.Reference{}, "file"},
		{"hf:a/b:", catalog.Reference{}, "file"},
		{"hf:a/b:README.md", catalog.Reference{}, "not_gguf"},
		{"hf:a/b:c-00001-of-00003.gguf", catalog.Reference{}, "split"},
	}
	for _, tt := range tests {
		got, err := catalog.Parse(tt.text)
		e, refused := errors.AsType[*catalog.ReferenceError](err)
		if refused != (tt.code != "") || (refused && e.Code != tt.code) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.code)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.text, diff)
		}
	}
	_, err := catalog.Parse("qwen3-embeding-0.6b")
	if e, ok := errors.AsType[*catalog.ReferenceError](err); !ok || e.Nearest != "qwen3-embedding-0.6b" {
		t.Errorf("%v", err)
	}
	// A file of the list is the list's, with its hash, however it is written.
	m := catalog.Models()[0]
	if got, err := catalog.Parse("hf:" + m.Repo + ":" + m.File); err != nil || got.Model == nil || got.Name != m.Name {
		t.Errorf("%+v, %v", got, err)
	}
}
