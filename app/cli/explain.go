package cli

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ondol-app/ondol/assets"
	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/engines"
	"github.com/ondol-app/ondol/internal/settings"
)

// explain turns an error into sentences and what a program reads; more is
// false when it does not know the error.
func (c *commands) explain(err error, code int, refused *refusal, lines *[]string) (int, bool) {
	words := c.term.words
	if e, ok := errors.AsType[*complaint](err); ok {
		refused.Error.Code = e.code
		*lines = append(*lines, words.Say(e.key, e.pairs...))
		return code, true
	}
	if e, ok := errors.AsType[*settings.ProblemsError](err); ok {
		refused.Error.Code, refused.Error.Message, refused.Error.Problems = "settings", e.Error(), e.Problems
		*lines = append(*lines, settingsLines(e.Problems, words)...)
		return exitUsage, true
	}
	if e, ok := errors.AsType[*RunningError](err); ok {
		refused.Error.Code = "running"
		*lines = append(*lines, words.Say("serve.running", "pid", e.PID))
		return code, true
	}
	if e, ok := errors.AsType[*StartError](err); ok {
		if text, known := words.Lookup("start."+e.Code, pairsOf(e.Args)...); known {
			refused.Error.Code = e.Code
			*lines = append(*lines, text)
			return code, true
		}
	}
	if errors.Is(err, control.ErrNotRunning) {
		return c.explain(errNotRunning.err, exitNotRunning, refused, lines)
	}
	if e, ok := errors.AsType[*control.Error](err); ok {
		if len(e.Problems) > 0 { // as if the file had been changed without the app
			return c.explain(&settings.ProblemsError{Problems: e.Problems}, code, refused, lines)
		}
		refused.Error.Code, refused.Error.Message, refused.Error.Remedy, refused.Error.Findings = e.Code, e.Message, e.Remedy, e.Findings
		*lines = append(*lines, refusalLines(e, words)...)
		for _, f := range e.Findings {
			*lines = append(*lines, "  "+words.Say("candidate.check."+f.Check.String())+": "+checkValue(f.Check, f.Value)+" ("+limit(f)+")")
		}
		if e.Status == http.StatusBadRequest {
			code = exitUsage
		}
		return code, true
	}
	return code, false
}

// refusalLines are the sentences of what the app refused and of what helps:
// those of the code where the app sent what belongs into them, else its own.
func refusalLines(e *control.Error, words assets.Words) []string {
	pairs := append(inWords(e.Args, words), pairsOf(e.Args)...) // the first of a name counts
	name := e.Code
	switch {
	case len(e.Args) == 0:
		name = ""
	case e.Code == control.CodeFolderOverlaps && e.Args["inside"] == "true":
		name += "_inside"
	case e.Code == control.CodeFolderOverlaps:
		name += "_around"
	case e.Code == control.CodeFolderRefused:
		name += "_" + e.Args["reason"]
	case e.Code == control.CodeUnknownModel:
		name += "_" + e.Args["reason"]
	case e.Args["fatal"] == "true":
		name += "_fatal"
	case e.Code == control.CodeNotFound:
		name += "_" + e.Args["kind"]
	case (e.Code == control.CodeMemoryShort || e.Code == control.CodeGPUMemoryShort) && e.Args["smaller"] == "":
		name += "_any"
	case e.Code == control.CodeModelBroken:
		pairs = append(pairs, "why", words.Say("model.warning."+e.Args["warning"], pairs...))
	case e.Code == engines.CodeImpossible:
		pairs = append([]any{"message", impossible(e.Args, words)}, pairs...)
	case e.Code == control.CodeEngineUnavailable:
		if state, ok := words.Lookup("engine.state." + e.Args["state"]); ok {
			pairs = []any{"state", state}
		}
	}
	text, known := words.Lookup("refusal."+name, pairs...)
	if !known {
		if text, known = words.Lookup("error."+e.Code, "message", clean(e.Message)); !known {
			text = words.Say("error.failed", "message", clean(e.Message))
		}
	}
	lines := []string{text}
	remedy, known := words.Lookup("refusal.remedy."+name, pairs...)
	if !known {
		remedy = clean(e.Remedy)
	}
	if remedy != "" {
		lines = append(lines, words.Say("error.remedy", "remedy", remedy))
	}
	return lines
}

