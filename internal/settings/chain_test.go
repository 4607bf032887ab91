package settings_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/models"
	"github.com/ondol-app/ondol/internal/settings"
	"github.com/ondol-app/ondol/internal/upstream"
)

// machine is a machine and a model as tests want them; the engine's figures
// come from the flags that the settings lead to.
type machine struct {
	cores, trained int
	whole          bool
	need, gpu      int64 // bytes, of the engine that embeds; with -np they grow in proportion to 4
	budget, set    int64
	smaller        string
}

// usual is the reference model on a machine of 64 GB.
func usual() machine {
	return machine{cores: 8, trained: 32768, need: 24 << 30, gpu: 20 << 30, budget: 60 << 30, set: 48 << 30}
}

const standardFlags = "--embeddings --pooling last -ngl 34 -c 65536 -b 8192 -ub 8192 -np 4"

var profiles = map[string]string{"": standardFlags, "standard": standardFlags, "small": "--embeddings -c 16384 -b 4096 -ub 4096 -np 2"}

func (m machine) facts(t *testing.T, s *settings.Settings) settings.Facts {
	t.Helper()
	f := settings.Facts{
		Cores: m.cores, Connections: 100, IndexConnections: 8, Budget: m.budget, WorkingSet: m.set, Engines: map[upstream.Role]settings.EngineFacts{},
	}
	engine := func(flags string, own []string) settings.EngineFacts {
		sizes, err := models.ReadSizes(append(strings.Fields(flags), own...))
		if err != nil {
			t.Fatal(err)
		}
		return settings.EngineFacts{
			Slots: sizes.Slots, Batch: sizes.Batch, Ubatch: sizes.Ubatch, Context: sizes.Context, Shared: sizes.Unified,
			Need: m.need * int64(sizes.Slots) / 4, GPU: m.gpu * int64(sizes.Slots) / 4,
		}
	}
	if !s.Roles.Embed.Remote() {
		e := engine(profiles[s.Engine.Profile], s.Engine.Flags)
		e.Trained, e.Whole, e.Smaller = m.trained, m.whole, m.smaller
		f.Engines[upstream.RoleEmbed] = e
	}
	for _, role := range []upstream.Role{upstream.RoleRerank, upstream.RoleChat} {
		if chosen := s.Roles.Of(role); chosen.Kind == settings.KindLocal {
			f.Engines[role] = engine("-c 8192 -np 1", chosen.Flags)
		}
	}
	return f
}

// set is settings with values in them, each as the command line takes it.
func set(t *testing.T, pairs ...string) *settings.Settings {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.toml")
	changes := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		changes[pairs[i]] = pairs[i+1]
	}
	if _, err := settings.Update(file(path), changes, nil); err != nil {
		t.Fatal(err)
	}
	loaded, err := settings.Load(file(path))
	if err != nil {
		t.Fatal(err)
	}
	return &loaded.Settings
}

var rerank = []string{"roles.rerank.kind", "local", "roles.rerank.model", "/r.gguf"}

var chat = []string{"roles.chat.kind", "local", "roles.chat.model", "/c.gguf"}

