// Package assets holds what Go and the window share: the sentences of both
// languages and the icons.
//
// Go sends codes; whoever shows them to a person (command line, menu,
// notifications) looks the sentence up here, the window in the same files.
// Placeholders are {name}. Values only, safe for use by several goroutines.
package assets

import (
	"embed"
	"encoding/json"
	"fmt"
	"strings"
)

//go:embed locales/*.json
var locales embed.FS

// Language is a language that Ondol speaks.
type Language string

// The languages, equals.
const (
	English Language = "en"
	Korean  Language = "ko"
)

// LanguageOf reads a language from the environment: ONDOL_LANG, then the POSIX
// order LC_ALL, LC_MESSAGES, LANG. The first that is set decides.
func LanguageOf(getenv func(string) string) Language {
	for _, key := range []string{"ONDOL_LANG", "LC_ALL", "LC_MESSAGES", "LANG"} {
		if value := getenv(key); value != "" {
			if name := strings.ToLower(value); name == "ko" || strings.HasPrefix(name, "ko_") || strings.HasPrefix(name, "ko-") || strings.HasPrefix(name, "ko.") {
				return Korean
			}
			return English
		}
	}
	return English
}

// Words are the sentences of one language, by key.
type Words struct{ sentences map[string]string }

// Speak returns the sentences of a language.
func Speak(language Language) (Words, error) {
	text, err := locales.ReadFile("locales/" + string(language) + ".json")
	if err != nil {
		return Words{}, fmt.Errorf("read sentences: %w", err)
	}
	var w Words
	if err := json.Unmarshal(text, &w.sentences); err != nil {
		return Words{}, fmt.Errorf("read sentences of %s: %w", language, err)
	}
	return w, nil
}

// Say is the sentence named key, with pairs of placeholder and value put in:
// Say("folder.added", "path", p). An unknown key is shown as it is, so that a
// newer app's code is still of use.
func (w Words) Say(key string, pairs ...any) string {
	sentence, ok := w.sentences[key]
	if !ok {
		return key
	}
	return fill(sentence, pairs)
}

// Lookup is Say where the caller has something better than the bare key.
func (w Words) Lookup(key string, pairs ...any) (string, bool) {
	sentence, ok := w.sentences[key]
	return fill(sentence, pairs), ok
}

func fill(sentence string, pairs []any) string {
	if len(pairs) == 0 {
		return sentence
	}
	list := make([]string, 0, len(pairs))
	for i := 0; i+1 < len(pairs); i += 2 {
		list = append(list, "{"+fmt.Sprint(pairs[i])+"}", fmt.Sprint(pairs[i+1]))
	}
	return strings.NewReplacer(list...).Replace(sentence)
}
