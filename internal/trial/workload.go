package trial

import "time"

// Size is a length of input.
type Size string

const (
	Short  Size = "short"
	Medium Size = "medium"
)

func (s Size) String() string { return string(s) }

// Tokens is how many tokens an input of that size has, special ones included.
func (s Size) Tokens() int {
	if s == Short {
		return 16
	}
	return 2562
}

// Step is one part of the workload: requests of one size at one concurrency.
type Step struct {
	Concurrency int  `json:"concurrency"`
	Size        Size `json:"size"`
	Requests    int  `json:"requests"`
}

// Steps is the workload of one path, in order: the contract's 38 requests, or
// 9 of them when it has to be quick.
func Steps(quick bool) []Step {
	if quick {
		return []Step{{1, Short, 2}, {1, Medium, 1}, {4, Short, 4}, {4, Medium, 2}}
	}
	return []Step{
		{1, Short, 4}, {1, Medium, 2},
		{4, Short, 8}, {4, Medium, 4},
		{10, Short, 10}, {10, Medium, 10},
	}
}

// Deadlines of a client.
const (
	DefaultDeadline = 240 * time.Second
	MinDeadline     = time.Millisecond
	MaxDeadline     = time.Hour

	// FullDeadline covers everything that the gateway may take: 120 s of
	// waiting and 300 s of work.
	FullDeadline = 420 * time.Second
)

// Options are a person's choices.
type Options struct {
	Quick    bool          // a smaller workload
	Distinct bool          // no two inputs have anything in common; else those of a size share all but their beginning
	Deadline time.Duration // of every request; 0 = DefaultDeadline
}
