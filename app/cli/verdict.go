package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ondol-app/ondol/internal/engines"
)

// showCandidate is the engine beside the one in service: what it is, what has
// become of it, and every figure of its verdict.
func (c *commands) showCandidate(s engines.State) {
	say := c.term.words.Say
	var rows [][]cell
	add := func(key, text string, style style) {
		if text != "" {
			rows = append(rows, []cell{{text: say(key), style: dim}, {text: text, style: style}})
		}
	}
	k := s.Candidate
	if k == nil {
		add("candidate.title", say("candidate.none"), plain)
	} else {
		add("candidate.title", setupLine(k.Model, k.Setup), plain)
		state := say("candidate.outcome." + k.Outcome.String())
		if s.Phase != engines.Idle && s.Phase != engines.Checked {
			state = c.candidateStep(s)
		}
		add("candidate.state", state, outcomeStyle(k.Outcome))
		add("candidate.since", local(k.At), plain)
		if k.Problem != nil {
			add("candidate.problem", c.engineProblem(k.Problem), red)
		}
	}
	if s.Probation != nil {
		add("candidate.probation", local(*s.Probation), plain)
	}
	if e := s.Earlier; e != nil && time.Now().Before(e.Until) {
		add("candidate.earlier", say("candidate.earlier.until", "engine", setupLine("", e.Setup), "time", local(e.Until)), plain)
	}
	c.term.table(rows)
	if k != nil && k.Verdict != nil {
		c.showVerdict(k.Verdict)
	}
}

// setupLine is what an engine is run from, as far as it is set.
func setupLine(model string, s engines.Setup) string {
	if model == "" {
		model = s.Model
	}
	return strings.Join(strings.Fields(strings.Join(append([]string{model, s.Profile}, s.Flags...), " ")), " ")
}

func outcomeStyle(o engines.Outcome) style {
	switch o {
	case engines.Passed, engines.Promoted, engines.Proved:
		return green
	case engines.Refused, engines.Failed, engines.RolledBack:
		return red
	}
	return plain
}

func (c *commands) showVerdict(v *engines.Verdict) {
	say := c.term.words.Say
	c.term.line()
	c.term.line(say("candidate.texts", "texts", v.Texts, "searches", v.Searches, "requests", v.Requests, "seconds", fmt.Sprintf("%.1f", float64(v.TookMS)/1000)))
	rows := [][]cell{c.head("figure", "live", "candidate")}
	for _, figure := range []struct {
		name string
		of   func(engines.Subject) string
	}{
		{"model", func(s engines.Subject) string { return s.Model }},
		{"version", func(s engines.Subject) string { return s.Version }},
		{"dimension", func(s engines.Subject) string { return strconv.Itoa(s.Dimension) }},
		{"load", func(s engines.Subject) string { return inSeconds(s.LoadMS) }},
		{"memory", func(s engines.Subject) string { return resident(s.RSSBytes) }},
		{"short", func(s engines.Subject) string { return inSeconds(s.P50MS) }},
		{"medium", func(s engines.Subject) string { return inSeconds(s.MediumP50MS) }},
		{"high", func(s engines.Subject) string { return inSeconds(s.P95MS) }},
		{"throughput", func(s engines.Subject) string { return figureOr(s.TokensPerS, "%.0f") }},
		{"fingerprint", func(s engines.Subject) string { return s.Fingerprint }},
	} {
		rows = append(rows, []cell{{text: say("candidate.figure." + figure.name), style: dim}, {text: figure.of(v.Live)}, {text: figure.of(v.Candidate)}})
	}
	c.term.table(rows)
	c.term.line()
	c.showFindings(v.Findings)
	for _, reason := range v.Reasons {
		c.term.line(c.term.paint(red, clean(reason.Sentence(say))))
	}
}

func (c *commands) showFindings(findings []engines.Finding) {
	say := c.term.words.Say
	rows := [][]cell{c.head("check", "value", "limit", "result")}
	for _, f := range findings {
		result := cell{text: say("candidate.result.passed"), style: green}
		switch {
		case !f.Pass:
			result = cell{text: say("candidate.result.failed"), style: red}
		case f.Bound == engines.NoBound:
			result = cell{text: say("candidate.result.told"), style: dim}
		}
		if f.Detail != "" {
			result.text += " (" + c.detail(f.Detail) + ")"
		}
		rows = append(rows, []cell{{text: say("candidate.check." + f.Check.String())}, {text: checkValue(f.Check, f.Value), right: true}, {text: limit(f), right: true}, result})
	}
	c.term.table(rows)
}

// detail is why a check did not pass, or was not made.
func (c *commands) detail(code string) string {
	for _, key := range []string{"candidate.detail.", "event.invalid."} {
		if text, ok := c.term.words.Lookup(key + code); ok {
			return text
		}
	}
	return code
}

// checkValue is a figure in the unit of its check.
func checkValue(check engines.Check, x *float64) string {
	switch {
	case x == nil:
		return "–"
	case check == engines.CheckStart:
		return inSeconds(x)
	case check == engines.CheckDimension:
		return fmt.Sprintf("%.0f", *x)
	case check == engines.CheckValid, check == engines.CheckTrial, check == engines.CheckOverlap:
		return fmt.Sprintf("%.1f %%", *x*100)
	case check == engines.CheckSpeed:
		return fmt.Sprintf("%.2f ×", *x)
	}
	return fmt.Sprintf("%.4f", *x)
}

func limit(f engines.Finding) string {
	text := checkValue(f.Check, f.Limit)
	switch f.Bound {
	case engines.AtLeast:
		return "≥ " + text
	case engines.AtMost:
		return "≤ " + text
	case engines.Exactly:
		return "= " + text
	}
	return "–"
}

func inSeconds(ms *float64) string {
	if ms == nil {
		return "–"
	}
	return fmt.Sprintf("%.3f s", *ms/1000)
}

func resident(bytes *int64) string {
	if bytes == nil {
		return "–"
	}
	return size(*bytes)
}

func figureOr(x *float64, format string) string {
	if x == nil {
		return "–"
	}
	return fmt.Sprintf(format, *x)
}
