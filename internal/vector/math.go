package vector

import (
	"errors"
	"fmt"
	"math"
)

// MinNorm is the length at or below which a vector has no direction and counts
// as zero (contract: norm > 1e-6).
const MinNorm = 1e-6

// Errors of Normalize and Truncate.
var (
	ErrNoDirection = errors.New("vector has no direction: its norm is zero or not finite")
	ErrDimensions  = errors.New("dimensions out of range")
)

// Norm is the Euclidean length, summed in float64. It is NaN or +Inf when a
// component is.
func Norm(v []float32) float64 {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return math.Sqrt(sum)
}

// Normalize scales v in place to length 1. A vector without direction (norm ≤
// MinNorm or not finite) is left as it is and ErrNoDirection returned.
func Normalize(v []float32) error {
	norm := Norm(v)
	if !(norm > MinNorm) || math.IsInf(norm, 0) {
		return ErrNoDirection
	}
	for i, x := range v {
		v[i] = float32(float64(x) / norm)
	}
	return nil
}

// Truncate returns the first dim components, renormalised, in new storage:
// what "dimensions" means for a Matryoshka-trained model. dim must be between
// 1 and len(v), else ErrDimensions; a cut without direction is ErrNoDirection.
func Truncate(v []float32, dim int) ([]float32, error) {
	if dim < 1 || dim > len(v) {
		return nil, fmt.Errorf("%w: %d, must be 1 to %d", ErrDimensions, dim, len(v))
	}
	cut := make([]float32, dim)
	copy(cut, v)
	if err := Normalize(cut); err != nil {
		return nil, err
	}
	return cut, nil
}
