package embedding

const (
	// maxBatchInputs is the most inputs of one engine call: enough to keep
	// every slot busy, few enough that a call is over in a moment.
	maxBatchInputs = 32

	// bytesPerToken is a low estimate for prose and code in a large
	// vocabulary. It only sizes calls; the engine itself splits whatever does
	// not fit its batch.
	bytesPerToken = 3

	// maxSpecialTokens is more than any model adds to an input.
	maxSpecialTokens = 8
)

// batch is how many of the first flights go into one engine call; at least
// one, so that a text above batchTokens is a call of its own.
func batch(flights []*flight, batchTokens int) int {
	tokens := 0
	for i, f := range flights {
		tokens += len(f.text)/bytesPerToken + 1
		if i == maxBatchInputs || i > 0 && batchTokens > 0 && tokens > batchTokens {
			return i
		}
	}
	return len(flights)
}

// suspect says whether a text might exceed maxTokens (0 = no limit). No
// tokenizer makes more than a token of a byte, so the others surely fit.
func suspect(text string, maxTokens int) bool {
	return maxTokens > 0 && len(text)+maxSpecialTokens > maxTokens
}

// shares splits the token count of one engine call over its texts, by their
// length; what has been counted already is taken out first.
func shares(call []*flight, tokens int) []int {
	weight := 0
	for _, f := range call {
		if f.tokens > 0 {
			tokens -= f.tokens
		} else {
			weight += len(f.text) + 1
		}
	}
	tokens = max(tokens, 0)
	parts := make([]int, len(call))
	passed, given := 0, 0
	for i, f := range call {
		if f.tokens > 0 {
			parts[i] = f.tokens
			continue
		}
		passed += len(f.text) + 1
		parts[i] = tokens*passed/weight - given
		given += parts[i]
	}
	return parts
}
