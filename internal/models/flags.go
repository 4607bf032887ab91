package models

import (
	"slices"
	"strconv"

	"github.com/ondol-app/ondol/internal/gguf"
)

// options are the flags of llama-server that decide on memory.
type options struct {
	context, batch, ubatch int // tokens; context 0 = the model's
	slots                  int
	unified                bool // one cache for all slots
	gpuLayers              int
	flash                  bool // no matrix of attention scores is kept
	keyType, valueType     string
	cacheOnCPU             bool
	embeddings             bool
}

// readOptions reads flags as llama-server 0.7.0 does; a number it cannot read
// is left at its default, for llama-server to refuse.
func readOptions(flags []string) options {
	o := options{batch: 2048, ubatch: 512, slots: 4, unified: true, gpuLayers: 1 << 20, flash: true, keyType: "f16", valueType: "f16"}
	for i, flag := range flags {
		value := ""
		if i+1 < len(flags) {
			value = flags[i+1]
		}
		number := func(field *int) {
			if n, err := strconv.Atoi(value); err == nil && n >= 0 {
				*field = n
			}
		}
		switch flag {
		case "-c", "--ctx-size":
			number(&o.context)
		case "-b", "--batch-size":
			number(&o.batch)
		case "-ub", "--ubatch-size":
			number(&o.ubatch)
		case "-np", "--parallel":
			if n, err := strconv.Atoi(value); err == nil && n > 0 {
				o.slots, o.unified = n, false
			}
		case "-kvu", "--kv-unified":
			o.unified = true
		case "-no-kvu", "--no-kv-unified":
			o.unified = false
		case "-ngl", "--gpu-layers", "--n-gpu-layers":
			number(&o.gpuLayers) // auto and all are the default
		case "-fa", "--flash-attn":
			o.flash = value != "off" && value != "0"
		case "-ctk", "--cache-type-k":
			o.keyType = value
		case "-ctv", "--cache-type-v":
			o.valueType = value
		case "-nkvo", "--no-kv-offload":
			o.cacheOnCPU = true
		case "--embeddings", "--embedding", "--rerank", "--reranking":
			o.embeddings = true
		}
	}
	if o.embeddings {
		o.batch = min(o.batch, o.ubatch) // llama-server says so itself, and why
	}
	o.ubatch = min(o.ubatch, o.batch)
	return o
}

// FlagsFor is a profile's flags for this model: without --pooling where the
// file says itself how a text becomes one vector and says it otherwise. The
// profiles' last-token pooling is for models that were trained so; forced on
// another it makes vectors that are valid and mean nothing.
func (m *Model) FlagsFor(flags []string) []string {
	if m.Pooling == "" || m.Pooling == gguf.PoolingNone.String() {
		return flags
	}
	i := slices.Index(flags, "--pooling")
	if i < 0 || i+1 == len(flags) || flags[i+1] == m.Pooling {
		return flags
	}
	return slices.Delete(slices.Clone(flags), i, i+2)
}
