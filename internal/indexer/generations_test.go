package indexer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/indexer"
)

// candidate is an engine that makes another kind of vector.
func candidate() *fakeEngine {
	e := newFakeEngine()
	e.fingerprint = "fake-2"
	return e
}

// generations are "fingerprint state place embedded/texts", oldest first.
func (w *world) generations() []string {
	w.t.Helper()
	list, err := w.ix.Generations(context.Background())
	check(w.t, err)
	var all []string
	for _, g := range list {
		all = append(all, fmt.Sprintf("%s %s %s %d/%d", g.Fingerprint, g.State, g.Place, g.Embedded, g.Texts))
	}
	return all
}

// stand waits until the generations are these.
func (w *world) stand(what string, want ...string) {
	w.t.Helper()
	w.until(what, func() bool { return cmp.Equal(want, w.generations()) })
}

// lay writes n documents of two passages, every tenth with a passage of the one before.
func (w *world) lay(n int) {
	w.t.Helper()
	for i := range n {
		w.write(fmt.Sprintf("%03d.md", i), fmt.Sprintf("# First\n\npassage one of %d\n\n# Second\n\npassage two of %d\n", i, i-i%10/9))
	}
}

// serves says which generations could serve now, oldest first.
func (w *world) serves() []bool {
	w.t.Helper()
	list, err := w.ix.Generations(context.Background())
	check(w.t, err)
	var all []bool
	for _, g := range list {
		all = append(all, g.Serves())
	}
	return all
}

// once fails the test when the engine was given a text twice.
func once(t *testing.T, e *fakeEngine, what string) (texts int) {
	t.Helper()
	e.set(func() {
		for hash, n := range e.embedded {
			if n > 1 {
				t.Errorf("%s: text %s was embedded %d times", what, hash[:8], n)
			}
		}
		texts = len(e.embedded)
	})
	return texts
}

// A candidate's generation is filled beside the one in service, edits get both
// kinds of vector, the switch and the way back embed nothing and leave no
// document pending.
func TestCandidateIsFilledBeside(t *testing.T) {
	w := newWorld(t)
	w.lay(40)
	w.add()
	w.settled()
	texts := once(t, w.engine, "first")
	w.stand("first", fmt.Sprintf("fake-1 active in_service %d/%d", texts, texts))

	second := candidate()
	second.hold = make(chan struct{})
	w.ix.Build(second)
	second.hold <- struct{}{}
	w.until("something of the candidate's", func() bool { return strings.Contains(strings.Join(w.generations(), "\n"), "fake-2 building candidate") })
	w.write("late.md", "written while the candidate is being filled\n")
	w.settled() // by the engine in service alone: the candidate is held
	if got := w.serves(); !slices.Equal(got, []bool{true, false}) {
		t.Errorf("half way these serve: %v", got)
	}
	close(second.hold)
	texts++
	full := func(one, two string) []string {
		return []string{fmt.Sprintf("fake-1 %s %d/%d", one, texts, texts), fmt.Sprintf("fake-2 %s %d/%d", two, texts, texts)}
	}
	w.stand("filled", full("active in_service", "ready candidate")...)
	w.write("later.md", "written when it was ready\n")
	w.settled()
	texts++
	w.stand("caught up", full("active in_service", "ready candidate")...)
	if n := once(t, second, "candidate"); n != texts {
		t.Errorf("the candidate embedded %d texts, want %d", n, texts)
	}

	// The switch: the door gives the candidate's vectors from now on.
	w.engine.set(func() { w.engine.fingerprint, w.engine.embedded = "fake-2", make(map[document.Hash]int) })
	g, err := w.ix.Follow(t.Context())
	check(t, err)
	if g.Fingerprint != "fake-2" || g.State != document.Active || g.Missing() != 0 {
		t.Errorf("in service: %+v", g)
	}
	w.ix.Build(nil)
	w.stand("switched", full("retired kept", "active in_service")...)
	if c := w.counts(); c.Pending != 0 {
		t.Errorf("%d documents are pending after the switch", c.Pending)
	}
	w.write("after.md", "written after the switch\n")
	w.settled()
	texts++
	// It was whole once, and is not now: to serve again it is filled up first.
	if got := w.serves(); !slices.Equal(got, []bool{false, true}) {
		t.Errorf("after the switch these serve: %v", got)
	}

	if n := once(t, w.engine, "after the switch"); n != 1 {
		t.Errorf("%d texts were embedded after the switch, want the one that is new", n)
	}
	w.engine.set(func() { w.engine.fingerprint, w.engine.embedded = "fake-1", make(map[document.Hash]int) })
	if g, err = w.ix.Follow(t.Context()); err != nil || g.Missing() != 1 || g.State != document.Active {
		t.Errorf("rolled back: %+v, %v", g, err)
	}
	w.settled()
	w.stand("rolled back", full("active in_service", "retired kept")...)
	if n := once(t, w.engine, "rolled back"); n != 1 {
		t.Errorf("%d texts were embedded on the way back, want the one that came since", n)
	}
}

func (w *world) counts() document.Counts {
	w.t.Helper()
	c, err := w.db.Counts(context.Background())
	check(w.t, err)
	return c
}

