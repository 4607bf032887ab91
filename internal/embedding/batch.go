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

// batches cuts inputs into runs of consecutive ones for one engine call each,
// as [start, end) pairs covering all of them in order. An input above
// batchTokens is a run of its own.
func batches(inputs []string, batchTokens int) [][2]int {
	var runs [][2]int
	start, tokens := 0, 0
	for i, input := range inputs {
		size := len(input)/bytesPerToken + 1
		full := i-start == maxBatchInputs || batchTokens > 0 && tokens+size > batchTokens
		if i > start && full {
			runs = append(runs, [2]int{start, i})
			start, tokens = i, 0
		}
		tokens += size
	}
	if start < len(inputs) {
		runs = append(runs, [2]int{start, len(inputs)})
	}
	return runs
}

// suspects lists the inputs that might exceed maxTokens. No tokenizer makes
// more than a token of a byte, so the others surely fit.
func suspects(inputs []string, maxTokens int) []int {
	if maxTokens <= 0 {
		return nil
	}
	var indices []int
	for i, input := range inputs {
		if len(input)+maxSpecialTokens > maxTokens {
			indices = append(indices, i)
		}
	}
	return indices
}
