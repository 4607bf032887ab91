package settings

import (
	"slices"
	"strconv"

	"github.com/ondol-app/ondol/internal/upstream"
)

// link is one row of the chain.
type link struct {
	id          Link
	left, right end
	strict      bool // less, not at most
	unit        string
	adds        []string // knobs beside the left one that make the left side larger

	// measure takes the numbers; false when the settings have no such link.
	measure func(*Settings, *Facts) (numbers, bool)
	// moves are what mends it when it is broken, that of the right side first:
	// who raises the left one forgot the right. nil = nothing that a setting says.
	moves func(*Settings, *Facts, numbers) []Move
}

// end is one side of a row.
type end struct {
	name string // a knob's key, a flag, or a code of chain.side
	knob string // that turns it; empty where it is a fact
}

func knob(key string) end { return end{key, key} }

func flag(name string) end { return end{name, "engine.flags"} }

func fact(name string) end { return end{name: name} }

func (e end) at(v int64) Side { return Side{Name: e.name, Value: v, Knob: e.knob} }

type numbers struct {
	left, right int64
	unknown     bool // they say nothing
}

func compare(left, right int) (numbers, bool) {
	return numbers{left: int64(left), right: int64(right)}, true
}

// about compares where the number on the right is known, which it is when it
// is not 0.
func about(left, right int) (numbers, bool) {
	return numbers{left: int64(left), right: int64(right), unknown: right == 0}, true
}

// embedding is about our engine that embeds; there is no such link without one.
func embedding(take func(*Settings, EngineFacts) (numbers, bool)) func(*Settings, *Facts) (numbers, bool) {
	return func(s *Settings, f *Facts) (numbers, bool) {
		e, ours := f.Engines[upstream.RoleEmbed]
		if !ours {
			return numbers{}, false
		}
		return take(s, e)
	}
}

