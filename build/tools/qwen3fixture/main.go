// Command qwen3fixture writes a model file of Qwen3-Embedding's shape with random weights, for tests with a real
// llama-server.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/ondol-app/ondol/build/tools/qwen3"
)

func main() {
	shape := qwen3.Default()
	out := flag.String("out", "qwen3-shaped.gguf", "where to write the model")
	flag.IntVar(&shape.Blocks, "blocks", shape.Blocks, "number of blocks")
	flag.IntVar(&shape.Width, "width", shape.Width, "embedding dimension")
	flag.IntVar(&shape.Heads, "heads", shape.Heads, "number of query heads of 64")
	flag.IntVar(&shape.FeedForward, "ffn", shape.FeedForward, "width of the feed-forward part")
	flag.Uint64Var(&shape.Seed, "seed", shape.Seed, "seed of the random weights")
	flag.Parse()
	if err := qwen3.Write(*out, shape); err != nil {
		fmt.Fprintln(os.Stderr, "qwen3fixture:", err)
		os.Exit(1)
	}
}
