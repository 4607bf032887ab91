package main

import (
	"math"

	"github.com/ondol-app/ondol/build/tools/gguf"
)

// The width of the model: meaning, one weight, and what balances the row.
const (
	width      = 128
	weightDim  = dims     // holds half the logarithm of the word's SIF weight
	balanceDim = dims + 1 // the first of the balancing dimensions
	context    = 8192     // tokens a text may have
	gain       = 64       // of the attention's output over the token's own vector
	length     = 4        // of every word's meaning
)

// special tokens come first; llama.cpp finds them by the ids in the header.
var special = []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}

// specialLogWeight keeps the special tokens out of the average: e^-9 of a rare word's weight.
const specialLogWeight = -9

// smooth is the a of the SIF weight a/(a+p). The paper advises 1e-3 to 1e-4; the lower end found more here
// (Cranfield, nDCG@10: 0.211 with 1e-3, 0.231 with 1e-4, 0.223 with 3e-5).
const smooth = 1e-4

// probability of the word at the given place in the order of frequency, by Zipf's law: 1/(12·(rank+2.7)).
func probability(rank int) float64 {
	return 1 / (12 * (float64(rank) + 2.7))
}

// logWeight is ln(a/(a+p)), the logarithm of the SIF weight of Arora, Liang and Ma, "A Simple but Tough-to-Beat
// Baseline for Sentence Embeddings" (ICLR 2017).
func logWeight(rank int) float64 {
	return math.Log(smooth / (smooth + probability(rank)))
}

// common is the direction all texts share: that of the average text, where every word counts by its probability
// and its weight. It stands for the paper's first principal component of sentence vectors. Without it, two texts
// that have nothing to do with each other are similar by 0.06 on average, with it by 0.5 (and Cranfield's nDCG@10
// is 0.222 instead of 0.231).
func common(v *vocabulary) (u [dims]float64) {
	mean := v.mean()
	for i := range v.words {
		w := &v.words[i]
		p := probability(w.rank)
		share := p * smooth / (smooth + p)
		for k, x := range meaning(w, &mean) {
			u[k] += float64(share * x)
		}
	}
	var squares float64
	for _, x := range u {
		squares += float64(x * x)
	}
	for k := range u {
		u[k] /= math.Sqrt(squares)
	}
	return u
}

// row sets the embedding of a token: the meaning, half the logarithm of its weight, and a balance that gives the
// row mean 0 and mean square 1. So the layer norm that follows changes nothing, and the weight survives it.
func row(meaning *[dims]float64, logWeight float64, out []float32) {
	var sum, squares float64
	for i, x := range meaning {
		out[i] = float32(x)
		sum += x
		squares += float64(x * x)
	}
	w := logWeight / 2
	out[weightDim] = float32(w)
	sum += w
	squares += float64(w * w)

	// The balance is a constant c0 and ±c around it. An odd number of places leaves one without its pair; it
	// holds c0 alone.
	n := width - balanceDim
	pairs := n / 2 * 2
	c0 := -sum / float64(n)
	rest := width - squares - float64(float64(n)*float64(c0*c0))
	c := math.Sqrt(rest / float64(pairs))
	for i := range n {
		x := c0
		switch {
		case i == pairs:
		case i%2 == 0:
			x += c
		default:
			x -= c
		}
		out[balanceDim+i] = float32(x)
	}
}

// meaning is the word's direction around the mean of all words, at the common length.
func meaning(w *word, mean *[dims]float64) (m [dims]float64) {
	var squares float64
	for i := range m {
		m[i] = w.vec[i] - mean[i]
		squares += float64(m[i] * m[i])
	}
	if squares == 0 {
		return m
	}
	scale := length / math.Sqrt(squares)
	for i := range m {
		m[i] *= scale
	}
	return m
}