// inWords are the arguments that are codes or figures of the app, in words.
func inWords(args map[string]string, words assets.Words) []any {
	var pairs []any
	if phase, ok := words.Lookup("candidate.phase." + args["phase"]); ok {
		pairs = append(pairs, "phase", phase)
	}
	if kept := args["kept"]; kept != "" {
		pairs = append(pairs, "kept", span(words.Say, kept))
	}
	return pairs
}

// impossible is what is wrong with a candidate's setup.
func impossible(args map[string]string, words assets.Words) string {
	problem := args["problem"]
	if text, ok := words.Lookup("impossible."+problem, pairsOf(args)...); ok {
		return text
	}
	if problem == "" {
		return clean(args["message"])
	}
	return settingsLine(problem, args, words)
}

// settingsLines are the sentences of everything wrong with the settings.
func settingsLines(problems []settings.Problem, words assets.Words) []string {
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = settingsLine(p.Code, p.Args, words)
	}
	return lines
}

func settingsLine(code string, args map[string]string, words assets.Words) string {
	if code == settings.CodeBrokenChain {
		return linkLine(args, words)
	}
	pairs := pairsOf(args)
	if needed, ok := words.Lookup("settings.need."+args["need"], pairs...); ok {
		pairs = append([]any{"reason", needed}, pairs...) // the first of a name counts
	}
	return words.Say("settings."+code, pairs...)
}

// linkLine is a link that would break: the two numbers, why that must not be,
// and what to change with it.
func linkLine(args map[string]string, words assets.Words) string {
	pairs := pairsOf(args)
	for _, side := range []string{"left", "right"} {
		if name, ok := words.Lookup("chain.side." + args[side]); ok {
			pairs = append([]any{side, name}, pairs...)
		}
	}
	text := words.Say("settings.broken_chain", append([]any{"why", words.Say("chain." + args["link"])}, pairs...)...)
	if args["knob"] != "" {
		text += " " + words.Say("settings.move", pairs...)
	}
	if args["instead"] != "" {
		text += words.Say("settings.move_instead", pairs...)
	}
	return text
}

func pairsOf(args map[string]string) []any {
	var pairs []any
	for name, value := range args {
		pairs = append(pairs, name, clean(value))
	}
	return pairs
}

// flagError is the usage error of a flag that could not be read.
func (c *commands) flagError(cmd *cobra.Command, err error) error {
	e := &usageError{key: "error.failed", pairs: []any{"message", clean(err.Error())}, try: cmd.CommandPath()}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name := "--" + unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() != "" {
			name = "-" + unknown.GetSpecifiedName()
		}
		e.key, e.pairs = "usage.unknown_flag", []any{"name", clean(name)}
	}
	if lacks, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		e.key, e.pairs = "usage.flag_value", []any{"name", "--" + lacks.GetFlag().Name}
	}
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		want := c.term.words.Say("usage.want.number")
		if bad.GetFlag().Value.Type() == "bool" {
			want = "true, false"
		}
		e.key, e.pairs = "usage.bad_value", []any{"name", "--" + bad.GetFlag().Name, "value", clean(bad.GetValue()), "want", want}
	}
	return e
}

// dashed lets values begin with a dash where no flag can: a number, and the
// values of "config set". They are moved behind "--" together with what follows
// or, of a number, alone, being the last argument; so the order stays.
func dashed(args []string) []string {
	var words []string // that are no flags
	for i, arg := range args {
		if arg == "--" {
			return args
		}
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			words = append(words, arg)
			if len(words) == 2 && words[0] == "config" && words[1] == "set" {
				return afterSet(args[:i+1], args[i+1:])
			}
			continue
		}
		number := len(arg) > 1 && arg[1] >= '0' && arg[1] <= '9'
		after := i > 0 && strings.HasPrefix(args[i-1], "-") && args[i-1] != "--json" // a flag's own value
		if number && !after {
			rest := append([]string{}, args[:i]...)
			return append(append(append(rest, args[i+1:]...), "--"), arg)
		}
	}
	return args
}

// afterSet puts the flags that "config set" itself has before "--", and the
// settings and values behind it. A flag's name is one of its own only where a
// setting may stand: as a value it is a value.
func afterSet(set, rest []string) []string {
	if slices.Contains(rest, "--") {
		return append(slices.Clone(set), rest...)
	}
	own, pairs := slices.Clone(set), []string{"--"}
	for _, arg := range rest {
		if len(pairs)%2 == 1 && (arg == "--json" || arg == "--help" || arg == "-h") {
			own = append(own, arg)
			continue
		}
		pairs = append(pairs, arg)
	}
	return append(own, pairs...)
}