// An engine that takes the place of the one in service fills its generation
// with the documents; it is active when none is missing, and not before.
func TestEngineInPlace(t *testing.T) {
	w := newWorld(t)
	w.lay(40)
	w.add()
	w.settled()
	texts := once(t, w.engine, "first")
	w.stop()
	w.engine.set(func() {
		w.engine.fingerprint, w.engine.hold, w.engine.embedded = "fake-2", make(chan struct{}), make(map[document.Hash]int)
	})
	w.run()
	w.until("the new generation", func() bool { return len(w.generations()) == 2 })
	w.engine.hold <- struct{}{}
	w.until("some vectors", func() bool { return !strings.Contains(w.generations()[1], " 0/") })
	if got := w.generations(); !strings.HasPrefix(got[0], "fake-1 active kept") || !strings.HasPrefix(got[1], "fake-2 building in_service") {
		t.Errorf("half way: %q", got)
	}
	if c := w.counts(); c.Pending == 0 || c.Indexed+c.Pending != c.Found {
		t.Errorf("half way: %+v", c)
	}
	close(w.engine.hold)
	w.settled()
	w.stand("whole", fmt.Sprintf("fake-1 retired kept %d/%d", texts, texts), fmt.Sprintf("fake-2 active in_service %d/%d", texts, texts))
	if n := once(t, w.engine, "in place"); n != texts {
		t.Errorf("%d texts embedded, want %d", n, texts)
	}
}

// Texts that the candidate refuses keep nothing else from being made, and not
// its generation from being ready. In service, their documents tell why.
func TestCandidateRefusesTexts(t *testing.T) {
	w := newWorld(t)
	w.lay(20)
	w.write("poison.md", "this one holds poison\n")
	w.write("crash.md", "this one breaks connections\n")
	w.add()
	w.settled()
	texts := once(t, w.engine, "first")
	second := candidate()
	second.invalid, second.crash = "poison", "breaks"
	w.ix.Build(second)
	w.stand("ready but for two", fmt.Sprintf("fake-1 active in_service %d/%d", texts, texts), fmt.Sprintf("fake-2 ready candidate %d/%d", texts-2, texts))
	if n := once(t, second, "candidate"); n != texts-2 {
		t.Errorf("the candidate embedded %d texts, want %d", n, texts-2)
	}
	if got := w.serves(); !slices.Equal(got, []bool{true, true}) {
		t.Errorf("ready but for two, these serve: %v", got)
	}
	w.write("late.md", "a late one is made all the same\n")
	w.settled()
	w.stand("caught up", fmt.Sprintf("fake-1 active in_service %d/%d", texts+1, texts+1), fmt.Sprintf("fake-2 ready candidate %d/%d", texts-1, texts+1))

	w.ix.Build(nil)
	w.engine.set(func() { w.engine.fingerprint, w.engine.invalid = "fake-2", "poison" })
	_, err := w.ix.Follow(t.Context())
	check(t, err)
	w.until("the reason", func() bool {
		d := w.documents()
		return d["poison.md"].State == document.Failed && d["poison.md"].Reason == document.ReasonInvalidVector && d["crash.md"].State == document.Indexed
	})
	w.engine.set(func() { w.engine.fingerprint, w.engine.invalid = "fake-1", "" })
	_, err = w.ix.Follow(t.Context())
	check(t, err)
	w.settled()
}

// A candidate that is away, comes back, changes its kind and is dropped.
func TestCandidateComesAndGoes(t *testing.T) {
	w := newWorld(t)
	w.lay(10)
	w.add()
	w.settled()
	second := candidate()
	second.down = errors.New("still loading")
	w.ix.Build(second)
	w.write("a.md", "indexed while the candidate is away\n")
	w.settled()
	if got := w.generations(); len(got) != 1 {
		t.Errorf("a generation of an engine nobody has seen: %q", got)
	}
	second.set(func() { second.down = nil })
	w.ix.EngineChanged()
	w.until("ready", func() bool { return strings.Contains(strings.Join(w.generations(), "\n"), "fake-2 ready candidate") })

	second.set(func() { second.fingerprint, second.embedded = "fake-3", make(map[document.Hash]int) })
	w.write("b.md", "so that the filler looks\n")
	w.until("its other kind", func() bool { return strings.Contains(strings.Join(w.generations(), "\n"), "fake-3 ready candidate") })

	w.ix.Build(nil)
	w.until("dropped", func() bool {
		return !slices.ContainsFunc(w.generations(), func(g string) bool { return strings.Contains(g, indexer.Candidate.String()) })
	})
	before := once(t, second, "its other kind")
	w.write("c.md", "not for the candidate any more\n")
	w.settled()
	if n := once(t, second, "dropped"); n != before {
		t.Errorf("%d texts were embedded by a candidate that was dropped", n-before)
	}
}

// What no engine has used for as long as it is kept goes by itself, once the
// engine in service is known.
func TestUnusedGenerationsGo(t *testing.T) {
	w := newWorld(t)
	w.lay(200)
	w.add()
	w.settled()
	w.ix.Build(candidate())
	w.until("ready", func() bool { return strings.Contains(strings.Join(w.generations(), "\n"), "fake-2 ready") })
	w.stop()
	w.keep = 1
	w.engine.set(func() { w.engine.down = errors.New("still loading") })
	w.run()
	if got := w.generations(); len(got) != 2 {
		t.Errorf("something went before an engine was there: %q", got)
	}
	w.engine.set(func() { w.engine.down, w.engine.fingerprint = nil, "fake-2" })
	w.ix.EngineChanged()
	w.until("the one not in use to go", func() bool { return len(w.generations()) == 1 })
	if g := w.generations()[0]; !strings.HasPrefix(g, "fake-2 active in_service") {
		t.Errorf("what is left is %s", g)
	}
	w.settled()
}
