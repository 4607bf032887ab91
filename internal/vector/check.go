package vector

import (
	"fmt"
	"math"
	"strings"
)

// NormTolerance is how far the norm may be from 1 where the engine normalises.
const NormTolerance = 1e-2

// WholeReply is the Index of a problem that belongs to no single vector.
const WholeReply = -1

// Reason says what is wrong with a vector or with a reply.
type Reason string

const (
	ReasonCount     Reason = "count"      // not as many vectors as inputs
	ReasonIndex     Reason = "index"      // indices are not exactly 0…n-1
	ReasonDimension Reason = "dimension"  // not the model's dimension, or none
	ReasonNotFinite Reason = "not_finite" // a component is null, NaN, ±Inf or no number
	ReasonZero      Reason = "zero"       // norm ≤ 1e-6
	ReasonNorm      Reason = "norm"       // norm more than 1e-2 away from 1
	ReasonConstant  Reason = "constant"   // all components equal
	ReasonMalformed Reason = "malformed"  // the reply or the encoding cannot be read

	// Not of a reply: of an input.
	ReasonPoison      Reason = "poison"      // after it the engine's vectors are wrong
	ReasonFatal       Reason = "fatal"       // the engine ended, or hung, when it had nothing else, twice
	ReasonQuarantined Reason = "quarantined" // it did harm before, and the engine is not asked again
)

func (r Reason) String() string { return string(r) }

// Expect is what a reply has to look like.
type Expect struct {
	Count      int  // vectors, one for each input
	Dim        int  // components of each; 0 = any, but the same for all
	Normalized bool // the engine normalises: the norm must be near 1
}

// Problem is one thing wrong with one vector.
type Problem struct {
	Index  int    `json:"index"` // position in the request, or WholeReply
	Reason Reason `json:"reason"`
}

// InvalidError says that a reply must not be believed. Problems is never
// empty; it holds at most one problem for each vector, in rising order.
type InvalidError struct {
	Problems []Problem
}

// maxNamed bounds the length of an error message of a large request.
const maxNamed = 16

func (e *InvalidError) Error() string {
	var b strings.Builder
	b.WriteString("invalid vector")
	for i, p := range e.Problems {
		if i == maxNamed {
			fmt.Fprintf(&b, " and %d more", len(e.Problems)-maxNamed)
			break
		}
		separator := ","
		if i == 0 {
			separator = ":"
		}
		if p.Index == WholeReply {
			fmt.Fprintf(&b, "%s the reply (%s)", separator, p.Reason)
		} else {
			fmt.Fprintf(&b, "%s input %d (%s)", separator, p.Index, p.Reason)
		}
	}
	return b.String()
}

// Shift returns the same problems for a reply that began at input by of a
// larger request.
func (e *InvalidError) Shift(by int) *InvalidError {
	shifted := &InvalidError{Problems: make([]Problem, len(e.Problems))}
	for i, p := range e.Problems {
		if p.Index != WholeReply {
			p.Index += by
		}
		shifted.Problems[i] = p
	}
	return shifted
}

// Indices lists the inputs named by the problems.
func (e *InvalidError) Indices() []int {
	var indices []int
	for _, p := range e.Problems {
		if p.Index != WholeReply {
			indices = append(indices, p.Index)
		}
	}
	return indices
}

// Check decides whether vectors, in input order, are a valid reply: as many as
// expected, of one dimension, every component finite, norm > MinNorm (and
// within NormTolerance of 1 where normalised), not all components equal. It
// returns nil or an *InvalidError naming every offending vector.
func Check(vectors [][]float32, want Expect) error {
	if len(vectors) != want.Count {
		return &InvalidError{Problems: []Problem{{WholeReply, ReasonCount}}}
	}
	dim := want.Dim
	if dim == 0 && len(vectors) > 0 {
		dim = len(vectors[0])
	}
	var problems []Problem
	for i, v := range vectors {
		if reason := judge(v, dim, want.Normalized); reason != "" {
			problems = append(problems, Problem{i, reason})
		}
	}
	if problems != nil {
		return &InvalidError{Problems: problems}
	}
	return nil
}

// judge returns the first reason against one vector, or "".
func judge(v []float32, dim int, normalized bool) Reason {
	if len(v) == 0 || len(v) != dim {
		return ReasonDimension
	}
	var sum float64
	constant := true
	for _, x := range v {
		sum += float64(x) * float64(x)
		if x != v[0] {
			constant = false
		}
	}
	// float32 squares cannot overflow a float64 sum, so the sum is finite
	// exactly when every component is.
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return ReasonNotFinite
	}
	norm := math.Sqrt(sum)
	switch {
	case norm <= MinNorm:
		return ReasonZero
	case normalized && math.Abs(norm-1) > NormTolerance:
		return ReasonNorm
	case constant && len(v) > 1: // one component is always equal to itself
		return ReasonConstant
	}
	return ""
}
