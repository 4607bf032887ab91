package settings

import (
	"fmt"
	"strconv"
)

// Capacity is the chain of limits that must hold together: a knob raised
// alone only moves the bottleneck, or breaks a request half-way.
type Capacity struct {
	Permits    int // client requests executing at once
	Background int // of them, indexing

	Slots   int // of the engine (-np)
	Context int // tokens, of all slots together (-c)
	Batch   int // tokens (-b)
	Ubatch  int // tokens (-ub)

	LongestInput int // tokens; 0 = as long as the engine takes
	ChunkMax     int // tokens of one passage of a document
	Connections  int // HTTP connections to the engine
}

// ReadFlags takes slots, context and batch sizes from llama-server's flags;
// the last of a repeated flag wins, as in llama-server. A number it cannot
// read is an error; a flag that is absent leaves llama-server's own default.
func (c *Capacity) ReadFlags(flags []string) error {
	// Defaults of llama-server 0.7: one slot, 2048 and 512 tokens; its context
	// then comes from the model, which every profile overrides.
	c.Slots, c.Batch, c.Ubatch = 1, 2048, 512
	fields := map[string]*int{
		"-np": &c.Slots, "--parallel": &c.Slots,
		"-c": &c.Context, "--ctx-size": &c.Context,
		"-b": &c.Batch, "--batch-size": &c.Batch,
		"-ub": &c.Ubatch, "--ubatch-size": &c.Ubatch,
	}
	for i := 0; i < len(flags); i++ {
		name := flags[i]
		field, ok := fields[name]
		if !ok {
			continue
		}
		i++
		if i == len(flags) {
			return fmt.Errorf("engine flag %s has no value", name)
		}
		value := flags[i]
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			return fmt.Errorf("engine flag %s %s: a positive whole number is needed", name, value)
		}
		*field = n
	}
	return nil
}

// InputLimit is the longest input the engine takes: an input lives in one
// slot and is computed in one piece. Unknown (0) while the context is.
func (c Capacity) InputLimit() int {
	if c.Context == 0 || c.Slots == 0 {
		return 0
	}
	limit := min(c.Context/c.Slots, c.Ubatch)
	if c.LongestInput > 0 {
		limit = min(limit, c.LongestInput)
	}
	return limit
}

// Check names every broken link, with both numbers and the knob to turn; nil
// when the chain holds. The error is a *ProblemsError.
func (c Capacity) Check() error {
	type link struct {
		left  string
		a     int
		op    string
		right string
		b     int
		knob  string // the one whose owner most likely changed it
	}
	links := []link{
		{"admission.executing", c.Permits, "≤", "-np", c.Slots, "admission.executing"},
		{"admission.executing", c.Permits, "≤", "connections", c.Connections, "admission.executing"},
		{"admission.background", c.Background, "<", "admission.executing", c.Permits, "admission.background"},
		{"-ub", c.Ubatch, "≤", "-b", c.Batch, "engine.flags"},
	}
	if c.Context > 0 {
		links = append(links,
			link{"-b", c.Batch, "≤", "-c", c.Context, "engine.flags"},
			link{"engine.longest_input", c.LongestInput, "≤", "-c / -np", c.Context / max(c.Slots, 1), "engine.longest_input"},
			link{"index.chunk_max", c.ChunkMax, "≤", "longest input", c.InputLimit(), "index.chunk_max"},
		)
	}
	links = append(links, link{"engine.longest_input", c.LongestInput, "≤", "-ub", c.Ubatch, "engine.longest_input"})
	var problems []Problem
	for _, l := range links {
		if l.a < l.b || (l.op == "≤" && l.a == l.b) {
			continue
		}
		problems = append(problems, broken(l.left, l.a, l.right, l.b, l.op, l.knob))
	}
	if len(problems) > 0 {
		return &ProblemsError{Problems: problems}
	}
	return nil
}

func broken(left string, a int, right string, b int, op, knob string) Problem {
	p := Problem{Code: "broken_chain", Args: map[string]string{
		"left": left, "left_value": strconv.Itoa(a), "op": op, "right": right, "right_value": strconv.Itoa(b), "knob": knob,
	}}
	p.text = fmt.Sprintf("%s (%d) must be %s %s (%d); change %s", left, a, op, right, b, knob)
	return p
}
