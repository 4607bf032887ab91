package tinymodels

import (
	"github.com/ondol-app/ondol/build/tools/gguf"
)

const (
	talkWidth   = 128 // at least as many as there are tokens
	talkContext = 32768
	talkHead    = 64
)

// WriteTalker makes a causal model at path that recites the alphabet for ever: after each letter comes the next, after
// z an a, after anything else an a. It has the shape of llama, one block whose parts are all zero, and a vocabulary of
// printable ASCII.
func WriteTalker(path string) error {
	return gguf.Write(path, talkHeader(), talkTensors())
}

// talkVocabulary is GPT-2's names of the printable ASCII characters, the blank and the line break, then the end.
func talkVocabulary() (tokens []string, kinds []int32) {
	for c := rune('!'); c <= '~'; c++ {
		tokens = append(tokens, string(c))
	}
	tokens = append(tokens, "Ġ", "Ċ", "<|endoftext|>")
	for range tokens[1:] {
		kinds = append(kinds, tokenNormal)
	}
	return tokens, append(kinds, tokenControl)
}

const talkTemplate = `{% for message in messages %}{{ message.role }}: {{ message.content }}
{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}`

func talkHeader() []gguf.KV {
	tokens, kinds := talkVocabulary()
	end := uint32(len(tokens) - 1)
	return []gguf.KV{
		{Key: "general.architecture", Value: "llama"},
		{Key: "general.name", Value: "Tiny talker fixture"},
		{Key: "general.file_type", Value: uint32(0)}, // F32
		{Key: "llama.block_count", Value: uint32(1)},
		{Key: "llama.context_length", Value: uint32(talkContext)},
		{Key: "llama.embedding_length", Value: uint32(talkWidth)},
		{Key: "llama.feed_forward_length", Value: uint32(32)},
		{Key: "llama.attention.head_count", Value: uint32(talkWidth / talkHead)},
		{Key: "llama.attention.head_count_kv", Value: uint32(1)},
		{Key: "llama.attention.layer_norm_rms_epsilon", Value: float32(1e-6)},
		{Key: "llama.rope.dimension_count", Value: uint32(talkHead)},
		{Key: "llama.rope.freq_base", Value: float32(1e4)},
		{Key: "tokenizer.ggml.model", Value: "gpt2"},
		{Key: "tokenizer.ggml.pre", Value: "gpt-2"},
		{Key: "tokenizer.ggml.tokens", Value: tokens},
		{Key: "tokenizer.ggml.token_type", Value: kinds},
		{Key: "tokenizer.ggml.merges", Value: []string{}}, // every character stays a token
		{Key: "tokenizer.ggml.eos_token_id", Value: end},
		{Key: "tokenizer.ggml.add_bos_token", Value: false},
		{Key: "tokenizer.chat_template", Value: talkTemplate},
	}
}

// talkTensors: token t is the unit vector of component t, and the output layer maps it to its successor.
func talkTensors() []gguf.Tensor {
	tokens, _ := talkVocabulary()
	const w, kv = talkWidth, talkHead
	return []gguf.Tensor{
		matrix("token_embd.weight", w, len(tokens), func(token, i int) float64 {
			if token == i {
				return 1
			}
			return 0
		}),
		vector("output_norm.weight", w, one),
		matrix("output.weight", w, len(tokens), func(next, token int) float64 {
			if token < len(tokens) && successor(token) == next {
				return 4 // ×√128 by the norm before: certain
			}
			return 0
		}),
		vector("blk.0.attn_norm.weight", w, one),
		matrix("blk.0.attn_q.weight", w, w, nil),
		matrix("blk.0.attn_k.weight", w, kv, nil),
		matrix("blk.0.attn_v.weight", w, kv, nil),
		matrix("blk.0.attn_output.weight", w, w, nil),
		vector("blk.0.ffn_norm.weight", w, one),
		matrix("blk.0.ffn_gate.weight", w, 32, nil),
		matrix("blk.0.ffn_up.weight", w, 32, nil),
		matrix("blk.0.ffn_down.weight", 32, w, nil),
	}
}

// successor is the token that follows a token; tokens begin at '!'.
func successor(token int) int {
	if c := '!' + token; c >= 'a' && c < 'z' {
		return token + 1
	}
	return 'a' - '!'
}
