package models

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/ondol-app/ondol/internal/gguf"
)

// Sizes are what flags of llama-server say of its slots and batches.
type Sizes struct {
	Slots   int  // inputs computed at once
	Context int  // tokens, of all slots together; 0 = as many as the model was made for
	Batch   int  // tokens
	Ubatch  int  // tokens computed in one piece
	Unified bool // the slots share one context, of which each may take all
}

// ReadSizes reads them as llama-server 0.7.0 does: the last of a repeated flag
// wins, and what is absent has its default. The error names a flag whose value
// is no number, which llama-server would refuse; its default then stands.
func ReadSizes(flags []string) (Sizes, error) {
	s := Sizes{Slots: 4, Batch: 2048, Ubatch: 512, Unified: true}
	fields := map[string]*int{
		"-np": &s.Slots, "--parallel": &s.Slots, "-c": &s.Context, "--ctx-size": &s.Context,
		"-b": &s.Batch, "--batch-size": &s.Batch, "-ub": &s.Ubatch, "--ubatch-size": &s.Ubatch,
	}
	var first error
	for i, flag := range flags {
		switch flag {
		case "-kvu", "--kv-unified":
			s.Unified = true
		case "-no-kvu", "--no-kv-unified":
			s.Unified = false
		}
		field, ok := fields[flag]
		if !ok {
			continue
		}
		value := ""
		if i+1 < len(flags) {
			value = flags[i+1]
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 || (n == 0 && field != &s.Context) {
			if first == nil {
				first = fmt.Errorf("engine flag %s %s: a positive whole number is needed", flag, value)
			}
			continue
		}
		*field = n
		if field == &s.Slots {
			s.Unified = false
		}
	}
	return s, first
}

// options are the flags of llama-server that decide on memory.
type options struct {
	Sizes
	gpuLayers          int
	flash              bool // no matrix of attention scores is kept
	keyType, valueType string
	cacheOnCPU         bool
	embeddings         bool
}

// readOptions reads flags as llama-server 0.7.0 does; a number it cannot read
// is left at its default, for llama-server to refuse.
func readOptions(flags []string) options {
	o := options{gpuLayers: 1 << 20, flash: true, keyType: "f16", valueType: "f16"}
	o.Sizes, _ = ReadSizes(flags)
	for i, flag := range flags {
		value := ""
		if i+1 < len(flags) {
			value = flags[i+1]
		}
		switch flag {
		case "-ngl", "--gpu-layers", "--n-gpu-layers":
			if n, err := strconv.Atoi(value); err == nil && n >= 0 { // auto and all are the default
				o.gpuLayers = n
			}
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
		o.Batch = min(o.Batch, o.Ubatch) // llama-server says so itself, and why
	}
	o.Ubatch = min(o.Ubatch, o.Batch)
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

// Splits reports whether an engine with these flags can compute an input in
// several pieces: only where a cache carries over what came before, and where
// the last token speaks for all.
func (m *Model) Splits(flags []string) bool {
	last := m.Pooling == gguf.PoolingLast.String()
	for i := 0; i+1 < len(flags); i++ {
		if flags[i] == "--pooling" {
			last = flags[i+1] == gguf.PoolingLast.String()
		}
	}
	return last && !m.layout.encoder
}