// Each of these breaks the chain, at the links named and no other; each move
// that is offered mends its link.
var broken = []struct {
	name  string
	pairs []string
	turn  func(*machine)
	links []settings.Link
	text  string // of the first refusal
}{
	{name: "more permits than slots", pairs: []string{"admission.executing", "5"}, links: []settings.Link{settings.LinkPermitsSlots},
		text: "admission.executing (5) must be ≤ -np (4); set engine.flags to -np 5 -c 81920, or admission.executing to 4"},
	{name: "fewer slots than permits", pairs: []string{"engine.flags", "-np 1"}, links: []settings.Link{settings.LinkPermitsSlots},
		text: "admission.executing (2) must be ≤ -np (1); set admission.executing to 1, or engine.flags to -np 2 -c 131072"},
	{name: "slots by their long name", pairs: []string{"engine.flags", "-t 4 --parallel 1"}, links: []settings.Link{settings.LinkPermitsSlots}},
	{name: "a profile with fewer slots", pairs: []string{"engine.profile", "small", "admission.executing", "3"}, links: []settings.Link{settings.LinkPermitsSlots}},
	{name: "indexing takes every permit", pairs: []string{"admission.background", "2"}, links: []settings.Link{settings.LinkBackgroundPermits},
		text: "admission.background (2) must be < admission.executing (2); set admission.executing to 3, or admission.background to 1"},
	{name: "one permit, and indexing has it", pairs: []string{"admission.executing", "1"}, links: []settings.Link{settings.LinkBackgroundPermits}},
	{name: "input over a slot", pairs: []string{"engine.longest_input", "20000"}, links: []settings.Link{settings.LinkInputSlot},
		text: "engine.longest_input (20000) must be ≤ -c / -np (16384); set engine.flags to -c 80000, or engine.longest_input to 16384"},
	{name: "slots share out the context", pairs: []string{"engine.longest_input", "16384", "engine.flags", "-np 8 -c 65536"},
		turn: func(m *machine) { m.need, m.gpu = 1, 1 }, links: []settings.Link{settings.LinkInputSlot}},
	{name: "input over what the model knows", pairs: []string{"engine.longest_input", "1000"}, turn: func(m *machine) { m.trained = 512 },
		links: []settings.Link{settings.LinkInputModel, settings.LinkPassageInput}},
	{name: "input over a piece", pairs: []string{"engine.longest_input", "9000"}, turn: func(m *machine) { m.whole = true },
		links: []settings.Link{settings.LinkInputUbatch}, text: "engine.longest_input (9000) must be ≤ -ub (8192); set engine.flags to -ub 9000 -b 9000"},
	{name: "piece over batch", pairs: []string{"engine.flags", "-b 4096"}, links: []settings.Link{settings.LinkUbatchBatch},
		text: "-ub (8192) must be ≤ -b (4096); set engine.flags to -b 8192, or engine.flags to -b 4096 -ub 4096"},
	{name: "batch over context", pairs: []string{"engine.flags", "--ctx-size 4096"}, links: []settings.Link{settings.LinkBatchContext}},
	{name: "passages backwards", pairs: []string{"index.chunk_min", "601"}, links: []settings.Link{settings.LinkPassageSizes},
		text: "index.chunk_min (601) must be ≤ index.chunk_max (600); set index.chunk_max to 601, or index.chunk_min to 600"},
	{name: "passage over the longest input", pairs: []string{"engine.longest_input", "512"}, links: []settings.Link{settings.LinkPassageInput},
		text: "index.chunk_max (600) must be ≤ input (512); set index.chunk_max to 512, or engine.longest_input to 600"},
	{name: "passage over a piece", pairs: []string{"engine.flags", "-ub 512"}, turn: func(m *machine) { m.whole = true }, links: []settings.Link{settings.LinkPassageInput}},
	{name: "passage over a slot", pairs: []string{"index.chunk_max", "8192", "engine.flags", "-c 16384"}, links: []settings.Link{settings.LinkPassageInput}},
	{name: "passage over the model", turn: func(m *machine) { m.trained = 512 }, links: []settings.Link{settings.LinkPassageInput}},
	{name: "readers over cores", pairs: []string{"index.readers", "4"}, turn: func(m *machine) { m.cores = 2 }, links: []settings.Link{settings.LinkReadersCores},
		text: "index.readers (4) must be ≤ cores (2); set index.readers to 2"},
	{name: "readers over connections", pairs: []string{"index.readers", "9"}, turn: func(m *machine) { m.cores = 64 }, links: []settings.Link{settings.LinkReadersConnections}},
	{name: "rerankers over slots", pairs: append(rerank, "roles.rerank.executing", "2"), links: []settings.Link{settings.LinkRerankSlots},
		text: "roles.rerank.executing (2) must be ≤ -np (1); set roles.rerank.flags to -np 2 -c 16384"},
	{name: "chats over slots", pairs: append(chat, "roles.chat.executing", "3", "roles.chat.flags", "-np 2"), links: []settings.Link{settings.LinkChatSlots}},
	{name: "resuming above pausing", pairs: []string{"yield.gpu", "10"}, links: []settings.Link{settings.LinkYieldShares},
		text: "yield.gpu_resume (10) must be < yield.gpu (10); set yield.gpu_resume to 9, or yield.gpu to 11"},
	{name: "too large for the memory", turn: func(m *machine) { m.budget, m.set, m.smaller = 13<<30, 0, "small" }, links: []settings.Link{settings.LinkMemory},
		text: "memory_need (24.1 GiB) must be ≤ memory_budget (13.0 GiB); set engine.profile to small, or engine.memory_check to false"},
	{name: "two engines too large together", pairs: append(chat, "engine.flags", "-np 8 -c 131072"), links: []settings.Link{settings.LinkGPUMemory},
		turn: func(m *machine) { m.set = 44 << 30 }},
	{name: "a cache that takes the rest", pairs: []string{"cache.memory", "40000"}, links: []settings.Link{settings.LinkMemory},
		text: "memory_need (63.1 GiB) must be ≤ memory_budget (60.0 GiB); set cache.memory to 36864"},
	{name: "too large for the GPU", turn: func(m *machine) { m.set = 16 << 30 }, links: []settings.Link{settings.LinkGPUMemory}},
	{name: "several at once", pairs: []string{"admission.executing", "9", "admission.background", "9", "index.chunk_min", "700"},
		links: []settings.Link{settings.LinkPermitsSlots, settings.LinkBackgroundPermits, settings.LinkPassageSizes}},
}

