package llamaserver_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/canary"
	"github.com/ondol-app/ondol/internal/enginetest"
	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/llamaserver/fakellama"
	"github.com/ondol-app/ondol/internal/trust"
)

// shelf keeps references, events and evidence in memory.
type shelf struct {
	mu         sync.Mutex
	references map[string]*trust.Reference // guarded by mu
	events     []event.Event               // guarded by mu
	evidence   []trust.Evidence            // guarded by mu
}

func (s *shelf) Reference(_ context.Context, fingerprint string) (*trust.Reference, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.references[fingerprint], nil
}

func (s *shelf) SaveReference(_ context.Context, fingerprint string, ref *trust.Reference) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.references == nil {
		s.references = map[string]*trust.Reference{}
	}
	s.references[fingerprint] = ref
	return nil
}

func (s *shelf) notify(e event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

func (s *shelf) keep(e trust.Evidence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.evidence = append(s.evidence, e)
}

func (s *shelf) told(kind event.Kind) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.events, func(e event.Event) bool { return e.Kind == kind })
}

func (s *shelf) has(code llamaserver.Code) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.evidence, func(e trust.Evidence) bool { return e.Code == string(code) })
}

// on makes config use the shelf.
func (s *shelf) on(config llamaserver.Config) llamaserver.Config {
	config.References, config.Notify, config.Evidence, config.Concurrency = s, s.notify, s.keep, 2
	return config
}

func reference(kind trust.ReferenceKind) func(llamaserver.Status) bool {
	return func(s llamaserver.Status) bool {
		return s.State == llamaserver.Ready && s.Canary != nil && s.Canary.Reference == kind
	}
}

// The real program with real models: all canaries pass, alone, two at once and
// in one call, at the start and again beside nobody.
func TestCanariesOfRealEngines(t *testing.T) {
	for _, test := range []struct {
		name   string
		config llamaserver.Config
		all    bool // the whole set again; 36 wide blocks without a GPU would take minutes
	}{
		{"starter", realConfig(t, enginetest.StarterModel(t), "starter"), true},
		{"qwen3", realConfig(t, enginetest.Qwen3Shaped(t), "reference"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := run(t, new(shelf).on(test.config))
			status := await(t, s, "ready", in(llamaserver.Ready))
			r := status.Canary
			if r == nil || !r.OK() || r.Reference != trust.ReferenceCPU || *r.MinReference < canary.MinCosine || status.OneAtATime != nil {
				t.Fatalf("canaries = %+v, one at a time %+v", r, status.OneAtATime)
			}
			t.Logf("%s: canaries before ready took %d ms, %d texts, partial %v", test.name, r.TookMS, len(r.Figures), r.Partial)
			if !test.all {
				return
			}
			again, err := s.Recheck(t.Context(), status.Generation, nil)
			if err != nil || !again.OK() || again.Partial || *again.MinTogether < canary.MinCosine || *again.MinReference < canary.MinCosine {
				t.Errorf("again: %+v, %v", again, err)
			}
			for _, f := range again.Figures {
				t.Logf("%-10s %4d tokens, reference %.6f, together %.6f", f.Text, f.Tokens, *f.Reference, *f.Together)
			}
			if _, err := s.Recheck(t.Context(), status.Generation+1, nil); err == nil {
				t.Error("an engine that is not there was checked")
			}
		})
	}
}

// A second real engine without the GPU makes the reference, and leaves nothing.
func TestReferenceWithoutTheGPU(t *testing.T) {
	config := realConfig(t, enginetest.StarterModel(t), "starter")
	// Without -ngl the program does not say that it finds no GPU, which alone
	// would make its own answers the reference.
	config.Profile.Flags = strings.Fields("--embeddings -c 32768 -b 8192 -ub 8192 -np 4")
	config.ReferenceDelay = time.Millisecond
	var second []string
	config.ReferenceFits = func(_ string, _, flags []string, _ string) bool { second = flags; return true }
	kept := &shelf{}
	s := run(t, kept.on(config))
	status := await(t, s, "a reference without the GPU", reference(trust.ReferenceCPU))
	if !status.Canary.OK() || *status.Canary.MinReference < canary.MinCosine || status.Generation != 1 {
		t.Errorf("canaries = %+v", status.Canary)
	}
	for _, flag := range []string{"--device", "none", "--no-op-offload"} {
		if !slices.Contains(second, flag) {
			t.Errorf("flags %q lack %s", second, flag)
		}
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again := await(t, s, "ready", in(llamaserver.Ready)); again.Canary.Reference != trust.ReferenceCPU {
		t.Errorf("after a restart: %+v", again.Canary)
	}
}

// A live engine that disagrees with the reference is not used any more.
func TestReferenceThatDisagrees(t *testing.T) {
	fake := fakellama.Install(t, fakellama.Faults{})
	config := fakeConfig(t, fake)
	config.ReferenceDelay = 100 * time.Millisecond
	config.ReferenceFits = func(string, []string, []string, string) bool {
		fake.Set(t, fakellama.Faults{Drift: 0.99}) // what is computed from now on is different
		return true
	}
	kept := &shelf{}
	s := run(t, kept.on(config))
	status := await(t, s, "another engine", func(s llamaserver.Status) bool { return s.State == llamaserver.Ready && s.Generation > 1 })
	if status.LastError == nil || status.LastError.Code != llamaserver.CodeCanaryDrift || status.Canary.Reference != trust.ReferenceCPU || !status.Canary.OK() {
		t.Errorf("%v, %+v", status.LastError, status.Canary)
	}
	if !kept.has(llamaserver.CodeCanaryDrift) || !kept.told(llamaserver.KindCanaryFailed) || !kept.told(llamaserver.KindCanaryPassed) {
		t.Errorf("evidence %+v, events %+v", kept.evidence, kept.events)
	}
}

// Texts together spoil the engine for good: the next start does not try that,
// and computes one at a time until a person starts the engine.
func TestTogetherSpoilsForGood(t *testing.T) {
	fake := fakellama.Install(t, fakellama.Faults{Overlap: true, Sticks: true, DelayMS: 20})
	kept := &shelf{}
	s := run(t, kept.on(fakeConfig(t, fake)))
	status := await(t, s, "ready", in(llamaserver.Ready))
	instance, err := s.Current()
	if err != nil || status.Generation != 2 || status.LastError.Code != llamaserver.CodeCanaryTogether || status.OneAtATime == nil || !instance.OneAtATime {
		t.Fatalf("%+v, %v", status, err)
	}
	if !kept.told(llamaserver.KindOneAtATime) || !kept.has(llamaserver.CodeCanaryTogether) {
		t.Errorf("events %+v", kept.events)
	}
	fake.Set(t, fakellama.Faults{})
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	status = await(t, s, "ready", in(llamaserver.Ready))
	if status.OneAtATime != nil || !kept.told(llamaserver.KindTogether) {
		t.Errorf("after a restart: %+v", status.OneAtATime)
	}
}
