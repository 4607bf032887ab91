package assets_test

import (
	"strings"
	"testing"

	"github.com/ondol-app/ondol/assets"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/models"
	"github.com/ondol-app/ondol/internal/settings"
	"github.com/ondol-app/ondol/internal/upstream"
)

func TestLanguageOf(t *testing.T) {
	for env, want := range map[string]assets.Language{
		"LANG=ko_KR.UTF-8":           assets.Korean,
		"LANG=en_US.UTF-8":           assets.English,
		"LC_ALL=C.UTF-8 LANG=ko_KR":  assets.English,
		"ONDOL_LANG=ko LC_ALL=en_US": assets.Korean,
		"LC_MESSAGES=ko-KR":          assets.Korean,
		"LANG=kok_IN":                assets.English, // Konkani
		"":                           assets.English,
		"LC_MESSAGES=fr_FR ONDOL_LANG= LANG=ko.x": assets.English,
	} {
		vars := map[string]string{}
		for _, pair := range strings.Fields(env) {
			key, value, _ := strings.Cut(pair, "=")
			vars[key] = value
		}
		if got := assets.LanguageOf(func(k string) string { return vars[k] }); got != want {
			t.Errorf("%q: %s, want %s", env, got, want)
		}
	}
}

func TestSay(t *testing.T) {
	for language, want := range map[assets.Language]string{
		assets.English: "Watching /a {id} (folder 3).", assets.Korean: "/a {id} 폴더를 지켜봅니다 (폴더 3).",
	} {
		words, err := assets.Speak(language)
		if err != nil {
			t.Fatal(err)
		}
		// A value that looks like a placeholder stays as it is.
		if got := words.Say("folder.added", "path", "/a {id}", "id", 3); got != want {
			t.Errorf("%s: %q, want %q", language, got, want)
		}
		if got := words.Say("no.such"); got != "no.such" {
			t.Errorf("unknown key: %q", got)
		}
	}
	if _, err := assets.Speak("fr"); err == nil {
		t.Error("an unknown language was accepted")
	}
}

// Every code that Go sends has its sentence.
func TestEveryCodeHasASentence(t *testing.T) {
	words, err := assets.Speak(assets.English)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, s := range []document.State{document.Found, document.Embedding, document.Indexed, document.Skipped, document.Failed} {
		keys = append(keys, "document.state."+s.String())
	}
	for _, s := range []document.FolderState{document.FolderWatching, document.FolderScanning, document.FolderOffline, document.FolderDenied} {
		keys = append(keys, "folder.state."+s.String())
	}
	for _, r := range []document.Reason{
		document.ReasonBinary, document.ReasonEmpty, document.ReasonTooLarge, document.ReasonEncoding, document.ReasonUnsupported,
		document.ReasonUnreadable, document.ReasonDenied, document.ReasonChanging, document.ReasonInvalidVector, document.ReasonTooLong, document.ReasonInternal,
	} {
		keys = append(keys, "reason."+string(r))
	}
	for _, w := range []models.WarningCode{models.WarnTruncated, models.WarnPartMissing, models.WarnPoolingMissing, models.WarnEOSMissing,
		models.WarnEOSWrong, models.WarnHeadMissing, models.WarnRerankPooling, models.WarnRerankTemplate} {
		keys = append(keys, "model.warning."+w.String())
	}
	for _, s := range []models.Source{models.SourceOwn, models.SourceStarter, models.SourceHuggingFace, models.SourceOllama, models.SourceLMStudio, models.SourceLlamaCpp, models.SourceSetting} {
		keys = append(keys, "model.source."+s.String())
	}
	for _, r := range upstream.Roles() {
		keys = append(keys, "model.role."+r.String())
	}
	for _, key := range keys {
		if _, ok := words.Lookup(key); !ok {
			t.Errorf("%s is missing", key)
		}
	}
	for _, k := range settings.Knobs() {
		if got := words.Say("setting." + k.Key); got != k.Meaning {
			t.Errorf("setting.%s says %q, the table %q", k.Key, got, k.Meaning)
		}
	}
}