// links is the chain, in the order of a request's way through it.
var links = []link{
	{id: LinkPermitsSlots, left: knob("admission.executing"), right: flag("-np"), unit: "requests",
		measure: embedding(func(s *Settings, e EngineFacts) (numbers, bool) { return compare(s.Admission.Executing, e.Slots) }),
		moves: func(s *Settings, f *Facts, n numbers) []Move {
			return []Move{slotsFor(n.left, "engine.flags", s.Engine.Flags, f.Engines[upstream.RoleEmbed]), to("admission.executing", n.right)}
		}},
	{id: LinkPermitsConnections, left: knob("admission.executing"), right: fact("connections"), unit: "requests",
		measure: func(s *Settings, f *Facts) (numbers, bool) { return about(s.Admission.Executing, f.Connections) },
		moves:   func(_ *Settings, _ *Facts, n numbers) []Move { return []Move{to("admission.executing", n.right)} }},
	{id: LinkBackgroundPermits, left: knob("admission.background"), right: knob("admission.executing"), strict: true, unit: "requests",
		measure: func(s *Settings, _ *Facts) (numbers, bool) {
			return compare(s.Admission.Background, s.Admission.Executing)
		},
		moves: func(_ *Settings, _ *Facts, n numbers) []Move {
			return []Move{to("admission.executing", n.left+1), to("admission.background", n.right-1)}
		}},
	{id: LinkInputSlot, left: knob("engine.longest_input"), right: flag("-c / -np"), unit: "tokens",
		measure: embedding(func(s *Settings, e EngineFacts) (numbers, bool) { return about(s.Engine.LongestInput, e.slot()) }),
		moves: func(s *Settings, f *Facts, n numbers) []Move {
			return []Move{engineFlags(s, flagValue{"-c", contextFor(n.left, f.Engines[upstream.RoleEmbed])}), to("engine.longest_input", n.right)}
		}},
	{id: LinkInputModel, left: knob("engine.longest_input"), right: end{"trained", "engine.model"}, unit: "tokens",
		measure: embedding(func(s *Settings, e EngineFacts) (numbers, bool) { return about(s.Engine.LongestInput, e.Trained) }),
		moves:   func(_ *Settings, _ *Facts, n numbers) []Move { return []Move{to("engine.longest_input", n.right)} }},
	{id: LinkInputUbatch, left: knob("engine.longest_input"), right: flag("-ub"), unit: "tokens",
		measure: embedding(func(s *Settings, e EngineFacts) (numbers, bool) {
			n, _ := compare(s.Engine.LongestInput, e.Ubatch)
			return n, e.Whole
		}),
		moves: func(s *Settings, f *Facts, n numbers) []Move {
			return []Move{pieceFor(n.left, s, f), to("engine.longest_input", n.right)}
		}},
	{id: LinkUbatchBatch, left: flag("-ub"), right: flag("-b"), unit: "tokens",
		measure: embedding(func(_ *Settings, e EngineFacts) (numbers, bool) { return compare(e.Ubatch, e.Batch) }),
		moves: func(s *Settings, _ *Facts, n numbers) []Move {
			return []Move{engineFlags(s, flagValue{"-b", n.left}), engineFlags(s, flagValue{"-ub", n.right})}
		}},
	{id: LinkBatchContext, left: flag("-b"), right: flag("-c"), unit: "tokens",
		measure: embedding(func(_ *Settings, e EngineFacts) (numbers, bool) { return about(e.Batch, e.Context) }),
		moves: func(s *Settings, f *Facts, n numbers) []Move {
			ubatch := min(int64(f.Engines[upstream.RoleEmbed].Ubatch), n.right)
			return []Move{engineFlags(s, flagValue{"-c", n.left}), engineFlags(s, flagValue{"-b", n.right}, flagValue{"-ub", ubatch})}
		}},
	{id: LinkPassageSizes, left: knob("index.chunk_min"), right: knob("index.chunk_max"), unit: "tokens",
		measure: func(s *Settings, _ *Facts) (numbers, bool) { return compare(s.Index.ChunkMin, s.Index.ChunkMax) },
		moves: func(_ *Settings, _ *Facts, n numbers) []Move {
			return []Move{to("index.chunk_max", n.left), to("index.chunk_min", n.right)}
		}},
	{id: LinkPassageInput, left: knob("index.chunk_max"), right: end{"input", "engine.longest_input"}, unit: "tokens",
		measure: embedding(func(s *Settings, e EngineFacts) (numbers, bool) { return about(s.Index.ChunkMax, s.input(e)) }),
		moves:   passageMoves},
	{id: LinkReadersCores, left: knob("index.readers"), right: fact("cores"), unit: "files",
		measure: func(s *Settings, f *Facts) (numbers, bool) { return about(s.Index.Readers, f.Cores) },
		moves:   func(_ *Settings, _ *Facts, n numbers) []Move { return []Move{to("index.readers", n.right)} }},
	{id: LinkReadersConnections, left: knob("index.readers"), right: fact("index_connections"), unit: "files",
		measure: func(s *Settings, f *Facts) (numbers, bool) { return about(s.Index.Readers, f.IndexConnections) },
		moves:   func(_ *Settings, _ *Facts, n numbers) []Move { return []Move{to("index.readers", n.right)} }},
	roleSlots(LinkRerankSlots, upstream.RoleRerank),
	roleSlots(LinkChatSlots, upstream.RoleChat),
	{id: LinkYieldShares, left: knob("yield.gpu_resume"), right: knob("yield.gpu"), strict: true, unit: "percent",
		measure: func(s *Settings, _ *Facts) (numbers, bool) { return compare(s.Yield.GPUResume, s.Yield.GPU) },
		moves:   yieldMoves},
	{id: LinkMemory, left: end{"memory_need", "engine.profile"}, right: fact("memory_budget"), unit: "bytes", adds: append([]string{"cache.memory"}, memoryKnobs...),
		measure: func(s *Settings, f *Facts) (numbers, bool) {
			need, known := f.sum(func(e EngineFacts) int64 { return e.Need })
			return numbers{need + cacheBytes(s), f.Budget, !known || f.Budget == 0}, true
		},
		moves: memoryMoves},
	{id: LinkGPUMemory, left: end{"gpu_need", "engine.profile"}, right: fact("gpu_working_set"), unit: "bytes", adds: memoryKnobs,
		measure: func(_ *Settings, f *Facts) (numbers, bool) {
			need, known := f.sum(func(e EngineFacts) int64 { return e.GPU })
			return numbers{need, f.WorkingSet, !known}, f.WorkingSet > 0
		},
		moves: gpuMoves},
}

// yieldMoves are those of the two that stay within their ranges.
func yieldMoves(_ *Settings, _ *Facts, n numbers) []Move {
	var moves []Move
	if n.left < 100 {
		moves = append(moves, to("yield.gpu", n.left+1))
	}
	if n.right > 1 {
		moves = append(moves, to("yield.gpu_resume", n.right-1))
	}
	return moves
}

// memoryKnobs are what memory depends on beside the profile.
var memoryKnobs = []string{"engine.model", "engine.flags", "roles.rerank.model", "roles.rerank.flags", "roles.chat.model", "roles.chat.flags"}

// Bound is what a knob must not pass.
type Bound struct {
	Link Link   `json:"link"`
	Name string `json:"name"`           // as Side.Name
	Knob string `json:"knob,omitempty"` // to be raised with it; empty where it is a fact
}

// Bounds are what the knob named key is bounded by: what to raise with it.
func Bounds(key string) []Bound {
	var bounds []Bound
	for _, l := range links {
		if l.left.knob == key || slices.Contains(l.adds, key) {
			bounds = append(bounds, Bound{Link: l.id, Name: l.right.name, Knob: l.right.knob})
		}
	}
	return bounds
}

