package engines

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/ondol-app/ondol/internal/models"
)

// Point is a setting of what tuning tries: one engine for each.
type Point struct {
	NGL         int  `json:"ngl"` // layers on the GPU; -1 = as llama-server chooses
	Ubatch      int  `json:"ubatch"`
	Slots       int  `json:"slots"`
	NoOpOffload bool `json:"no_op_offload"` // what lies on the CPU is never computed on the GPU
}

// PointOf reads where an engine with these flags is.
func PointOf(flags []string) Point {
	sizes, _ := models.ReadSizes(flags) // it runs, so its numbers are some
	p := Point{NGL: -1, Ubatch: sizes.Ubatch, Slots: sizes.Slots}
	for i, flag := range flags {
		switch flag {
		case "--no-op-offload":
			p.NoOpOffload = true
		case "--op-offload":
			p.NoOpOffload = false
		case "-ngl", "--gpu-layers", "--n-gpu-layers":
			if i+1 < len(flags) {
				if n, err := strconv.Atoi(flags[i+1]); err == nil {
					p.NGL = n
				}
			}
		}
	}
	return p
}

// Order is the candidate that is at p, from a live engine with these flags.
func (p Point) Order(live []string) Order {
	var o Order
	from := PointOf(live)
	if p.NGL != from.NGL && p.NGL >= 0 {
		o.NGL = &p.NGL
	}
	if p.NoOpOffload != from.NoOpOffload {
		o.Flags = append(o.Flags, map[bool]string{true: "--no-op-offload", false: "--op-offload"}[p.NoOpOffload])
	}
	if p.Ubatch != from.Ubatch {
		o.Flags = append(o.Flags, "-ub", strconv.Itoa(p.Ubatch))
		if sizes, _ := models.ReadSizes(live); sizes.Batch < p.Ubatch {
			o.Flags = append(o.Flags, "-b", strconv.Itoa(p.Ubatch)) // no smaller than its pieces
		}
	}
	if p.Slots != from.Slots {
		o.Flags = append(o.Flags, "-np", strconv.Itoa(p.Slots))
	}
	return o
}

// Range is what tuning tries of each flag.
type Range struct{ NGL, Ubatch, Slots []int }

// DefaultRange is for a model of so many blocks: everything on the GPU, and
// less and less of it. 34 of 36 blocks keep off the GPU the one that overflows
// half precision (see llamaserver.Profiles).
func DefaultRange(blocks int) Range {
	r := Range{Ubatch: []int{512, 2048, 8192}, Slots: []int{2, 4}}
	for _, n := range []int{blocks + 1, blocks, 34, blocks * 3 / 4, blocks / 2} {
		if n > 0 && n <= blocks+1 && !slices.Contains(r.NGL, n) {
			r.NGL = append(r.NGL, n)
		}
	}
	return r
}

// gain is how much less time a setting must take to be preferred to one before
// it: two turns of one engine on a machine at work differ by as much.
const gain = 0.97

// Walk goes through settings one flag after the other, each from the fastest
// found so far. It decides only: whoever walks tries what Next says, and tells
// Took. The live engine is where it begins, with a time of 1.
type Walk struct {
	stages []func(from Point) []Point // one for each flag
	seen   map[Point]bool
	queue  []Point
	best   Point
	time   float64 // of best
	passed []Timed
}

// Timed is a setting that passed every check.
type Timed struct {
	Point Point
	Time  float64 // to the live engine's
}

// NewWalk begins at the live engine's setting.
func NewWalk(live Point, r Range) *Walk {
	each := func(values []int, set func(p *Point, value int)) func(Point) []Point {
		return func(from Point) (points []Point) {
			for _, value := range values {
				p := from
				set(&p, value)
				points = append(points, p)
			}
			return points
		}
	}
	return &Walk{best: live, time: 1, seen: map[Point]bool{live: true}, stages: []func(Point) []Point{
		each(r.NGL, func(p *Point, n int) { p.NGL = n }),
		each([]int{0}, func(p *Point, _ int) { p.NoOpOffload = !p.NoOpOffload }),
		each(r.Ubatch, func(p *Point, n int) { p.Ubatch = n }),
		each(r.Slots, func(p *Point, n int) { p.Slots = n }),
	}}
}

// Next is the setting to try; false when there is none left.
func (w *Walk) Next() (Point, bool) {
	for len(w.queue) == 0 && len(w.stages) > 0 {
		for _, p := range w.stages[0](w.best) {
			if !w.seen[p] {
				w.seen[p] = true
				w.queue = append(w.queue, p)
			}
		}
		w.stages = w.stages[1:]
	}
	if len(w.queue) == 0 {
		return Point{}, false
	}
	p := w.queue[0]
	w.queue = w.queue[1:]
	return p, true
}

// Took tells that a setting passed every check, with its time to the live
// engine's. One that did not is not told of.
func (w *Walk) Took(p Point, time float64) {
	w.passed = append(w.passed, Timed{p, time})
	if time < w.time*gain {
		w.best, w.time = p, time
	}
}

// Fastest lists the settings worth having instead of the live engine's, the
// fastest first.
func (w *Walk) Fastest() []Timed {
	list := slices.DeleteFunc(slices.Clone(w.passed), func(p Timed) bool { return p.Time >= gain })
	slices.SortStableFunc(list, func(a, b Timed) int { return cmp.Compare(a.Time, b.Time) })
	return list
}
