package engines

import (
	"slices"
	"strings"
	"testing"
)

var reference = strings.Fields("--embeddings --pooling last -ngl 34 -c 131072 -b 8192 -ub 8192 -np 4")

// walk tries what a walk says on a machine where a setting takes so long, 0 =
// it does not pass.
func walk(r Range, time func(Point) float64) (tried []Point, w *Walk) {
	w = NewWalk(PointOf(reference), r)
	for p, ok := w.Next(); ok; p, ok = w.Next() {
		tried = append(tried, p)
		if t := time(p); t > 0 {
			w.Took(p, t)
		}
	}
	return tried, w
}

func TestWalk(t *testing.T) {
	at := func(ngl, ub, np int, no bool) Point { return Point{NGL: ngl, Ubatch: ub, Slots: np, NoOpOffload: no} }
	r := Range{NGL: []int{37, 36, 34, 18}, Ubatch: []int{512, 2048, 8192}, Slots: []int{2, 4}}
	for _, tt := range []struct {
		name  string
		time  func(Point) float64
		tried []Point
		best  []Point
	}{
		{"nothing is faster", func(Point) float64 { return 0.98 },
			[]Point{at(37, 8192, 4, false), at(36, 8192, 4, false), at(18, 8192, 4, false), at(34, 8192, 4, true), at(34, 512, 4, false), at(34, 2048, 4, false), at(34, 8192, 2, false)}, nil},
		// All on the GPU is fastest and wrong: not a number comes of it.
		{"the fastest does not pass", func(p Point) float64 {
			switch {
			case p.NGL > 34:
				return 0
			case p.NGL < 34:
				return 1.05
			case p.NoOpOffload:
				return 0.9
			}
			return 1
		}, []Point{at(37, 8192, 4, false), at(36, 8192, 4, false), at(18, 8192, 4, false), at(34, 8192, 4, true), at(34, 512, 4, true), at(34, 2048, 4, true), at(34, 8192, 2, true)},
			[]Point{at(34, 8192, 4, true), at(34, 512, 4, true), at(34, 2048, 4, true), at(34, 8192, 2, true)}},
		{"each flag from the best of those before", func(p Point) float64 {
			time := map[int]float64{37: 0.8, 36: 0.85, 34: 1, 18: 1.1}[p.NGL]
			if p.Ubatch == 2048 {
				time *= 0.5
			}
			return time
		}, []Point{at(37, 8192, 4, false), at(36, 8192, 4, false), at(18, 8192, 4, false), at(37, 8192, 4, true), at(37, 512, 4, false), at(37, 2048, 4, false), at(37, 2048, 2, false)},
			[]Point{at(37, 2048, 4, false), at(37, 2048, 2, false), at(37, 8192, 4, false), at(37, 8192, 4, true), at(37, 512, 4, false), at(36, 8192, 4, false)}},
	} {
		tried, w := walk(r, tt.time)
		var best []Point
		for _, p := range w.Fastest() {
			best = append(best, p.Point)
		}
		if !slices.Equal(tried, tt.tried) || !slices.Equal(best, tt.best) {
			t.Errorf("%s: tried %+v\nbest %+v", tt.name, tried, best)
		}
	}
}

// An order leads to its point, and changes nothing else.
func TestPointsAndOrders(t *testing.T) {
	start := PointOf(reference)
	if start != (Point{NGL: 34, Ubatch: 8192, Slots: 4}) {
		t.Fatalf("%+v", start)
	}
	tried, _ := walk(DefaultRange(36), func(Point) float64 { return 0.5 })
	for _, p := range append(tried, Point{NGL: 0, Ubatch: 32768, Slots: 8, NoOpOffload: true}) {
		setup := p.Order(reference).Apply(Setup{})
		flags := append(slices.Clone(reference), setup.Flags...)
		if got := PointOf(flags); got != p {
			t.Errorf("%+v: %v leads to %+v", p, setup.Flags, got)
		}
	}
	if o := start.Order(reference); o.NGL != nil || len(o.Flags) != 0 {
		t.Errorf("no change: %+v", o)
	}
	off := append(slices.Clone(reference), "--no-op-offload")
	if o := start.Order(off); !slices.Equal(o.Flags, []string{"--op-offload"}) {
		t.Errorf("back: %v", o.Flags)
	}
	if got := DefaultRange(36).NGL; !slices.Equal(got, []int{37, 36, 34, 27, 18}) {
		t.Errorf("36 blocks: %v", got)
	}
	if got := DefaultRange(12).NGL; !slices.Equal(got, []int{13, 12, 9, 6}) {
		t.Errorf("12 blocks: %v", got)
	}
}