// roleSlots is the link between the permits of a role beside embedding and the
// slots of its engine.
func roleSlots(id Link, role upstream.Role) link {
	prefix := "roles." + role.String() + "."
	return link{id: id, left: knob(prefix + "executing"), right: end{"-np", prefix + "flags"}, unit: "requests",
		measure: func(s *Settings, f *Facts) (numbers, bool) {
			e, ours := f.Engines[role]
			n, _ := compare(s.Roles.Of(role).Executing, e.Slots)
			return n, ours
		},
		moves: func(s *Settings, f *Facts, n numbers) []Move {
			return []Move{slotsFor(n.left, prefix+"flags", s.Roles.Of(role).Flags, f.Engines[role]), to(prefix+"executing", n.right)}
		}}
}

// sum adds up what all engines of ours take; false when one is not known.
func (f *Facts) sum(of func(EngineFacts) int64) (total int64, known bool) {
	known = true
	for _, e := range f.Engines {
		total += of(e)
		known = known && e.Need > 0
	}
	return total, known
}

// input is the longest input that e is given, tokens; 0 = not known.
func (s *Settings) input(e EngineFacts) int {
	limit := e.Input()
	if s.Engine.LongestInput > 0 && limit > 0 {
		limit = min(limit, s.Engine.LongestInput)
	}
	return limit
}

func cacheBytes(s *Settings) int64 { return int64(s.Cache.Memory) << 20 }

func to(key string, value int64) Move { return Move{Knob: key, Value: strconv.FormatInt(value, 10)} }

// flagValue is a flag of llama-server and its value.
type flagValue struct {
	name  string
	value int64
}

// slotsFor is the flags with which an engine has n slots, each as long as now.
func slotsFor(n int64, key string, flags []string, e EngineFacts) Move {
	values := []flagValue{{"-np", n}}
	if e.Context > 0 && !e.Shared {
		values = append(values, flagValue{"-c", n * int64(e.slot())})
	}
	return Move{Knob: key, Value: listText(withFlags(flags, values))}
}

// contextFor is the context with which each slot takes n tokens.
func contextFor(n int64, e EngineFacts) int64 {
	if e.Shared {
		return n
	}
	return n * int64(e.Slots)
}

// pieceFor is the flags with which n tokens are computed in one piece.
func pieceFor(n int64, s *Settings, f *Facts) Move {
	return engineFlags(s, flagValue{"-ub", n}, flagValue{"-b", max(n, int64(f.Engines[upstream.RoleEmbed].Batch))})
}

// engineFlags is engine.flags with these values in it.
func engineFlags(s *Settings, values ...flagValue) Move {
	return Move{Knob: "engine.flags", Value: listText(withFlags(s.Engine.Flags, values))}
}

// longFlags are the other names of the flags that moves set.
var longFlags = map[string]string{"-np": "--parallel", "-c": "--ctx-size", "-b": "--batch-size", "-ub": "--ubatch-size"}

// withFlags is flags with each of values in it once, at the end, where it wins.
func withFlags(flags []string, values []flagValue) []string {
	for _, v := range values {
		var kept []string
		for i := 0; i < len(flags); i++ {
			if flags[i] == v.name || flags[i] == longFlags[v.name] {
				i++ // its value
				continue
			}
			kept = append(kept, flags[i])
		}
		flags = append(kept, v.name, strconv.FormatInt(v.value, 10))
	}
	return flags
}

// passageMoves raise what bounds an input, where one setting does, or lower
// the passage.
func passageMoves(s *Settings, f *Facts, n numbers) []Move {
	e := f.Engines[upstream.RoleEmbed]
	lower := to("index.chunk_max", n.right)
	own := s.Engine.LongestInput > 0 && int64(s.Engine.LongestInput) < n.left
	switch engine := int64(e.Input()) < n.left; {
	case own && !engine:
		return []Move{to("engine.longest_input", n.left), lower}
	case own || (e.Trained > 0 && int64(e.Trained) < n.left):
		return []Move{lower}
	}
	var values []flagValue
	if int64(e.slot()) < n.left {
		values = append(values, flagValue{"-c", contextFor(n.left, e)})
	}
	if e.Whole && int64(e.Ubatch) < n.left {
		values = append(values, flagValue{"-ub", n.left}, flagValue{"-b", max(n.left, int64(e.Batch))})
	}
	return []Move{engineFlags(s, values...), lower}
}

// memoryMoves take less where a smaller profile is known, keep less of the
// cache where that is enough, or do without the check.
func memoryMoves(s *Settings, f *Facts, n numbers) []Move {
	moves := gpuMoves(s, f, n)
	if left := (cacheBytes(s) - (n.left - n.right)) >> 20; left >= 1 {
		moves = append([]Move{to("cache.memory", left)}, moves...)
	}
	return moves
}

func gpuMoves(_ *Settings, f *Facts, _ numbers) []Move {
	without := Move{Knob: "engine.memory_check", Value: "false"}
	if smaller := f.Engines[upstream.RoleEmbed].Smaller; smaller != "" {
		return []Move{{Knob: "engine.profile", Value: smaller}, without}
	}
	return []Move{without}
}
