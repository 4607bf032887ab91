// Package tinymodels writes small model files for the roles beside embedding: a reranker whose scores are known in
// advance, and a causal model that talks. A real llama-server loads both, so that tests of those roles need no
// download.
//
// It may be imported by build tools and tests. The same version gives the same bytes on every machine.
package tinymodels

import "github.com/ondol-app/ondol/build/tools/gguf"

// Kinds of tokens, as GGUF numbers them.
const (
	tokenNormal  = 1
	tokenControl = 3
)

// matrix is a weight of rows × width; at gives the value that carries input component from to output component to.
// Without at it is zero.
func matrix(name string, width, rows int, at func(to, from int) float64) gguf.Tensor {
	return gguf.Tensor{Name: name, Type: gguf.F32, Width: width, Rows: rows, Fill: func(to int, values []float32) {
		for from := range values {
			if at != nil {
				values[from] = float32(at(to, from))
			}
		}
	}}
}

// vector is a bias or the scale of a norm. Without at it is zero.
func vector(name string, width int, at func(i int) float64) gguf.Tensor {
	return matrix(name, width, 1, func(_, from int) float64 {
		if at == nil {
			return 0
		}
		return at(from)
	})
}

func one(int) float64 { return 1 }
