package gguf

import (
	"strconv"
	"strings"
)

// Header is what a file says of its model. It does not change once read.
type Header struct {
	Tensors []Tensor
	Size    int64 // of the file, bytes
	Need    int64 // bytes up to the end of its last tensor; a smaller file is cut off

	numbers map[string]int64
	texts   map[string]string
	lists   map[string]list
}

func (h *Header) has(key string) bool {
	_, number := h.numbers[key]
	_, text := h.texts[key]
	_, list := h.lists[key]
	return number || text || list
}

func (h *Header) number(key string, otherwise int64) int64 {
	if n, ok := h.numbers[key]; ok {
		return n
	}
	return otherwise
}

// Number is the whole number or truth value (0, 1) under key.
func (h *Header) Number(key string) (int64, bool) {
	n, ok := h.numbers[key]
	return n, ok
}

// Text is the text under key; empty when there is none.
func (h *Header) Text(key string) string { return h.texts[key] }

// Length is the number of elements of the list under key; 0 when there is none.
func (h *Header) Length(key string) int { return h.lists[key].length }

// Architecture is llama.cpp's name of the model's kind, such as "qwen3".
func (h *Header) Architecture() string { return h.texts["general.architecture"] }

// Of is the number under key of the model's architecture, such as
// "block_count"; otherwise when the file does not tell, or tells what cannot be.
func (h *Header) Of(key string, otherwise int) int {
	n := h.number(h.Architecture()+"."+key, int64(otherwise))
	if n > 1<<40 || n < -1<<40 {
		return otherwise
	}
	return int(n)
}

// PerBlock is Of for a figure that may differ from block to block: the list
// where the file has one, else the one number.
func (h *Header) PerBlock(key string, block, otherwise int) int {
	if l := h.lists[h.Architecture()+"."+key].numbers; l != nil {
		if block < len(l) {
			return int(min(max(l[block], 0), 1<<40))
		}
		return otherwise
	}
	return h.Of(key, otherwise)
}

// Pooling is how a model makes one vector of a text (enum llama_pooling_type).
type Pooling int

// The kinds of pooling.
const (
	PoolingUnknown Pooling = -1 // the file does not tell
	PoolingNone    Pooling = 0
	PoolingMean    Pooling = 1
	PoolingCLS     Pooling = 2
	PoolingLast    Pooling = 3
	PoolingRank    Pooling = 4
)

// String is the pooling as llama-server's --pooling calls it; empty when unknown.
func (p Pooling) String() string {
	switch p {
	case PoolingUnknown:
		return ""
	case PoolingNone:
		return "none"
	case PoolingMean:
		return "mean"
	case PoolingCLS:
		return "cls"
	case PoolingLast:
		return "last"
	case PoolingRank:
		return "rank"
	}
	return strconv.Itoa(int(p))
}

// Pooling is what the file says.
func (h *Header) Pooling() Pooling { return Pooling(h.Of("pooling_type", int(PoolingUnknown))) }

// Causal reports whether attention looks back only, so that an input may be
// computed in pieces.
func (h *Header) Causal() bool { return h.Of("attention.causal", 1) != 0 }

// Encoder reports whether the model keeps no cache of what it has read
// (llama_model::create_memory): every text is computed in one piece.
func (h *Header) Encoder() bool {
	arch := h.Architecture()
	return !h.Causal() || strings.Contains(arch, "bert") || arch == "gemma-embedding"
}

// Vocabulary is the number of tokens; 0 when the file does not tell.
func (h *Header) Vocabulary() int { return h.Length("tokenizer.ggml.tokens") }

// fileTypes names what most tensors are (enum llama_ftype of llama.h).
var fileTypes = map[int64]string{
	0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S", 12: "Q3_K_M", 13: "Q3_K_L",
	14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS",
	23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16",
	36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4",
}

// Quantization names how most weights are stored, such as "Q8_0"; empty when
// the file does not tell or the name is not known here.
func (h *Header) Quantization() string {
	if n, ok := h.numbers["general.file_type"]; ok {
		return fileTypes[n]
	}
	return ""
}