func brokenLinks(checks []settings.Check) []settings.Link {
	var list []settings.Link
	for _, c := range checks {
		if c.State == settings.LinkBroken {
			list = append(list, c.Link)
		}
	}
	return list
}

func TestWhatBreaksTheChainIsRefused(t *testing.T) {
	for _, tt := range broken {
		t.Run(tt.name, func(t *testing.T) {
			m := usual()
			if tt.turn != nil {
				tt.turn(&m)
			}
			s := set(t, tt.pairs...)
			checks := settings.Chain(s, m.facts(t, s))
			if diff := cmp.Diff(tt.links, brokenLinks(checks)); diff != "" {
				t.Fatalf("broken links (-want +got):\n%s", diff)
			}
			var keys []string
			for i := 0; i < len(tt.pairs); i += 2 {
				keys = append(keys, tt.pairs[i])
			}
			err := settings.Refusal(nil, checks, keys...)
			if refused, ok := errors.AsType[*settings.ProblemsError](err); !ok || len(refused.Problems) != len(tt.links) {
				t.Fatalf("refusal %v", err)
			}
			if tt.text != "" && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got  %v\nwant %s", err, tt.text)
			}
			for _, c := range checks {
				for _, move := range c.Moves {
					mended := set(t, append(slices.Clone(tt.pairs), move.Knob, move.Value)...)
					if links := brokenLinks(settings.Chain(mended, m.facts(t, mended))); slices.Contains(links, c.Link) {
						t.Errorf("%s = %s does not mend %s", move.Knob, move.Value, c.Link)
					}
				}
				if (c.State == settings.LinkBroken) != (len(c.Moves) > 0) {
					t.Errorf("%s is %s and has moves %v", c.Link, c.State, c.Moves)
				}
			}
		})
	}
}

func TestWhatHoldsIsAccepted(t *testing.T) {
	remote := []string{"roles.embed.kind", "openai", "roles.embed.url", "http://127.0.0.1:9", "roles.embed.model", "m"}
	good := []struct {
		name  string
		pairs []string
		turn  func(*machine)
	}{
		{name: "as delivered"},
		{name: "as many permits as slots", pairs: []string{"admission.executing", "4"}},
		{name: "slots and permits together", pairs: []string{"admission.executing", "8", "engine.flags", "-np 8 -c 131072"}},
		{name: "one permit, no indexing", pairs: []string{"admission.executing", "1", "admission.background", "0"}},
		{name: "indexing takes all but one", pairs: []string{"admission.executing", "4", "admission.background", "3"}},
		{name: "sixty-four permits", pairs: []string{"admission.executing", "64", "engine.flags", "-np 64 -c 1048576"}, turn: func(m *machine) { m.need, m.gpu = 1, 1 }},
		{name: "no queue", pairs: []string{"admission.waiting", "0"}},
		{name: "a queue of ten thousand", pairs: []string{"admission.waiting", "10000"}},
		{name: "an input of a whole slot", pairs: []string{"engine.longest_input", "16384"}},
		{name: "an input in several pieces", pairs: []string{"engine.longest_input", "9000", "engine.flags", "-ub 512"}},
		{name: "an input of a whole piece", pairs: []string{"engine.longest_input", "8192"}, turn: func(m *machine) { m.whole = true }},
		{name: "slots that share the context", pairs: []string{"engine.longest_input", "32768", "engine.flags", "-kvu"}},
		{name: "the small profile", pairs: []string{"engine.profile", "small"}},
		{name: "a passage as long as an input", pairs: []string{"engine.longest_input", "600"}},
		{name: "passages of one size", pairs: []string{"index.chunk_min", "600"}},
		{name: "large passages", pairs: []string{"index.chunk_max", "8192"}},
		{name: "a reader for each core", pairs: []string{"index.readers", "8"}},
		{name: "a server of somebody else", pairs: append(remote, "admission.executing", "50", "index.chunk_max", "8192")},
		{name: "three engines", pairs: append(append(rerank, chat...), "roles.chat.executing", "2", "roles.chat.flags", "-np 2 -c 8192")},
		{name: "just enough memory", turn: func(m *machine) { m.budget = m.need + 64<<20 }},
		{name: "no GPU of its own memory", turn: func(m *machine) { m.set = 0 }},
		{name: "a machine that does not tell", turn: func(m *machine) { m.budget, m.set, m.need = 0, 0, 0 }},
		{name: "the owner takes the risk", pairs: []string{"engine.memory_check", "false"}, turn: func(m *machine) { m.budget, m.set = 1<<30, 1<<30 }},
	}
	for _, tt := range good {
		t.Run(tt.name, func(t *testing.T) {
			m := usual()
			if tt.turn != nil {
				tt.turn(&m)
			}
			s := set(t, tt.pairs...)
			if err := settings.Refusal(nil, settings.Chain(s, m.facts(t, s))); err != nil {
				t.Error(err)
			}
		})
	}
}