// header lists the model's keys in llama.cpp's names for the BERT architecture.
func header(words []word) []gguf.KV {
	tokens := make([]string, 0, len(special)+len(words))
	kinds := make([]int32, 0, cap(tokens))
	for _, s := range special {
		tokens = append(tokens, s)
		kinds = append(kinds, 3) // control
	}
	for i := range words {
		tokens = append(tokens, "\u2581"+words[i].text) // ▁ marks the beginning of a word
		kinds = append(kinds, 1)                        // normal
	}
	return []gguf.KV{
		{Key: "general.architecture", Value: "bert"},
		{Key: "general.name", Value: "Ondol starter (English)"},
		{Key: "general.description", Value: "SIF sentence embedding of GloVe 6B 100d word vectors, written as a BERT model"},
		{Key: "general.license", Value: "pddl"},
		{Key: "general.file_type", Value: uint32(7)}, // mostly Q8_0
		{Key: "bert.block_count", Value: uint32(1)},
		{Key: "bert.context_length", Value: uint32(context)},
		{Key: "bert.embedding_length", Value: uint32(width)},
		{Key: "bert.feed_forward_length", Value: uint32(width)},
		{Key: "bert.attention.head_count", Value: uint32(1)},
		{Key: "bert.attention.layer_norm_epsilon", Value: float32(1e-12)},
		{Key: "bert.attention.causal", Value: false},
		{Key: "bert.pooling_type", Value: uint32(2)}, // the first token, [CLS]
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

// tensors lists the weights in llama.cpp's names for the BERT architecture: one block with one head whose
// attention is the SIF average.
func tensors(v *vocabulary) []gguf.Tensor {
	mean, shared := v.mean(), common(v)
	embedding := func(token int, out []float32) {
		i := token - len(special)
		if i < 0 {
			row(&[dims]float64{}, specialLogWeight, out)
			return
		}
		m := meaning(&v.words[i], &mean)
		row(&m, logWeight(v.words[i].rank), out)
	}
	return []gguf.Tensor{
		{Name: "token_embd.weight", Type: gguf.Q8, Width: width, Rows: len(special) + len(v.words), Fill: embedding},
		matrix("token_types.weight", 2, nil),
		{Name: "position_embd.weight", Type: gguf.Q8, Width: width, Rows: context, Fill: func(int, []float32) {}},
		vector("token_embd_norm.weight", one),
		vector("token_embd_norm.bias", nil),
		// The query is the same for every token; with the score's 1/√width, query · key = 2 · (key's component 0),
		// which is the token's log weight: softmax makes the weights of it.
		matrix("blk.0.attn_q.weight", width, nil),
		vector("blk.0.attn_q.bias", func(i int) float64 {
			if i == 0 {
				return 2 * math.Sqrt(width)
			}
			return 0
		}),
		matrix("blk.0.attn_k.weight", width, func(to, from int) float64 {
			if to == 0 && from == weightDim {
				return 1
			}
			return 0
		}),
		vector("blk.0.attn_k.bias", nil),
		// The value is the token's meaning without the part that all texts share.
		matrix("blk.0.attn_v.weight", width, func(to, from int) float64 {
			if to >= dims || from >= dims {
				return 0
			}
			without := -float64(shared[to] * shared[from])
			if to == from {
				without++
			}
			return without
		}),
		vector("blk.0.attn_v.bias", nil),
		matrix("blk.0.attn_output.weight", width, func(to, from int) float64 {
			if to == from && to < dims {
				return gain
			}
			return 0
		}),
		vector("blk.0.attn_output.bias", nil),
		vector("blk.0.attn_output_norm.weight", one),
		vector("blk.0.attn_output_norm.bias", nil),
		matrix("blk.0.ffn_up.weight", width, nil),
		vector("blk.0.ffn_up.bias", nil),
		matrix("blk.0.ffn_down.weight", width, nil),
		vector("blk.0.ffn_down.bias", nil),
		vector("blk.0.layer_output_norm.weight", one),
		vector("blk.0.layer_output_norm.bias", nil),
	}
}

func one(int) float64 { return 1 }

// matrix is a weight of rows × width; at gives the value that carries input component from to output component
// to. Without at it is zero.
func matrix(name string, rows int, at func(to, from int) float64) gguf.Tensor {
	return gguf.Tensor{Name: name, Type: gguf.F32, Width: width, Rows: rows, Fill: func(to int, values []float32) {
		for from := range values {
			if at != nil {
				values[from] = float32(at(to, from))
			}
		}
	}}
}

// vector is a bias or the scale of a norm. Without at it is zero.
func vector(name string, at func(i int) float64) gguf.Tensor {
	return matrix(name, 1, func(_, from int) float64 {
		if at == nil {
			return 0
		}
		return at(from)
	})
}
