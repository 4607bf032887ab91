package tinymodels

import "github.com/ondol-app/ondol/build/tools/gguf"

// Words of the reranker: a document is scored by the share of Good words in it, less that of Bad ones, whatever the
// query says. Every other word is unknown and weighs nothing.
const (
	Good = "good"
	Bad  = "bad"
)

// paris is worth half a Good: it lets the model pass the supervisor's smoke test.
const paris = "paris"

const (
	rerankWidth   = 32
	rerankContext = 512 // tokens of query and document together
)

// signal is where a word's worth stands in its embedding; its negative stands beside it, so that the mean stays 0.
const signal = 0

// WriteReranker makes the reranker at path: BERT's architecture, one block, pooling type "rank" with a
// classification head. Attention is the plain average over all tokens of their worth; the head reads it from [CLS].
func WriteReranker(path string) error {
	return gguf.Write(path, rerankHeader(), rerankTensors())
}

func rerankVocabulary() (tokens []string, kinds []int32) {
	tokens = []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "\u2581" + Good, "\u2581" + Bad, "\u2581" + paris} // ▁ begins a word
	for i := range tokens {
		kind := int32(tokenNormal)
		if i < 5 {
			kind = tokenControl
		}
		kinds = append(kinds, kind)
	}
	return tokens, kinds
}

func rerankHeader() []gguf.KV {
	tokens, kinds := rerankVocabulary()
	return []gguf.KV{
		{Key: "general.architecture", Value: "bert"},
		{Key: "general.name", Value: "Tiny reranker fixture"},
		{Key: "general.file_type", Value: uint32(0)}, // F32
		{Key: "bert.block_count", Value: uint32(1)},
		{Key: "bert.context_length", Value: uint32(rerankContext)},
		{Key: "bert.embedding_length", Value: uint32(rerankWidth)},
		{Key: "bert.feed_forward_length", Value: uint32(rerankWidth)},
		{Key: "bert.attention.head_count", Value: uint32(1)},
		{Key: "bert.attention.layer_norm_epsilon", Value: float32(1e-12)},
		{Key: "bert.attention.causal", Value: false},
		{Key: "bert.pooling_type", Value: uint32(4)}, // rank
		{Key: "tokenizer.ggml.model", Value: "bert"},
		{Key: "tokenizer.ggml.tokens", Value: tokens},
		{Key: "tokenizer.ggml.token_type", Value: kinds},
		{Key: "tokenizer.ggml.token_type_count", Value: uint32(2)},
		{Key: "tokenizer.ggml.padding_token_id", Value: uint32(0)},
		{Key: "tokenizer.ggml.unknown_token_id", Value: uint32(1)},
		{Key: "tokenizer.ggml.cls_token_id", Value: uint32(2)},
		{Key: "tokenizer.ggml.bos_token_id", Value: uint32(2)},
		{Key: "tokenizer.ggml.seperator_token_id", Value: uint32(3)}, // the format's own spelling
		{Key: "tokenizer.ggml.eos_token_id", Value: uint32(3)},
		{Key: "tokenizer.ggml.mask_token_id", Value: uint32(4)},
	}
}

// rerankTensors lists the weights in llama.cpp's names. A token is a fixed pattern of ±1 with its worth in front; the
// block adds the average worth to it, and the norms in between change the scale only.
func rerankTensors() []gguf.Tensor {
	tokens, _ := rerankVocabulary()
	worth := map[string]float64{"\u2581" + Good: 2, "\u2581" + Bad: -2, "\u2581" + paris: 1}
	const w = rerankWidth
	return []gguf.Tensor{
		matrix("token_embd.weight", w, len(tokens), func(token, i int) float64 {
			switch {
			case i == signal:
				return worth[tokens[token]]
			case i == signal+1:
				return -worth[tokens[token]]
			case i%2 == 0:
				return 1
			}
			return -1
		}),
		matrix("token_types.weight", w, 2, nil),
		matrix("position_embd.weight", w, rerankContext, nil),
		vector("token_embd_norm.weight", w, one),
		vector("token_embd_norm.bias", w, nil),
		matrix("blk.0.attn_q.weight", w, w, nil), // every token looks at every other alike
		vector("blk.0.attn_q.bias", w, nil),
		matrix("blk.0.attn_k.weight", w, w, nil),
		vector("blk.0.attn_k.bias", w, nil),
		matrix("blk.0.attn_v.weight", w, w, func(to, from int) float64 {
			if to == from && to <= signal+1 {
				return 1
			}
			return 0
		}),
		vector("blk.0.attn_v.bias", w, nil),
		matrix("blk.0.attn_output.weight", w, w, func(to, from int) float64 {
			if to == from {
				return 1
			}
			return 0
		}),
		vector("blk.0.attn_output.bias", w, nil),
		vector("blk.0.attn_output_norm.weight", w, one),
		vector("blk.0.attn_output_norm.bias", w, nil),
		matrix("blk.0.ffn_up.weight", w, w, nil),
		vector("blk.0.ffn_up.bias", w, nil),
		matrix("blk.0.ffn_down.weight", w, w, nil),
		vector("blk.0.ffn_down.bias", w, nil),
		vector("blk.0.layer_output_norm.weight", w, one),
		vector("blk.0.layer_output_norm.bias", w, nil),
		// The head: tanh of the worth, then times 4.
		matrix("cls.weight", w, w, func(to, from int) float64 {
			if to == from {
				return 1
			}
			return 0
		}),
		vector("cls.bias", w, nil),
		matrix("cls.output.weight", w, 1, func(_, from int) float64 {
			if from == signal {
				return 4
			}
			return 0
		}),
		vector("cls.output.bias", 1, nil),
	}
}