// Every link is broken by some case: none is there for show.
func TestEveryLinkCanBreak(t *testing.T) {
	seen := map[settings.Link]bool{settings.LinkPermitsConnections: true} // 64 permits are the most, 100 connections the least; see below
	for _, tt := range broken {
		for _, l := range tt.links {
			seen[l] = true
		}
	}
	s := set(t, append(append(rerank, chat...), "admission.executing", "3")...)
	m := usual()
	m.whole = true
	facts := m.facts(t, s)
	facts.Connections = 2
	checks := settings.Chain(s, facts)
	for _, c := range checks {
		if !seen[c.Link] {
			t.Errorf("no case breaks %s", c.Link)
		}
	}
	if links := brokenLinks(checks); !cmp.Equal(links, []settings.Link{settings.LinkPermitsConnections}) {
		t.Errorf("broken: %v", links)
	}
}

// What was broken before may be mended in steps, and what has nothing to do
// with it may be changed; nothing may get worse.
func TestRefusalIsOfTheChange(t *testing.T) {
	m := usual()
	chain := func(pairs ...string) []settings.Check {
		s := set(t, pairs...)
		return settings.Chain(s, m.facts(t, s))
	}
	before := chain("admission.executing", "9", "admission.background", "9")
	for name, tt := range map[string]struct {
		after []settings.Check
		want  bool
	}{
		"another setting":    {chain("admission.executing", "9", "admission.background", "9", "log", "warn"), true},
		"one of two mended":  {chain("admission.executing", "9", "admission.background", "3"), true},
		"nearer":             {chain("admission.executing", "8", "admission.background", "8"), true},
		"both mended":        {chain("admission.executing", "3"), true},
		"worse":              {chain("admission.executing", "10", "admission.background", "9"), false},
		"another one broken": {chain("admission.executing", "9", "admission.background", "9", "index.chunk_min", "700"), false},
	} {
		if err := settings.Refusal(before, tt.after); (err == nil) != tt.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A link whose numbers are not known, or that the owner waived, is told and
// refuses nothing.
func TestStatesOfLinks(t *testing.T) {
	m := usual()
	m.budget, m.need, m.set = 1<<30, 24<<30, 1<<30
	states := func(s *settings.Settings, f settings.Facts) map[settings.Link]settings.LinkState {
		states := map[settings.Link]settings.LinkState{}
		for _, c := range settings.Chain(s, f) {
			states[c.Link] = c.State
		}
		return states
	}
	s := set(t, "engine.memory_check", "false")
	got := states(s, m.facts(t, s))
	if got[settings.LinkMemory] != settings.LinkWaived || got[settings.LinkGPUMemory] != settings.LinkWaived || got[settings.LinkPermitsSlots] != settings.LinkHolds {
		t.Errorf("waived: %v", got)
	}
	if _, has := got[settings.LinkInputUbatch]; has {
		t.Error("an input that can be split has a link to the piece")
	}
	m.budget, m.trained = 0, 0
	if got := states(s, m.facts(t, s)); got[settings.LinkMemory] != settings.LinkUnknown || got[settings.LinkInputModel] != settings.LinkUnknown {
		t.Errorf("unknown: %v", got)
	}
}
