package models

import "slices"

// Machine is the memory there is, bytes.
type Machine struct {
	Total      int64 `json:"total"`       // of the machine, or of the part of it we may use
	WorkingSet int64 `json:"working_set"` // of it, what the GPU may reach at once; 0 = none is told apart
}

// Budget is what an engine may take: a quarter of the memory, 4 GiB at most,
// is left to the system and to other programs.
func (m Machine) Budget() int64 { return m.Total - min(m.Total/4, 4<<30) }

// Fits reports whether the machine has what is needed.
func (m Machine) Fits(n Need) bool {
	return n.Total <= m.Budget() && (m.WorkingSet == 0 || n.GPU <= m.WorkingSet)
}

// MetalWorkingSet estimates Metal's recommendedMaxWorkingSetSize, which only Metal
// tells for sure, from the memory of an Apple Silicon machine: llama.cpp logs
// 5.3 GiB on machines of 8, 10.7 on 16, 21.3 on 32, and 27 on 36, 48 on 64, 72
// on 96, which is two thirds below 36 GiB and three quarters from there.
func MetalWorkingSet(total int64) int64 {
	if total < 36<<30 {
		return total / 3 * 2
	}
	return total / 4 * 3
}

// Profile is a named set of engine flags.
type Profile struct {
	Name  string
	Flags []string
}

// Verdict says whether a model fits the machine with a profile's flags.
type Verdict struct {
	Profile    string `json:"profile"`
	Fits       bool   `json:"fits"`
	Need       Need   `json:"need"`
	Budget     int64  `json:"budget"`      // bytes an engine may take here
	WorkingSet int64  `json:"working_set"` // bytes of it the GPU may reach; 0 = not told apart
	Smaller    string `json:"smaller"`     // the largest profile that would fit; empty when this one does or none would
}

// Weigh compares what the model needs with profile's flags to the machine.
// others are the profiles that may be offered instead, largest first; build is
// Estimate's.
func (m *Model) Weigh(machine Machine, profile Profile, others []Profile, build int) Verdict {
	estimate := func(flags []string) Need {
		if machine.WorkingSet == 0 { // no GPU: llama-server then leaves every layer on the CPU
			flags = append(slices.Clone(flags), "-ngl", "0")
		}
		return m.Estimate(flags, build)
	}
	v := Verdict{Profile: profile.Name, Need: estimate(profile.Flags), Budget: machine.Budget(), WorkingSet: machine.WorkingSet}
	if v.Fits = machine.Fits(v.Need); v.Fits {
		return v
	}
	for _, other := range others {
		need := estimate(m.FlagsFor(other.Flags))
		if need.Total < v.Need.Total && machine.Fits(need) {
			v.Smaller = other.Name
			return v
		}
	}
	return v
}
