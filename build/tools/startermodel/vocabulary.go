package main

// vocabulary collects the words the model will know.
type vocabulary struct {
	limit int
	words []word        // in the order of the tokens
	sum   [dims]float64 // of all vectors seen, for their mean
	seen  int
}

// add takes the next word of the file, which is in order of frequency.
func (v *vocabulary) add(w word) {
	v.seen++
	for i, x := range w.vec {
		v.sum[i] += x
	}
	if len(v.words) < v.limit && isToken(w.text) {
		v.words = append(v.words, w)
	}
}

// mean is the average of all vectors seen.
func (v *vocabulary) mean() (m [dims]float64) {
	for i, s := range v.sum {
		m[i] = s / float64(v.seen)
	}
	return m
}

// isToken reports whether llama.cpp's BERT tokenizer can produce the text as one token: it lower-cases, takes
// accents off, and splits at spaces and around every punctuation mark.
func isToken(text string) bool {
	if len(text) == 1 {
		return text[0] > ' ' && text[0] < 0x7f
	}
	for _, c := range []byte(text) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return text != ""
}
