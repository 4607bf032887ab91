package trial_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ondol-app/ondol/internal/trial"
)

// Two engines compared: their steps take turns, neither always first, and what
// a request waits for its turn is no part of its time.
func TestEnginesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		places := make(chan struct{}, 2)
		turn := func(ctx context.Context) (func(), error) {
			places <- struct{}{}
			time.Sleep(time.Minute) // a queue of clients
			return func() { <-places }, nil
		}
		a, b := &target{takes: time.Second}, &target{takes: 2 * time.Second}
		r, err := trial.Run(t.Context(), trial.Config{
			Count: count, Alternate: true, Options: trial.Options{Deadline: 10 * time.Second},
			Targets:  []trial.Target{{Name: "live", Embedder: a, Engine: engine, Turn: turn}, {Name: "candidate", Embedder: b, Engine: engine, Turn: turn}},
			Progress: func(p trial.Progress) { order = append(order, p.Path) },
		})
		if err != nil || !r.Verdict.Pass || len(r.Samples) != 76 {
			t.Fatalf("%v, verdict %+v, %d samples", err, r.Verdict, len(r.Samples))
		}
		want := strings.Fields("live candidate candidate live live candidate candidate live live candidate candidate live")
		if got := slices.Compact(order[1:]); !slices.Equal(got, slices.Compact(want)) {
			t.Errorf("steps of %v", got)
		}
		for i, row := range r.Rows {
			path, took := "live", 1000.0
			if i >= 6 {
				path, took = "candidate", 2000
			}
			if row.Path != path || *row.P50MS != took || *row.MaxMS != took {
				t.Errorf("row %d: %s, p50 %v, longest %v", i, row.Path, *row.P50MS, *row.MaxMS)
			}
		}
		if a.most > 2 || b.most > 2 || len(places) != 0 {
			t.Errorf("%d and %d at once in two places, %d not given back", a.most, b.most, len(places))
		}
	})
}

func TestSizesThatFit(t *testing.T) {
	short := func() (trial.Engine, error) {
		e, err := engine()
		e.MaxTokens = 512
		return e, err
	}
	cfg := trial.Config{Count: count, Fit: true, Targets: []trial.Target{{Name: "live", Embedder: &target{}, Engine: engine}, {Name: "candidate", Embedder: &target{}, Engine: short}}}
	r, err := trial.Run(t.Context(), cfg)
	if err != nil || !r.Verdict.Pass || r.Requests != 44 || len(r.Samples) != 44 || !slices.Contains(r.Notes, trial.NoteShort) {
		t.Errorf("%v, verdict %+v, %d requests, notes %v", err, r.Verdict, r.Requests, r.Notes)
	}
	for _, row := range r.Rows {
		if row.Size != trial.Short || row.OK != row.Requests {
			t.Errorf("%+v", row)
		}
	}
}
