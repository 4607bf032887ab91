package archtest_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var placeholder = regexp.MustCompile(`\{[a-z_]+\}`)

func locale(t *testing.T, language string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "assets", "locales", language+".json"))
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]string{}
	if err := json.Unmarshal(text, &words); err != nil {
		t.Fatalf("%s: %v", language, err)
	}
	if len(words) < 50 {
		t.Fatalf("%s has only %d sentences", language, len(words))
	}
	return words
}

func TestLanguagesSayTheSame(t *testing.T) {
	en, ko := locale(t, "en"), locale(t, "ko")
	for _, key := range slices.Sorted(maps.Keys(en)) {
		if _, ok := ko[key]; !ok {
			t.Errorf("%s is missing in ko.json", key)
			continue
		}
		a, b := placeholder.FindAllString(en[key], -1), placeholder.FindAllString(ko[key], -1)
		slices.Sort(a)
		slices.Sort(b)
		if !slices.Equal(slices.Compact(a), slices.Compact(b)) {
			t.Errorf("%s: placeholders %v in en.json, %v in ko.json", key, a, b)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(ko)) {
		if _, ok := en[key]; !ok {
			t.Errorf("%s is missing in en.json", key)
		}
	}
}

// A Korean sentence without Hangul, or an English one with it, was left
// untranslated. Some are the same in both: names, numbers, units.
func TestEachLanguageIsItself(t *testing.T) {
	hangul := func(s string) bool {
		return strings.ContainsFunc(s, func(r rune) bool { return unicode.Is(unicode.Hangul, r) })
	}
	letters := func(s string) bool {
		return strings.ContainsFunc(placeholder.ReplaceAllString(s, ""), unicode.IsLetter)
	}
	en, ko := locale(t, "en"), locale(t, "ko")
	for key, text := range en {
		if hangul(text) && key != "language.ko" {
			t.Errorf("en.json %s is Korean: %q", key, text)
		}
	}
	for key, text := range ko {
		if letters(text) && !hangul(text) && text != en[key] {
			t.Errorf("ko.json %s is not Korean: %q", key, text)
		}
	}
}

// key is a string in Go or TypeScript that can only be a sentence's name.
var key = regexp.MustCompile(`["'](app|cli|usage|window|serve|error|settings|setting|engine|queue|totals|status|table|folder|document|generation|event|reason|search|evidence|degraded|model|pull|problem|remedy|language|verify|candidate|promote|rollback|tune|chain|doctor)\.([a-z_.]*[a-z_]|)["']`)

// family is the beginning of a key whose end is a code.
var family = regexp.MustCompile(`["']([a-z_]+(?:\.[a-z_]+)*)\.["']`)

// Every sentence that is asked for by name exists, and every one that exists
// is asked for, by name or as one of a family.
func TestSentencesAndTheirUsesAgree(t *testing.T) {
	list, err := files()
	if err != nil {
		t.Fatal(err)
	}
	en := locale(t, "en")
	used, families := map[string]bool{}, map[string]bool{"error": true, "engine.state": true, "engine.problem": true, "evidence": true, "event": true}
	for _, name := range list {
		shown := strings.HasPrefix(name, "app/") || strings.HasPrefix(name, "frontend/src/") || strings.HasPrefix(name, "internal/trial/")
		if !shown || strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		text = kind.ReplaceAll(text, nil) // its sentence is event.KIND
		for _, m := range key.FindAllStringSubmatch(string(text), -1) {
			if m[2] == "" {
				continue
			}
			k := m[1] + "." + m[2]
			used[k] = true
			if _, ok := en[k]; !ok && !begins(en, k) {
				t.Errorf("%s asks for %s, which is in no locale", name, k)
			}
		}
		for _, m := range family.FindAllStringSubmatch(string(text), -1) {
			families[m[1]] = true
		}
	}
	for k := range en {
		inFamily := slices.ContainsFunc(slices.Collect(maps.Keys(families)), func(f string) bool { return strings.HasPrefix(k, f+".") })
		if !used[k] && !inFamily {
			t.Errorf("%s is never shown", k)
		}
	}
}

// kind is the declaration of a kind of event.
var kind = regexp.MustCompile(`\bKind\w*\s+(?:event|news)\.Kind\s*=\s*"([a-z_.]+)"`)

// Every kind of event has a sentence.
func TestEventsHaveSentences(t *testing.T) {
	list, err := files()
	if err != nil {
		t.Fatal(err)
	}
	en := locale(t, "en")
	kinds := 0
	for _, name := range list {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range kind.FindAllStringSubmatch(string(text), -1) {
			kinds++
			if _, ok := en["event."+m[1]]; !ok {
				t.Errorf("%s declares the kind %s, which has no sentence in the locales", name, m[1])
			}
		}
	}
	if kinds == 0 {
		t.Error("no kind of event was found: is the pattern still right?")
	}
}

// begins reports whether some sentence's name goes on after prefix.
func begins(words map[string]string, prefix string) bool {
	for k := range words {
		if strings.HasPrefix(k, prefix+".") {
			return true
		}
	}
	return false
}
