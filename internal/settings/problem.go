package settings

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
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

// CodeBrokenChain is the code of a link that would not hold.
const CodeBrokenChain = "broken_chain"

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

// problem is a broken link as a reason to refuse. What is to be moved with
// changed is knob and value, what mends it otherwise instead and instead_value;
// either may be missing. Numbers of bytes are written for people.
func (c Check) problem(changed []string) Problem {
	number := func(n int64) string {
		if c.Unit == "bytes" {
			return strconv.FormatFloat(float64(n)/(1<<30), 'f', 1, 64) + " GiB"
		}
		return strconv.FormatInt(n, 10)
	}
	p := Problem{Code: CodeBrokenChain, Args: map[string]string{
		"link": c.Link.String(), "op": c.Op, "unit": c.Unit, "left": c.Left.Name, "left_value": number(c.Left.Value),
		"right": c.Right.Name, "right_value": number(c.Right.Value),
	}}
	p.text = fmt.Sprintf("%s (%s) must be %s %s (%s)", c.Left.Name, p.Args["left_value"], c.Op, c.Right.Name, p.Args["right_value"])
	moves := slices.Clone(c.Moves)
	if !c.Link.Memory() { // of which the last is to do without the check
		slices.SortStableFunc(moves, func(a, b Move) int { // what was not touched is what was forgotten
			return cmp.Compare(slices.Index(changed, a.Knob), slices.Index(changed, b.Knob))
		})
	}
	for i, m := range moves[:min(len(moves), 2)] {
		name, word := "knob", "; set "
		value := "value"
		if i == 1 {
			name, value, word = "instead", "instead_value", ", or "
		}
		p.Args[name], p.Args[value] = m.Knob, m.Value
		p.text += fmt.Sprintf("%s%s to %s", word, m.Knob, m.Value)
	}
	return p
}

// need is what a value must be. Its code names a sentence of assets/locales
// (settings.need.CODE), args are its placeholders, text is it in English.
type need struct {
	code string
	args map[string]string
	text string
}

func (n *need) Error() string { return n.text }

func needs(code, text string, pairs ...string) *need {
	n := &need{code: code, args: map[string]string{}, text: text}
	for i := 0; i+1 < len(pairs); i += 2 {
		n.args[pairs[i]] = pairs[i+1]
	}
	return n
}

func oneOf(choices ...string) *need {
	list := strings.Join(choices, ", ")
	return needs("one_of", "one of "+list+" is needed", "choices", list)
}

// NoChoice is the error for a value of the knob named key that is none of its
// choices, where only the caller knows them; a *ProblemsError.
func NoChoice(key, value string, choices ...string) error {
	return &ProblemsError{Problems: []Problem{bad(key, value, oneOf(choices...))}}
}

// bad reports a value. Where the reason is a need, its code and placeholders
// are among the arguments.
func bad(key string, value any, reason error) Problem {
	p := Problem{
		Code: "bad_value",
		Args: map[string]string{"key": key, "value": fmt.Sprint(value), "reason": reason.Error()},
		text: fmt.Sprintf("%s = %v: %v", key, value, reason),
	}
	if n, ok := errors.AsType[*need](reason); ok {
		p.Args["need"] = n.code
		maps.Copy(p.Args, n.args)
	}
	return p
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
		problems = append(problems, bad("log", s.Log, oneOf("debug", "info", "warn", "error")))
	}
	for _, origin := range s.AllowedOrigins {
		if !isOrigin(origin) {
			problems = append(problems, bad("allowed_origins", origin, needs("origin", "an origin such as app://obsidian.md is needed; there is no \"any\"")))
		}
	}
	problems = append(problems, s.Models.check()...)
	for _, role := range upstream.Roles() {
		problems = append(problems, s.Roles.Of(role).check(role)...)
	}
	return problems
}

// isOrigin accepts scheme://host, with a port or without, and scheme://* of
// what is no web page.
func isOrigin(origin string) bool {
	scheme, host, _ := strings.Cut(strings.ToLower(strings.TrimSuffix(origin, "/")), "://")
	if host == "*" {
		return scheme != "" && scheme != "http" && scheme != "https"
	}
	u, err := url.Parse(scheme + "://" + host)
	return err == nil && scheme != "" && host != "" && u.Scheme == scheme && u.Host == host && !strings.Contains(host, "*")
}

// loopback accepts 127.0.0.1:PORT, [::1]:PORT and localhost:PORT: whoever
// reaches the endpoint may use it, so it is never offered to a network.
func loopback(listen string) error {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return needs("address", "an address such as 127.0.0.1:7434 is needed")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return needs("port", "a port from 0 to 65535 is needed")
	}
	if host == "localhost" {
		return nil
	}
	if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
		return needs("loopback", "only a loopback address (127.0.0.1, [::1]) is served; nothing is offered to the network")
	}
	return nil
}
