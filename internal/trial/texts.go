package trial

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
)

// Count tells how many tokens the engine would embed for each text, special
// tokens included.
type Count func(ctx context.Context, texts []string) ([]int, error)

// InexactError says that no text of so many tokens could be made.
type InexactError struct {
	Want, Got int // tokens
}

func (e *InexactError) Error() string {
	return fmt.Sprintf("make a text of %d tokens: the nearest found has %d", e.Want, e.Got)
}

// words are common enough for any English model to know, and one token each
// for most tokenizers.
var words = strings.Fields(`market river kitchen orchard garden letter winter summer
 house train bridge paper window street doctor music school mountain water bread
 engine report number forest island picture village teacher farmer library machine
 harbour market coffee morning evening station journey animal science history law
 city country weather budget meeting council minister computer energy silver copper
 table chair lamp road field storm cloud ocean stone metal glass wood cotton`)

// fillers bring a text up to its count, token by token. Some tokenizers take
// each letter for a token, some only whole words.
var fillers = []string{" a", "a", " i", ".", " 1", "1"}

// writer makes the inputs of one run.
type writer struct {
	count  Count
	random *rand.Rand
	used   map[string]bool
}

// inputs makes the texts of the steps, in order: one for each request of a path.
func (w *writer) inputs(ctx context.Context, steps []Step, distinct bool) ([]string, error) {
	bodies := map[Size][]string{}
	var texts []string
	for _, step := range steps {
		for range step.Requests {
			body := bodies[step.Size]
			if body == nil || distinct {
				body = w.draw(step.Size.Tokens()) // more than enough: a word is a token or more
				bodies[step.Size] = body
			}
			text, err := w.unused(ctx, body, step.Size.Tokens())
			if err != nil {
				return nil, err
			}
			texts = append(texts, text)
		}
	}
	return texts, nil
}

func (w *writer) draw(n int) []string {
	drawn := make([]string, n)
	for i := range drawn {
		drawn[i] = words[w.random.IntN(len(words))]
	}
	return drawn
}

// mark begins an input: six letters that make it unlike any of this and other
// runs, and a word, for models that take the letters for no word at all.
func (w *writer) mark() []string {
	letters := make([]byte, 6)
	for i := range letters {
		letters[i] = byte('a' + w.random.IntN(26))
	}
	return append([]string{string(letters)}, w.draw(1)...)
}

// unused is an input with a mark of its own. Equal ones are as good as
// impossible, and would be computed once for two requests.
func (w *writer) unused(ctx context.Context, body []string, tokens int) (string, error) {
	for {
		text, err := exact(ctx, w.count, append(w.mark(), body...), tokens)
		if err != nil {
			return "", err
		}
		if !w.used[text] {
			w.used[text] = true
			return text, nil
		}
	}
}

// exact is as many of the pieces as fit into tokens, and fillers for the rest.
// It asks for counts instead of adding up those of words: what a word counts
// for depends on what stands beside it.
func exact(ctx context.Context, count Count, pieces []string, tokens int) (string, error) {
	counted := func(text string) (int, error) {
		counts, err := count(ctx, []string{text})
		if err != nil {
			return 0, fmt.Errorf("count tokens: %w", err)
		}
		if len(counts) != 1 {
			return 0, fmt.Errorf("count tokens: %d counts for one text", len(counts))
		}
		return counts[0], nil
	}
	// Invariant: the first fits pieces have at most so many tokens, the first
	// over pieces more. Guesses are where it should be if all pieces were alike.
	fits, over := 0, len(pieces)+1
	text, has, err := "", 0, error(nil)
	if has, err = counted(text); err != nil {
		return "", err
	}
	for guess := min(tokens, len(pieces)); over-fits > 1; {
		candidate := strings.Join(pieces[:guess], " ")
		got, err := counted(candidate)
		if err != nil {
			return "", err
		}
		if got <= tokens {
			fits, text, has = guess, candidate, got
		} else {
			over = guess
		}
		guess = min(max(guess*tokens/max(got, 1), fits+1), over-1)
	}
	for has < tokens {
		longer, got, err := filled(counted, text, has, tokens)
		if err != nil {
			return "", err
		}
		if got == has {
			return "", &InexactError{Want: tokens, Got: has}
		}
		text, has = longer, got
	}
	if has != tokens { // special tokens alone are more
		return "", &InexactError{Want: tokens, Got: has}
	}
	return text, nil
}

// filled is text with the first filler that brings it nearer; the same text
// when none does.
func filled(counted func(string) (int, error), text string, has, tokens int) (string, int, error) {
	for _, filler := range fillers {
		got, err := counted(text + filler)
		if err != nil {
			return "", 0, err
		}
		if got > has && got <= tokens {
			return text + filler, got, nil
		}
	}
	return text, has, nil
}
