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
	for place, input := range a.original {
		if !suspect(input, a.instance.MaxTokens) {
			continue
		}
		short, tokens, err := a.shorten(ctx, input)
		if err != nil {
			return nil, err
		}
		if short == "" {
			return nil, &TooLongError{Index: place, Tokens: tokens, AtLeast: true, Limit: a.instance.MaxTokens}
		}
		counts[place] = tokens
		if short == input {
			continue
		}
		if a.cut == nil {
			a.inputs = append([]string(nil), a.original...)
		}
		a.inputs[place], a.cut = short, append(a.cut, place)
	}
	return counts, nil
}

// firstGuess is how many bytes a token is supposed to have until the text says
// otherwise.
const firstGuess = 4

// shorten returns the longest beginning of text that has at most MaxTokens
// tokens and ends between two graphemes, and its tokens. It is all of text when
// that fits, and "" when not even one grapheme does; then the tokens are of more.
//
// It asks the engine for counts instead of adding up the lengths of the first
// tokens: those are of a normalised text for many tokenizers, and the end of a
// beginning is not always cut as in the middle. Counts hardly ever fall as the
// text grows, which is what the search relies on.
func (a *asking) shorten(ctx context.Context, text string) (short string, tokens int, err error) {
	limit := a.instance.MaxTokens
	count := func(n int) (int, error) {
		counts, err := a.service.count(ctx, a.instance, a.lane, []string{text[:n]})
		if err != nil {
			return 0, err
		}
		return counts[0], nil
	}
	// Invariant: the first fits bytes have at most limit tokens, the first
	// over bytes have more. A bound above is looked for from below, so that a
	// text of megabytes is not counted to its end.
	fits, fitsTokens, over, overTokens := 0, 0, 0, 0
	for n := limit * firstGuess; over == 0; n *= firstGuess {
		end := len(text)
		if n < end {
			end = runeStart(text, n)
		}
		got, err := count(end)
		switch {
		case err != nil:
			return "", 0, err
		case got > limit:
			over, overTokens = end, got
		case end == len(text):
			return text, got, nil
		default:
			fits, fitsTokens = end, got
		}
	}
	fits, fitsTokens, err = narrow(text, limit, count, fits, fitsTokens, over, overTokens)
	if err != nil {
		return "", 0, err
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
	return "", overTokens, nil
}

// narrow brings fits and over together, to neighbouring runes. Guesses
// alternate between the place where it should be if all tokens were as long,
// and the middle.
func narrow(text string, limit int, count func(int) (int, error), fits, fitsTokens, over, overTokens int) (int, int, error) {
	for even := true; ; even = !even {
		guess := fits + (over-fits)/2
		if even && overTokens > fitsTokens {
			guess = fits + int(float64(over-fits)*(float64(limit-fitsTokens)+0.5)/float64(overTokens-fitsTokens))
		}
		n := runeStart(text, min(guess, over-1))
		if n <= fits {
			if n = fits + runeLen(text[fits:]); n >= over {
				return fits, fitsTokens, nil
			}
		}
		got, err := count(n)
		if err != nil {
			return 0, 0, err
		}
		if got <= limit {
			fits, fitsTokens = n, got
		} else {
			over, overTokens = n, got
		}
	}
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
