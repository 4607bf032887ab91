package embedding

import (
	"context"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// truncated sets a's inputs to the original ones, the too long ones cut when
// the caller wants that, and returns the token counts it learnt (0 = none).
func (a *asking) truncated(ctx context.Context) (counts []int, err error) {
	a.inputs, a.cut = a.original, nil
	counts = make([]int, len(a.original))
	if !a.truncate {
		return counts, nil
	}
	var places []int
	var texts []string
	for i, input := range a.original {
		if suspect(input, a.instance.MaxTokens) {
			places, texts = append(places, i), append(texts, input)
		}
	}
	if places == nil {
		return counts, nil
	}
	a.inputs = append([]string(nil), a.original...)
	for i, place := range places {
		known, err := a.service.count(ctx, a.instance, a.lane, texts[i:i+1])
		if err != nil {
			return nil, err
		}
		counts[place] = known[0]
		if known[0] <= a.instance.MaxTokens {
			continue
		}
		short, tokens, err := a.shorten(ctx, texts[i], known[0])
		if err != nil {
			return nil, err
		}
		if short == "" {
			return nil, &TooLongError{Index: place, Tokens: known[0], Limit: a.instance.MaxTokens}
		}
		a.inputs[place], counts[place] = short, tokens
		a.cut = append(a.cut, place)
	}
	return counts, nil
}

// shorten returns the longest beginning of text that has at most MaxTokens
// tokens and ends between two graphemes, and its tokens; "" when not even one
// grapheme fits. text has more: tokens.
//
// It asks the engine for counts instead of adding up the lengths of the first
// tokens: those are of a normalised text for many tokenizers, and the end of a
// beginning is not always cut as in the middle. Counts hardly ever fall as the
// text grows, which is what the search relies on.
func (a *asking) shorten(ctx context.Context, text string, tokens int) (string, int, error) {
	limit := a.instance.MaxTokens
	count := func(n int) (int, error) {
		counts, err := a.service.count(ctx, a.instance, a.lane, []string{text[:n]})
		if err != nil {
			return 0, err
		}
		return counts[0], nil
	}
	// Invariant: the first fits bytes have at most limit tokens, the first
	// over bytes have more. Guesses alternate between the place where it
	// should be if all tokens were as long, and the middle.
	fits, over := 0, len(text)
	fitsTokens, overTokens := 0, tokens
	for even := true; ; even = !even {
		guess := fits + (over-fits)/2
		if even && overTokens > fitsTokens {
			guess = fits + int(float64(over-fits)*(float64(limit-fitsTokens)+0.5)/float64(overTokens-fitsTokens))
		}
		n := runeStart(text, min(guess, over-1))
		if n <= fits {
			if n = fits + runeLen(text[fits:]); n >= over {
				break
			}
		}
		got, err := count(n)
		if err != nil {
			return "", 0, err
		}
		if got <= limit {
			fits, fitsTokens = n, got
		} else {
			over, overTokens = n, got
		}
	}
	for fits > 0 {
		n := graphemes(text, fits)
		if n == fits {
			return text[:n], fitsTokens, nil
		}
		got, err := count(n)
		if err != nil {
			return "", 0, err
		}
		if n > 0 && got <= limit {
			return text[:n], got, nil
		}
		fits = max(n-1, 0)
	}
	return "", 0, nil
}

// runeStart is the last beginning of a rune at or before n.
func runeStart(text string, n int) int {
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}

func runeLen(text string) int {
	_, size := utf8.DecodeRuneInString(text)
	return size
}

// graphemes is the last end of a grapheme of text at or before n.
func graphemes(text string, n int) int {
	end, rest, state := 0, text, -1
	for {
		var cluster string
		cluster, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if cluster == "" || end+len(cluster) > n {
			return end
		}
		end += len(cluster)
	}
}
