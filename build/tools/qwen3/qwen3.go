// Package qwen3 writes model files that have the shape of Qwen3-Embedding and no knowledge: random weights, a
// byte vocabulary. A real llama-server loads them with the flags of the real model and returns finite vectors of
// its dimension, so that tests need no download of gigabytes.
//
// It may be imported by build tools and tests. The same Shape gives the same bytes on every machine.
package qwen3

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/ondol-app/ondol/build/tools/gguf"
)

// Shape says how large the model is. Speed falls with Blocks × (Width × (FeedForward + Heads × HeadWidth)).
// The figures named are those of Qwen3-Embedding-4B.
type Shape struct {
	Blocks      int    // transformer blocks; 36
	Width       int    // embedding dimension, which is the dimension of the vectors; 2560
	Heads       int    // query heads; 32
	KVHeads     int    // heads of keys and values; 8
	HeadWidth   int    // width of a head; 128
	FeedForward int    // width of the feed-forward part; 9728
	Vocabulary  int    // tokens, at least the 257 that mean something; 151669
	Seed        uint64 // of the random weights
}

// Default has the blocks and the dimension of Qwen3-Embedding-4B and is narrow everywhere else: 83 MB.
func Default() Shape {
	return Shape{Blocks: 36, Width: 2560, Heads: 1, KVHeads: 1, HeadWidth: 64, FeedForward: 64, Vocabulary: bytesAndEnd, Seed: 1}
}

// Write makes the model file at path.
func Write(path string, s Shape) error {
	if min(s.Blocks, s.Width, s.Heads, s.KVHeads, s.HeadWidth, s.FeedForward) < 1 || s.Vocabulary < bytesAndEnd {
		return fmt.Errorf("write qwen3 model: every size must be at least 1 and the vocabulary %d, got %+v", bytesAndEnd, s)
	}
	return gguf.Write(path, s.header(), s.tensors())
}

func (s Shape) header() []gguf.KV {
	tokens, kinds := vocabulary(s.Vocabulary)
	const end = uint32(bytesAndEnd - 1)
	return []gguf.KV{
		{Key: "general.architecture", Value: "qwen3"},
		{Key: "general.name", Value: "Qwen3-shaped fixture"},
		{Key: "general.file_type", Value: uint32(1)}, // mostly F16
		{Key: "qwen3.block_count", Value: uint32(s.Blocks)},
		{Key: "qwen3.context_length", Value: uint32(40960)},
		{Key: "qwen3.embedding_length", Value: uint32(s.Width)},
		{Key: "qwen3.feed_forward_length", Value: uint32(s.FeedForward)},
		{Key: "qwen3.attention.head_count", Value: uint32(s.Heads)},
		{Key: "qwen3.attention.head_count_kv", Value: uint32(s.KVHeads)},
		{Key: "qwen3.attention.key_length", Value: uint32(s.HeadWidth)},
		{Key: "qwen3.attention.value_length", Value: uint32(s.HeadWidth)},
		{Key: "qwen3.attention.layer_norm_rms_epsilon", Value: float32(1e-6)},
		{Key: "qwen3.rope.freq_base", Value: float32(1e6)},
		{Key: "qwen3.pooling_type", Value: uint32(3)}, // last token
		{Key: "tokenizer.ggml.model", Value: "gpt2"},
		{Key: "tokenizer.ggml.pre", Value: "qwen2"},
		{Key: "tokenizer.ggml.tokens", Value: tokens},
		{Key: "tokenizer.ggml.token_type", Value: kinds},
		{Key: "tokenizer.ggml.merges", Value: []string{}}, // every byte stays a token
		{Key: "tokenizer.ggml.eos_token_id", Value: end},
		{Key: "tokenizer.ggml.padding_token_id", Value: end},
		{Key: "tokenizer.ggml.add_bos_token", Value: false},
		{Key: "tokenizer.ggml.add_eos_token", Value: true},
	}
}

// tensors lists the weights in llama.cpp's names for qwen3. The output layer is tied to the token embedding.
func (s Shape) tensors() []gguf.Tensor {
	source := rand.New(rand.NewPCG(s.Seed, 0))
	ones := func(name string, width int) gguf.Tensor {
		return gguf.Tensor{Name: name, Type: gguf.F32, Width: width, Rows: 1, Fill: func(_ int, values []float32) {
			for i := range values {
				values[i] = 1
			}
		}}
	}
	// A weight spread over ±√3/√in keeps the variance of what passes through it.
	random := func(name string, in, out int) gguf.Tensor {
		reach := float32(math.Sqrt(3 / float64(in)))
		if name == "token_embd.weight" {
			reach = 1
		}
		return gguf.Tensor{Name: name, Type: gguf.F16, Width: in, Rows: out, Fill: func(_ int, values []float32) {
			for i := range values {
				values[i] = reach * (2*source.Float32() - 1)
			}
		}}
	}
	all := []gguf.Tensor{
		random("token_embd.weight", s.Width, s.Vocabulary),
		ones("output_norm.weight", s.Width),
	}
	for i := range s.Blocks {
		block := fmt.Sprintf("blk.%d.", i)
		all = append(all,
			ones(block+"attn_norm.weight", s.Width),
			random(block+"attn_q.weight", s.Width, s.Heads*s.HeadWidth),
			random(block+"attn_k.weight", s.Width, s.KVHeads*s.HeadWidth),
			random(block+"attn_v.weight", s.Width, s.KVHeads*s.HeadWidth),
			random(block+"attn_output.weight", s.Heads*s.HeadWidth, s.Width),
			ones(block+"attn_q_norm.weight", s.HeadWidth),
			ones(block+"attn_k_norm.weight", s.HeadWidth),
			ones(block+"ffn_norm.weight", s.Width),
			random(block+"ffn_gate.weight", s.Width, s.FeedForward),
			random(block+"ffn_up.weight", s.Width, s.FeedForward),
			random(block+"ffn_down.weight", s.FeedForward, s.Width),
		)
	}
	return all
}

// Kinds of tokens, as GGUF numbers them.
const (
	tokenNormal  = 1
	tokenControl = 3
)

// bytesAndEnd is the size of the vocabulary that means something.
const bytesAndEnd = 257

// vocabulary is GPT-2's alphabet of bytes (printable Latin-1 stands for itself, the others for U+0100 and up, in
// order), the end-of-text token, and as many more that no text is made of.
func vocabulary(size int) (tokens []string, kinds []int32) {
	next := rune(0x100)
	for b := rune(0); b < 256; b++ {
		if b >= '!' && b <= '~' || b >= '¡' && b <= '¬' || b >= '®' {
			tokens = append(tokens, string(b))
		} else {
			tokens = append(tokens, string(next))
			next++
		}
	}
	tokens = append(tokens, "<|endoftext|>")
	for i := len(tokens); i < size; i++ {
		tokens = append(tokens, fmt.Sprintf("<|unused_%d|>", i))
	}
	kinds = []int32(nil)
	for _, t := range tokens {
		kind := int32(tokenNormal)
		if strings.HasPrefix(t, "<|") {
			kind = tokenControl
		}
		kinds = append(kinds, kind)
	}
	return tokens, kinds
}
