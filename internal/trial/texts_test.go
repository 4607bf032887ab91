package trial

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// Tokenizers of the kinds there are, each with special tokens.
var tokenizers = map[string]func(string) int{
	"bytes": func(s string) int { return len(s) + 1 },
	"words": func(s string) int { return len(strings.Fields(s)) + 2 },
	"pieces of three letters": func(s string) int {
		n := 2
		for _, word := range strings.Fields(s) {
			n += (len(word) + 2) / 3
		}
		return n
	},
	"pairs over word ends": func(s string) int { return (len(s)+1)/2 + 1 },
}

func counting(tokens func(string) int, calls *int) Count {
	return func(_ context.Context, texts []string) ([]int, error) {
		*calls++
		counts := make([]int, len(texts))
		for i, text := range texts {
			counts[i] = tokens(text)
		}
		return counts, nil
	}
}

func TestInputsAreExactAndNeverEqual(t *testing.T) {
	for name, tokens := range tokenizers {
		for _, distinct := range []bool{false, true} {
			calls := 0
			w := writer{count: counting(tokens, &calls), random: rand.New(rand.NewPCG(1, 2)), used: map[string]bool{}}
			texts, err := w.inputs(t.Context(), Steps(false), distinct)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			seen, i := map[string]bool{}, 0
			for _, step := range Steps(false) {
				for range step.Requests {
					if got := tokens(texts[i]); got != step.Size.Tokens() {
						t.Errorf("%s: a %s input has %d tokens", name, step.Size, got)
					}
					if seen[texts[i]] {
						t.Errorf("%s: %q twice", name, texts[i])
					}
					seen[texts[i]] = true
					i++
				}
			}
			if len(texts) != 38 || i != 38 {
				t.Errorf("%s: %d inputs for %d requests", name, len(texts), i)
			}
			// The second word after the mark is the body's first.
			if same := strings.Fields(texts[4])[2] == strings.Fields(texts[5])[2] && strings.Fields(texts[4])[3] == strings.Fields(texts[5])[3]; same == distinct {
				t.Errorf("%s: distinct %v, and two inputs go on alike: %v", name, distinct, same)
			}
			if calls > 38*20 {
				t.Errorf("%s: %d counts for 38 inputs", name, calls)
			}
		}
	}
}

func TestExactSaysWhenItCannotBe(t *testing.T) {
	calls := 0
	even := counting(func(s string) int { return 2 * (len(s) + 1) }, &calls)
	_, err := exact(t.Context(), even, words, 17)
	if inexact, ok := errors.AsType[*InexactError](err); !ok || inexact.Want != 17 || inexact.Got != 16 {
		t.Errorf("an odd count from an even tokenizer: %v", err)
	}
	_, err = exact(t.Context(), counting(func(string) int { return 40 }, &calls), words, 16)
	if inexact, ok := errors.AsType[*InexactError](err); !ok || inexact.Got != 40 {
		t.Errorf("special tokens alone are more: %v", err)
	}
	broken := errors.New("no engine")
	if _, err := exact(t.Context(), func(context.Context, []string) ([]int, error) { return nil, broken }, words, 16); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if _, err := exact(t.Context(), func(context.Context, []string) ([]int, error) { return nil, nil }, words, 16); err == nil {
		t.Error("no count for a text was accepted")
	}
}
