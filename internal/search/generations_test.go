package search_test

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/search"
)

// engines is an embedder whose engine can be exchanged: each has its own
// fingerprint, and vectors at an angle of its own.
type engines struct{ now atomic.Pointer[string] }

var angles = map[string]float64{"engine-a": 20, "engine-b": 50}

func (e *engines) EmbedQuery(_ context.Context, text string) ([]float32, string, error) {
	now := *e.now.Load()
	if text == "ㅁ" {
		return direction(180), now, nil
	}
	return direction(0), now, nil
}

func (e *engines) become(name string) { e.now.Store(&name) }

func madeBy(name string) document.Maker {
	return document.Maker{Fingerprint: name, Dim: 4, Model: name}
}

// embedAll makes the vectors of every text: that about automobiles near the
// query, by the angle of the engine.
func (l library) embedAll(t *testing.T, name string, most int) {
	t.Helper()
	lacking, err := l.db.Backlog(t.Context(), name, 0, most)
	if err != nil {
		t.Fatal(err)
	}
	vectors := make(map[document.Hash][]float32)
	for _, one := range lacking {
		vectors[one.Chunk.Hash()] = direction(100)
		if one.Chunk.Heading == "Automobile repair manual" {
			vectors[one.Chunk.Hash()] = direction(angles[name])
		}
	}
	if err := l.db.AddVectors(t.Context(), name, 4, vectors); err != nil {
		t.Fatal(err)
	}
}

func (l library) serve(t *testing.T, name string) document.Generation {
	t.Helper()
	g, _, err := l.db.Serve(t.Context(), madeBy(name))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// While the vectors of a new engine are being made, a search says how far they
// are, and nothing of the old engine's is in it.
func TestRebuildingIsSaid(t *testing.T) {
	l := shelve(t, shelf, nil)
	l.serve(t, "engine-a")
	l.embedAll(t, "engine-a", 100)
	l.serve(t, "engine-a") // the documents are indexed now
	var e engines
	e.become("engine-a")
	s := l.searcher(t, &e, search.WeakTrust())
	if reply := ask(t, s, search.Request{Query: "vehicle"}); len(reply.Degraded) != 0 || len(reply.Results) != 1 {
		t.Fatalf("before: %v, %v", reply.Degraded, l.names(reply.Results))
	}

	e.become("engine-b") // the store has not heard of it yet
	for _, half := range []int64{0, 3} {
		if half > 0 {
			l.serve(t, "engine-b")
			l.embedAll(t, "engine-b", int(half))
		}
		reply := ask(t, s, search.Request{Query: "vehicle"})
		if want := (&search.Rebuild{Embedded: half, Texts: int64(len(shelf))}); !slices.Equal(reply.Degraded, []search.Degradation{search.Rebuilding}) ||
			!cmp.Equal(reply.Index.Rebuilding, want) {
			t.Errorf("%d embedded: %v, %+v", half, reply.Degraded, reply.Index.Rebuilding)
		}
	}
	l.embedAll(t, "engine-b", 100)
	if g := l.serve(t, "engine-b"); g.State != document.Active {
		t.Errorf("complete, it is %s", g.State)
	}
	reply := ask(t, s, search.Request{Query: "vehicle", Explain: true})
	if len(reply.Degraded) != 0 || len(reply.Results) != 1 || reply.Results[0].Explain.Fingerprint != "engine-b" {
		t.Errorf("after: %v, %+v", reply.Degraded, reply.Results)
	}
}

// Engine and generation are exchanged without any order between the two, while
// searches run: each finds the document by vectors of one engine, that of its
// query, and none is without.
func TestSearchesDuringSwitchesAreOfOneGeneration(t *testing.T) {
	l := shelve(t, shelf, nil)
	l.serve(t, "engine-a")
	for _, name := range []string{"engine-a", "engine-b"} {
		if _, err := l.db.Feed(t.Context(), madeBy(name)); err != nil {
			t.Fatal(err)
		}
		l.embedAll(t, name, 100)
		if _, err := l.db.Finish(t.Context(), name, false, 0); err != nil {
			t.Fatal(err)
		}
	}
	var e engines
	e.become("engine-a")
	s := l.searcher(t, &e, search.WeakTrust())
	done := make(chan struct{})
	var searching sync.WaitGroup
	var seen [2]atomic.Int64
	for range 3 {
		searching.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				reply, err := s.Search(t.Context(), search.Request{Query: "vehicle", Explain: true})
				if err != nil || len(reply.Results) != 1 || slices.Contains(reply.Degraded, search.Rebuilding) {
					t.Errorf("%v: %v, %d results", err, reply.Degraded, len(reply.Results))
					return
				}
				how := reply.Results[0].Explain
				if want := math.Cos(angles[how.Fingerprint] * math.Pi / 180); how.Cosine == nil || math.Abs(*how.Cosine-want) > 0.001 {
					t.Errorf("%+v is not by a vector of its engine", how)
				}
				seen[how.Fingerprint[len("engine-")]-'a'].Add(1)
			}
		})
	}
	for i := 0; i < 60 || seen[0].Load() == 0 || seen[1].Load() == 0; i++ {
		name := []string{"engine-b", "engine-a"}[i%2]
		if i%4 < 2 {
			e.become(name)
			l.serve(t, name)
		} else {
			l.serve(t, name)
			e.become(name)
		}
	}
	close(done)
	searching.Wait()
	t.Logf("%d searches by one, %d by the other", seen[0].Load(), seen[1].Load())
}
