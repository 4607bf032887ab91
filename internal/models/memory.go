package models

import (
	"strconv"
	"strings"

	"github.com/ondol-app/ondol/internal/gguf"
)

// Need is the memory an engine takes, bytes, estimated from the model's header
// and the engine's flags.
type Need struct {
	Weights int64 `json:"weights"` // of the model
	KV      int64 `json:"kv"`      // what the slots remember of their texts
	Compute int64 `json:"compute"` // what a batch needs while it is computed
	Output  int64 `json:"output"`  // vectors and logits
	Engine  int64 `json:"engine"`  // the program itself
	Total   int64 `json:"total"`
	GPU     int64 `json:"gpu"` // of Total, what the GPU must reach
}

// layout is where a model's weights are and how wide it computes.
type layout struct {
	blocks                []int64 // bytes of each block
	input, output         int64   // bytes of the token embedding, and of what follows the last block
	tied                  bool    // no output layer of its own
	encoder               bool
	width, query, forward int64 // elements a token has between blocks, as queries of a block, inside its feed-forward part
	shared                int64 // elements a token has as keys and values of a block
	heads, vocabulary     int64
	keys, values          []int64 // elements a token leaves in the cache, of each block
	context               int64   // tokens it was made for
}

// maxBlocks of a model; the deepest published ones have some hundred.
const maxBlocks = 1 << 12

// weigh takes one tensor in.
func (l *layout) weigh(t gguf.Tensor) {
	rest, inBlock := strings.CutPrefix(t.Name, "blk.")
	switch {
	case inBlock:
		number, _, _ := strings.Cut(rest, ".")
		if n, err := strconv.Atoi(number); err == nil && n >= 0 && n < maxBlocks {
			for len(l.blocks) <= n {
				l.blocks = append(l.blocks, 0)
			}
			l.blocks[n] += t.Bytes
			return
		}
		l.output += t.Bytes
	case strings.HasPrefix(t.Name, "token_embd"), strings.HasPrefix(t.Name, "position_embd"), strings.HasPrefix(t.Name, "token_types"):
		l.input += t.Bytes
	default:
		l.output += t.Bytes
	}
}

// learn takes the shape from the header. Figures that cannot be are bounded,
// so that sums of their products stay below 2^63.
func (l *layout) learn(h *gguf.Header) {
	figure := func(key string, otherwise int) int64 {
		return min(max(int64(h.Of(key, otherwise)), 0), 1<<20)
	}
	l.encoder = h.Encoder()
	l.width, l.context = figure("embedding_length", 0), figure("context_length", 0)
	l.vocabulary = min(int64(h.Vocabulary()), 1<<22)
	l.tied = true
	for _, t := range h.Tensors {
		if t.Name == "output.weight" {
			l.tied = false
		}
	}
	for block := range min(max(h.Of("block_count", 0), 0), maxBlocks) {
		heads := min(max(int64(h.PerBlock("attention.head_count", block, 1)), 1), 1<<12)
		shared := min(max(int64(h.PerBlock("attention.head_count_kv", block, int(heads))), 0), 1<<12)
		head := min(l.width/heads, 1<<16) // where the header does not tell
		key := min(figure("attention.key_length", int(head)), 1<<16)
		value := min(figure("attention.value_length", int(head)), 1<<16)
		l.keys, l.values = append(l.keys, min(shared*key, 1<<20)), append(l.values, min(shared*value, 1<<20))
		l.shared = max(l.shared, l.keys[block]+l.values[block])
		l.heads = max(l.heads, heads)
		l.query = max(l.query, min(heads*key, 1<<20))
		l.forward = max(l.forward, min(int64(h.PerBlock("feed_forward_length", block, 0)), 1<<20))
	}
}

// Costs that no header tells, bytes. Measured on llama-server 0.7.0: what its
// process holds beyond the buffers it reports, and of that for each token of
// the vocabulary.
const (
	engineBase  = 64 << 20
	engineToken = 400
)

// MeasuredBuild is the build of llama.cpp that Estimate was measured on, and
// the first known to compute logits for one token of each sequence when it
// embeds. Builds before it were reported to compute them for every token of a
// batch (llama.cpp issues 24713 and 27784).
const MeasuredBuild = 11669

// Estimate says what an engine takes that runs the model with these flags.
// build is llama.cpp's build number, 0 when it is not known.
//
// The formulas follow what llama-server 0.7.0 reports for its buffers:
//   - KV: every slot's context, rounded up to 256 tokens, times the keys and
//     values of every block; none for an encoder.
//   - Compute: the attention mask (context × batch, half precision), five
//     copies of a batch between blocks, and the larger of two copies of the
//     queries and three of the feed-forward part; without flash attention the
//     mask is single precision, and keys, values and every head's scores are
//     there too.
//   - Output: for each slot a row of logits and a vector.
func (m *Model) Estimate(flags []string, build int) Need {
	l, o := &m.layout, readOptions(flags)
	const pad = 256
	total := min(int64(o.Context), 1<<24)
	if total == 0 {
		total = l.context
	}
	slots := min(int64(o.Slots), 1<<12)
	slot := total
	if !o.Unified {
		slot = (total/slots + pad - 1) / pad * pad
		total = slot * slots
	}
	batch := min(int64(o.Ubatch), total)

	var n Need
	gpuFrom := max(len(l.blocks)+1-o.gpuLayers, 0) // the first block on the GPU; the output layer counts as one
	for i, bytes := range l.blocks {
		n.Weights += bytes
		if i >= gpuFrom {
			n.GPU += bytes
		}
	}
	n.Weights += l.input + l.output
	if gpuFrom <= len(l.blocks) {
		n.GPU += l.output
		if l.tied {
			n.GPU += l.input // the same pages, reached by both
		}
	}
	if !l.encoder {
		for i := range l.keys {
			bytes := total * (cacheBytes(l.keys[i], o.keyType) + cacheBytes(l.values[i], o.valueType))
			n.KV += bytes
			if i >= gpuFrom && !o.cacheOnCPU {
				n.GPU += bytes
			}
		}
	}
	seen := slot // tokens that one may look back at
	if l.encoder {
		seen = batch
	}
	mask, attention := 2*seen*batch, 2*l.query
	if !o.flash {
		mask, attention = 4*seen*batch, 2*l.query+l.shared+l.heads*seen
	}
	n.Compute = mask + 4*batch*(5*l.width+max(attention, 3*l.forward))
	n.Output = 4 * slots * (l.vocabulary + l.width)
	if build < MeasuredBuild && o.embeddings && !l.encoder {
		n.Compute += 4 * batch * l.vocabulary
	}
	if gpuFrom <= len(l.blocks) && o.gpuLayers > 0 {
		n.GPU += n.Compute
		if gpuFrom > 0 {
			n.Compute *= 2 // the blocks on the CPU have a buffer of their own
		}
	}
	n.Engine = engineBase + engineToken*l.vocabulary
	n.Total = n.Weights + n.KV + n.Compute + n.Output + n.Engine
	return n
}

// cacheTypes are the bytes that 32 elements of the cache take (ggml-common.h).
var cacheTypes = map[string]int64{
	"f32": 128, "f16": 64, "bf16": 64, "q8_0": 34, "q4_0": 18, "q4_1": 20, "iq4_nl": 18, "q5_0": 22, "q5_1": 24,
}

func cacheBytes(elements int64, kind string) int64 {
	per, known := cacheTypes[kind]
	if !known {
		per = cacheTypes["f16"] // llama-server refuses it
	}
	return elements * per / 32
}
