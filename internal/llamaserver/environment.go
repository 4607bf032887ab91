package llamaserver

import "strings"

// passed are the variables the engine gets. LLAMA_… ones are left out on
// purpose: they are flags in disguise, and its numbers would then depend on
// the shell the app was started from. So are keys and tokens meant for others.
var passed = []string{"HOME", "PATH", "TMPDIR", "USER", "LOGNAME", "LANG", "LD_LIBRARY_PATH"}

var passedPrefixes = []string{"LC_", "GGML_", "OMP_"}

func environment(all []string) []string {
	var env []string
	for _, entry := range all {
		name, _, _ := strings.Cut(entry, "=")
		if keeps(name) {
			env = append(env, entry)
		}
	}
	return env
}

func keeps(name string) bool {
	for _, p := range passed {
		if name == p {
			return true
		}
	}
	for _, p := range passedPrefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}
