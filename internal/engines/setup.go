package engines

import (
	"slices"
	"strconv"
)

// Setup is what an engine is run from: the owner's settings for it, where
// empty values are looked for or chosen.
type Setup struct {
	Server  string   `json:"server,omitempty"`  // path of llama-server
	Model   string   `json:"model,omitempty"`   // path of the GGUF file
	Profile string   `json:"profile,omitempty"` // set of flags
	Flags   []string `json:"flags,omitempty"`   // after the profile's, so that they win
}

// Equal says whether both run the same engine.
func (s Setup) Equal(o Setup) bool {
	return s.Server == o.Server && s.Model == o.Model && s.Profile == o.Profile && slices.Equal(s.Flags, o.Flags)
}

// Order is what a candidate is to differ in from the live engine; what is
// absent stays as the live engine has it.
type Order struct {
	Server     string   `json:"server,omitempty"` // another build of llama-server
	Model      string   `json:"model,omitempty"`  // the owner's flags are for the old one, and are left out
	Profile    string   `json:"profile,omitempty"`
	Flags      []string `json:"flags,omitempty"`       // added after the others
	ClearFlags bool     `json:"clear_flags,omitempty"` // leave out the owner's flags of now
	NGL        *int     `json:"ngl,omitempty"`         // layers on the GPU

	InPlace bool `json:"in_place,omitempty"` // stop the live engine for the trial, where memory does not hold two
	Quick   bool `json:"quick,omitempty"`    // a smaller trial

	Promote *Promotion `json:"promote,omitempty"` // as soon as nothing speaks against it, so; nil = when somebody says so
}

// Apply is the setup that the order asks for.
func (o Order) Apply(live Setup) Setup {
	s := Setup{Server: live.Server, Model: live.Model, Profile: live.Profile, Flags: slices.Clone(live.Flags)}
	if o.Server != "" {
		s.Server = o.Server
	}
	if o.Model != "" && o.Model != live.Model {
		s.Model, s.Profile, s.Flags = o.Model, "", nil
	}
	if o.Profile != "" {
		s.Profile = o.Profile
	}
	if o.ClearFlags {
		s.Flags = nil
	}
	s.Flags = append(s.Flags, o.Flags...)
	if o.NGL != nil {
		s.Flags = append(without(s.Flags, "-ngl", "--gpu-layers", "--n-gpu-layers"), "-ngl", strconv.Itoa(*o.NGL))
	}
	return s
}

// without leaves a flag and its value out.
func without(flags []string, names ...string) []string {
	var kept []string
	for i := 0; i < len(flags); i++ {
		if slices.Contains(names, flags[i]) {
			i++
			continue
		}
		kept = append(kept, flags[i])
	}
	return kept
}
