package settings

import (
	"slices"

	"github.com/ondol-app/ondol/internal/upstream"
)

// Link names a link of the capacity chain: two limits of which one must not
// pass the other. Why is "chain.<link>" in assets/locales.
type Link string

// The links.
const (
	LinkPermitsSlots       Link = "permits_slots"
	LinkPermitsConnections Link = "permits_connections"
	LinkBackgroundPermits  Link = "background_permits"
	LinkInputSlot          Link = "input_slot"
	LinkInputModel         Link = "input_model"
	LinkInputUbatch        Link = "input_ubatch"
	LinkUbatchBatch        Link = "ubatch_batch"
	LinkBatchContext       Link = "batch_context"
	LinkPassageSizes       Link = "passage_sizes"
	LinkPassageInput       Link = "passage_input"
	LinkReadersCores       Link = "readers_cores"
	LinkReadersConnections Link = "readers_connections"
	LinkRerankSlots        Link = "rerank_slots"
	LinkChatSlots          Link = "chat_slots"
	LinkYieldShares        Link = "yield_shares"
	LinkMemory             Link = "memory"
	LinkGPUMemory          Link = "gpu_memory"
)

// String returns the link as it stands in JSON.
func (l Link) String() string { return string(l) }

// Memory reports whether the link is about memory.
func (l Link) Memory() bool { return l == LinkMemory || l == LinkGPUMemory }

// Bearable reports whether the app can start although the link is broken, and
// tell of it. What memory does not hold the supervisor refuses by the same
// figures, the engine alone; what the model does not take fails one input at a
// time, and its file may have been replaced since the settings were made.
func (l Link) Bearable() bool {
	return l.Memory() || l == LinkInputModel || l == LinkPassageInput
}

// LinkState says how a link stands.
type LinkState string

// The states.
const (
	LinkHolds   LinkState = "holds"
	LinkBroken  LinkState = "broken"
	LinkWaived  LinkState = "waived"  // broken, and the owner wants it so (engine.memory_check)
	LinkUnknown LinkState = "unknown" // a number of it is not known here
)

// String returns the state as it stands in JSON.
func (s LinkState) String() string { return string(s) }

// Facts are what the settings come to on this machine: of the engines they
// lead to, and of the machine itself.
type Facts struct {
	Engines map[upstream.Role]EngineFacts // of those that we run; a role that is not there has none

	Cores            int   // of the processor
	Connections      int   // HTTP connections to one engine
	IndexConnections int   // of the index, for reading
	Budget           int64 // bytes that engines may take together; 0 = not known
	WorkingSet       int64 // bytes the GPU may reach; 0 = none is told apart
}

// EngineFacts are what an engine has by its flags and its model.
type EngineFacts struct {
	Slots, Batch, Ubatch int // of the flags; sizes in tokens
	Context              int // tokens of all slots together; 0 = not known
	Shared               bool
	Trained              int    // tokens the model was made for; 0 = not known
	Whole                bool   // an input is computed in one piece of at most Ubatch tokens
	Need, GPU            int64  // bytes it takes, and of those what the GPU must reach; 0 = not known
	Smaller              string // profile that would fit the memory; empty = none is known
}

// slot is the tokens of one slot; 0 = not known.
func (e EngineFacts) slot() int {
	if e.Shared {
		return e.Context
	}
	return e.Context / max(e.Slots, 1)
}

// Input is the longest input the engine takes, tokens; 0 = not known.
func (e EngineFacts) Input() int {
	limit := e.slot()
	if limit == 0 {
		return 0
	}
	if e.Trained > 0 {
		limit = min(limit, e.Trained)
	}
	if e.Whole {
		limit = min(limit, e.Ubatch)
	}
	return limit
}

// Side is one side of a link.
type Side struct {
	Name  string `json:"name"` // a knob's key, a flag, or what "chain.side.<name>" calls it
	Value int64  `json:"value"`
	Knob  string `json:"knob,omitempty"` // that turns it; empty where it is a fact
}

// Move is a setting that mends a link by itself.
type Move struct {
	Knob  string `json:"knob"`
	Value string `json:"value"` // as config set takes it
}

// Check is a link with its numbers.
type Check struct {
	Link  Link      `json:"link"`
	State LinkState `json:"state"`
	Left  Side      `json:"left"`
	Op    string    `json:"op"` // ≤ or <
	Right Side      `json:"right"`
	Unit  string    `json:"unit"`
	Moves []Move    `json:"moves"` // what mends it, what was left behind first; never null, empty unless broken
}

// excess is by how much the left side is too large; at most 0 where it is not.
func (c Check) excess() int64 {
	if c.Op == "<" {
		return c.Left.Value - c.Right.Value + 1
	}
	return c.Left.Value - c.Right.Value
}

// Chain looks at every link that the settings have. It is a pure function.
func Chain(s *Settings, f Facts) []Check {
	var checks []Check
	for _, l := range links {
		c := Check{Link: l.id, State: LinkUnknown, Op: "≤", Unit: l.unit, Moves: []Move{}}
		if l.strict {
			c.Op = "<"
		}
		v, applies := l.measure(s, &f)
		if !applies {
			continue
		}
		c.Left, c.Right = l.left.at(v.left), l.right.at(v.right)
		switch {
		case v.unknown:
		case c.excess() <= 0:
			c.State = LinkHolds
		case l.id.Memory() && !s.Engine.MemoryCheck:
			c.State = LinkWaived
		default:
			c.State = LinkBroken
			if l.moves != nil {
				c.Moves = append(c.Moves, l.moves(s, &f, v)...)
			}
		}
		checks = append(checks, c)
	}
	return checks
}

// Refusal is why settings that come to after are refused, where before is what
// they were: for every link that breaks, or breaks more, by the change. So
// settings that do not hold can be mended in steps. changed are the keys that
// are changed; what is to be moved with them is named first. The error is a
// *ProblemsError.
func Refusal(before, after []Check, changed ...string) error {
	had := make(map[Link]Check, len(before))
	for _, c := range before {
		had[c.Link] = c
	}
	var problems []Problem
	for _, c := range after {
		if c.State != LinkBroken {
			continue
		}
		if was, ok := had[c.Link]; ok && was.State == LinkBroken && was.excess() >= c.excess() {
			continue
		}
		problems = append(problems, c.problem(changed))
	}
	if len(problems) > 0 {
		return &ProblemsError{Problems: problems}
	}
	return nil
}

// Judge is the chain of after, and why a change to it from before is refused;
// before may be nil. facts is what settings come to on this machine; its error
// is about them.
func Judge(facts func(*Settings) (Facts, error), before, after *Loaded, changed []string) ([]Check, error) {
	is, err := chainOf(facts, after)
	if err != nil {
		return nil, err
	}
	var was []Check
	if before != nil {
		was, _ = chainOf(facts, before) // what had none cannot excuse what comes
	}
	return is, Refusal(was, is, changed...)
}

func chainOf(facts func(*Settings) (Facts, error), of *Loaded) ([]Check, error) {
	f, err := facts(&of.Settings)
	if err != nil {
		return nil, err
	}
	return Chain(&of.Settings, f), nil
}

// Unbearable are the checks of links that keep the app from starting where
// they are broken.
func Unbearable(checks []Check) []Check {
	return slices.DeleteFunc(slices.Clone(checks), func(c Check) bool { return c.Link.Bearable() })
}
