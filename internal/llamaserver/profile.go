package llamaserver

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ondol-app/ondol/internal/upstream"
)

// Profile is a named set of llama-server flags.
type Profile struct {
	Name  string
	Flags []string
	Role  upstream.Role // what the engine is run for; empty means embed; see RoleProfile
}

// Profiles are the built-in ones, largest machine first.
//
// -ngl 34 keeps the first blocks of a 36-block model off the GPU: in one of
// them a feed-forward activation overflows half precision and turns every
// later vector into NaN.
func Profiles() []Profile {
	flags := func(s string) []string { return strings.Fields(s) }
	return []Profile{
		{Name: "reference", Flags: flags("--embeddings --pooling last -ngl 34 -c 131072 -b 32768 -ub 32768 -np 4")},
		{Name: "standard", Flags: flags("--embeddings --pooling last -ngl 34 -c 65536 -b 8192 -ub 8192 -np 4")},
		{Name: "small", Flags: flags("--embeddings --pooling last -ngl 34 -c 16384 -b 4096 -ub 4096 -np 2")},
		// The starter model names its pooling itself.
		{Name: "starter", Flags: flags("--embeddings -ngl 34 -c 32768 -b 8192 -ub 8192 -np 4")},
	}
}

// ProfileByName finds a built-in profile.
func ProfileByName(name string) (Profile, error) {
	var names []string
	for _, p := range Profiles() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Profile{}, fmt.Errorf("engine profile %q is unknown: use one of %s", name, strings.Join(names, ", "))
}

// reserved flags are ours: where the engine listens, who may ask it, and what it loads.
var reserved = []string{
	"--host", "--port", "--reuse-port", "--api-key", "--api-key-file", "--api-prefix", "-m", "--model", "-mu", "--model-url",
	"-hf", "-hfr", "--hf-repo", "-hff", "--hf-file", "-a", "--alias", "--ssl-key-file", "--ssl-cert-file",
	"--models-dir", "--models-preset", "-h", "--help", "--usage", "--version", "--sleep-idle-seconds",
}

// ReservedFlagError refuses a flag that is ours to set.
type ReservedFlagError struct{ Flag string }

func (e *ReservedFlagError) Error() string {
	return "engine flag " + e.Flag + " is set by Ondol itself: remove it from the engine's flags"
}

func checkFlags(flags []string) error {
	for _, f := range flags {
		if slices.Contains(reserved, f) {
			return &ReservedFlagError{Flag: f}
		}
	}
	return nil
}

// flagValue is the value of the last flag with one of the names; the last of a
// repeated flag wins in llama-server too.
func flagValue(flags []string, names ...string) (string, bool) {
	for i := len(flags) - 2; i >= 0; i-- {
		if slices.Contains(names, flags[i]) {
			return flags[i+1], true
		}
	}
	return "", false
}

// flagNumber is flagValue as a number, or otherwise.
func flagNumber(flags []string, otherwise int, names ...string) int {
	value, found := flagValue(flags, names...)
	n, err := strconv.Atoi(value)
	if !found || err != nil {
		return otherwise // llama-server will refuse what is no number
	}
	return n
}
