package settings

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"

	"github.com/ondol-app/ondol/internal/upstream"
)

// Problem is one thing wrong with the settings. Code names the sentence in
// assets/locales; Error is the same in English for logs.
type Problem struct {
	Code string            `json:"code"` // unknown_key, bad_value, broken_chain
	Args map[string]string `json:"args"` // key, value, reason, nearest, …
	text string
}

// Error is the problem in English.
func (p Problem) Error() string { return p.text }

// ProblemsError is everything wrong with a set of settings, found at once.
type ProblemsError struct{ Problems []Problem }

// Error joins the problems.
func (e *ProblemsError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "; ")
}

// Unknown is the error for a key that is no setting; a *ProblemsError.
func Unknown(key string) error { return &ProblemsError{Problems: []Problem{unknown(key)}} }

// unknown reports a key that is no setting, with the one that was probably
// meant: the nearest by edit distance, where that is at most a third of its length.
func unknown(key string) Problem {
	nearest, best := "", len(key)/3+1
	for _, k := range knobs {
		candidates := []string{k.Key}
		if i := strings.LastIndexByte(k.Key, '.'); i >= 0 {
			candidates = append(candidates, k.Key[i+1:]) // written without its section
		}
		for _, c := range candidates {
			if d := levenshtein.ComputeDistance(key, c); d < best {
				nearest, best = k.Key, d
			}
		}
	}
	p := Problem{Code: "unknown_key", Args: map[string]string{"key": key, "nearest": nearest}}
	p.text = fmt.Sprintf("%s is no setting", key)
	if nearest != "" {
		p.Code = "unknown_key_near"
		p.text += fmt.Sprintf("; did you mean %s?", nearest)
	}
	return p
}

func bad(key string, value any, reason error) Problem {
	return Problem{
		Code: "bad_value",
		Args: map[string]string{"key": key, "value": fmt.Sprint(value), "reason": reason.Error()},
		text: fmt.Sprintf("%s = %v: %v", key, value, reason),
	}
}

// check is what single values must be beyond their type.
func (s *Settings) check() []Problem {
	var problems []Problem
	if err := loopback(s.Listen); err != nil {
		problems = append(problems, bad("listen", s.Listen, err))
	}
	switch s.Log {
	case "debug", "info", "warn", "error":
	default:
		problems = append(problems, bad("log", s.Log, fmt.Errorf("one of debug, info, warn, error is needed")))
	}
	for _, origin := range s.AllowedOrigins {
		if origin == "*" || !strings.Contains(origin, "://") {
			problems = append(problems, bad("allowed_origins", origin, fmt.Errorf("an origin such as app://obsidian.md is needed; there is no \"any\"")))
		}
	}
	if s.Index.ChunkMin > s.Index.ChunkMax {
		problems = append(problems, broken("index.chunk_min", s.Index.ChunkMin, "index.chunk_max", s.Index.ChunkMax, "≤", "index.chunk_min"))
	}
	for _, role := range upstream.Roles() {
		problems = append(problems, s.Roles.Of(role).check(role)...)
	}
	return problems
}

// loopback accepts 127.0.0.1:PORT, [::1]:PORT and localhost:PORT: whoever
// reaches the endpoint may use it, so it is never offered to a network.
func loopback(listen string) error {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("an address such as 127.0.0.1:7434 is needed")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("a port from 0 to 65535 is needed")
	}
	if host == "localhost" {
		return nil
	}
	if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
		return fmt.Errorf("only a loopback address (127.0.0.1, [::1]) is served; nothing is offered to the network")
	}
	return nil
}
