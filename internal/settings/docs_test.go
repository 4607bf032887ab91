package settings_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/settings"
)

var update = flag.Bool("update", false, "write docs/settings.md anew")

const docIntro = `# Settings

One TOML file (` + "`ondol config path`" + `), the environment above it, the flags of ` + "`ondol serve`" + ` above that. A key that is no
setting is an error that names the nearest one. ` + "`ondol config set KEY VALUE [KEY VALUE …]`" + ` checks the values as a set and
writes all of them or none; ` + "`ondol config get`" + ` shows what holds and where it is from. A file that is edited by hand is
taken over within moments when it holds together, and left alone, with an event that says why, when it does not.

This page is written from the code (` + "`go test ./internal/settings -update`" + `), and a test fails when it is not current.

## Every knob

**counts** says when a changed value does: *now*, or at the next *start* of the app. **raise with it** is what bounds the
knob: raised alone, it only moves the bottleneck, and where the chain would break the change is refused. A name with a knob in
brackets is turned by that knob; one without is a fact of the machine or of the build.

| key | default | unit | range | what it is | counts | raise with it |
| --- | --- | --- | --- | --- | --- | --- |
`

const docChain = `
## The capacity chain

Two limits each, of which the left must not pass the right. A change that breaks a link is refused with its name, both
numbers, and the knob to move with it; a link that was broken before (by hand) may be mended in steps. Those about
memory, and about what the model takes, refuse a change, too, but no start: the app runs and says what is wrong.
` + "`engine.memory_check = false`" + ` waives those about memory. A link that a machine or a model does not have is left out: an input of a model
that can be computed in pieces has no ` + "`input_ubatch`" + `, an engine that somebody else runs has no slots we know of.

| link | left | | right |
| --- | --- | --- | --- |
`

// TestTheTableIsTheCode keeps docs/settings.md from telling what is not so.
func TestTheTableIsTheCode(t *testing.T) {
	var b strings.Builder
	b.WriteString(docIntro)
	for _, k := range settings.Knobs() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s |\n", k.Key, code(k.DefaultText()), unitOf(k), rangeOf(k), meaningOf(k), k.Applies, boundsOf(k.Key))
	}
	b.WriteString(docChain)
	s := set(t, append(append(append([]string{}, rerank...), chat...), "engine.longest_input", "600")...)
	m := usual()
	m.whole = true
	for _, c := range settings.Chain(s, m.facts(t, s)) {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.Link, side(c.Left.Name, c.Left.Knob), c.Op, side(c.Right.Name, c.Right.Knob))
	}
	path := filepath.Join("..", "..", "docs", "settings.md")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), b.String()); diff != "" {
		t.Errorf("docs/settings.md is not what the code says; run this test with -update (-have +want):\n%s", diff)
	}
}

func code(text string) string {
	if text == "" {
		return "empty"
	}
	return "`" + text + "`"
}

func unitOf(k settings.Knob) string {
	switch k.Default.(type) {
	case time.Duration:
		return "time"
	case int:
		return k.Unit
	case bool:
		return "true, false"
	case []string:
		return "list"
	}
	return "text"
}

func rangeOf(k settings.Knob) string {
	switch k.Default.(type) {
	case int:
		return fmt.Sprintf("%d … %d", k.Min, k.Max)
	case time.Duration:
		return fmt.Sprintf("%v … %v", time.Duration(k.Min)*time.Second, time.Duration(k.Max)*time.Second)
	}
	return ""
}

func meaningOf(k settings.Knob) string {
	text := k.Meaning
	if k.Env != "" {
		text += " (`" + k.Env + "`)"
	}
	return text
}

func boundsOf(key string) string {
	var parts []string
	for _, b := range settings.Bounds(key) {
		parts = append(parts, side(b.Name, b.Knob))
	}
	return strings.Join(parts, ", ")
}

func side(name, knob string) string {
	switch knob {
	case "":
		return strings.ReplaceAll(name, "_", " ")
	case name:
		return "`" + name + "`"
	}
	return "`" + name + "` (`" + knob + "`)"
}
