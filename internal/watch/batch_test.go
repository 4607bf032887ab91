package watch

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAggregator(t *testing.T) {
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	type hint struct {
		path string // "!" is a rescan
		ms   int
	}
	tests := []struct {
		name  string
		hints []hint
		due   int // ms
		want  Batch
	}{
		{"one path waits for the quiet time", []hint{{"a", 0}}, 200, Batch{Paths: []string{"a"}}},
		{"a second hint begins the quiet time again", []hint{{"a", 0}, {"b", 150}}, 350, Batch{Paths: []string{"a", "b"}}},
		{"a busy file is reported after the longest wait", []hint{{"a", 0}, {"a", 190}, {"a", 380}, {"a", 570}, {"a", 760}, {"a", 950}}, 1000, Batch{Paths: []string{"a"}}},
		{"what lies below a named directory is covered", []hint{{"d/x/y", 0}, {"d", 0}, {"dd", 0}, {"e/x", 0}}, 200, Batch{Paths: []string{"d", "dd", "e/x"}}},
		{"the root is a rescan", []hint{{"a", 0}, {".", 10}}, 210, Batch{Rescan: true}},
		{"a rescan swallows paths before and after it", []hint{{"a", 0}, {"!", 0}, {"b", 0}}, 200, Batch{Rescan: true}},
		{"too many paths are a rescan", []hint{{"a", 0}, {"b", 0}, {"c", 0}, {"d", 0}, {"e", 0}}, 200, Batch{Rescan: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := aggregator{quiet: 200 * time.Millisecond, max: time.Second, maxPaths: 4}
			for _, h := range tt.hints {
				if h.path == "!" {
					a.addRescan(at(h.ms))
				} else {
					a.add(h.path, at(h.ms))
				}
			}
			due, ok := a.deadline()
			if !ok || !due.Equal(at(tt.due)) {
				t.Errorf("due %v (%v), want %v", due.Sub(start), ok, at(tt.due).Sub(start))
			}
			if diff := cmp.Diff(tt.want, a.peek()); diff != "" {
				t.Errorf("batch (-want +got):\n%s", diff)
			}
			a.clear()
			if _, ok := a.deadline(); ok {
				t.Error("something is still due after clear")
			}
		})
	}
}

func TestAggregatorStaysBounded(t *testing.T) {
	a := aggregator{quiet: time.Second, max: time.Second, maxPaths: 100}
	for i := range 10_000 {
		a.add(fmt.Sprint(i), time.Unix(0, 0))
		if len(a.paths) > 100 {
			t.Fatalf("%d paths held, limit 100", len(a.paths))
		}
	}
}
