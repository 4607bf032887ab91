package trial_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ondol-app/ondol/assets"
	"github.com/ondol-app/ondol/internal/trial"
)

// A report in words leaves nothing unsaid: no key without a sentence, no
// placeholder without a value, in both languages, passed or failed.
func TestMarkdownSaysEverything(t *testing.T) {
	for _, language := range []assets.Language{assets.English, assets.Korean} {
		words, err := assets.Speak(language)
		if err != nil {
			t.Fatal(err)
		}
		say := func(key string, pairs ...any) string {
			if _, ok := words.Lookup(key, pairs...); !ok {
				t.Errorf("%s: no sentence %q", language, key)
			}
			return words.Say(key, pairs...)
		}
		for _, fails := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				slow := &target{takes: time.Second}
				if fails {
					slow.fault = func(ctx context.Context, n int, text string) ([][]float32, error) {
						switch n % 4 {
						case 0:
							<-ctx.Done()
							return nil, ctx.Err()
						case 1:
							return [][]float32{make([]float32, dim)}, nil
						case 2:
							return [][]float32{embed("another")}, nil
						}
						return nil, context.Canceled
					}
				}
				cfg, _ := two(t, &target{takes: time.Second}, slow)
				cfg.Quick, cfg.Distinct, cfg.Machine, cfg.Version = fails, fails, trial.ThisMachine(), "1.2.3"
				cfg.Cache = func() trial.CacheCounts { return trial.CacheCounts{} } // never any: fails
				r, err := trial.Run(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				page := r.Markdown(say)
				if strings.ContainsAny(page, "{}") {
					t.Errorf("%s: a placeholder is left:\n%s", language, page)
				}
				rows := strings.Count(page, "\n| ")
				if want := 2 + len(r.Rows); rows != want {
					t.Errorf("%s: %d rows, want %d:\n%s", language, rows, want, page)
				}
				for _, want := range []string{"1.2.3", "`m`", "`f`"} {
					if !strings.Contains(page, want) {
						t.Errorf("%s: no %s in\n%s", language, want, page)
					}
				}
				for _, reason := range r.Verdict.Reasons {
					if !strings.Contains(page, "- "+reason.Sentence(say)+"\n") {
						t.Errorf("%s: reason %s is not told", language, reason.Code)
					}
				}
				if n := len(r.Verdict.Reasons); fails != (n > 1) || n == 0 {
					t.Errorf("reasons %v", r.Verdict.Reasons)
				}
			})
		}
	}
}

// Every code that a report can hold has its sentence.
func TestEveryCodeHasASentence(t *testing.T) {
	words, err := assets.Speak(assets.English)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, code := range []trial.ReasonCode{trial.ReasonLate, trial.ReasonInvalid, trial.ReasonFailed, trial.ReasonDifferent,
		trial.ReasonNotIdle, trial.ReasonEngineChanged, trial.ReasonCached} {
		keys = append(keys, "verify.reason."+code.String())
	}
	for _, note := range []trial.Note{trial.NoteDeadline, trial.NoteQuick, trial.NoteShort, trial.NoteMarked, trial.NoteDistinct, trial.NoteHeld, trial.NoteOthers, trial.NoteNoGPU} {
		keys = append(keys, "verify.note."+note.String())
	}
	for _, caveat := range []trial.Caveat{trial.CaveatSmallSample, trial.CaveatWorkloads} {
		keys = append(keys, "verify.caveat."+caveat.String())
	}
	for _, phase := range []trial.Phase{trial.Preparing, trial.Running, trial.Settling} {
		keys = append(keys, "verify.phase."+phase.String())
	}
	for _, size := range []trial.Size{trial.Short, trial.Medium} {
		keys = append(keys, "verify.size."+size.String())
	}
	for _, key := range keys {
		if _, ok := words.Lookup(key); !ok {
			t.Errorf("%s is missing", key)
		}
	}
}
