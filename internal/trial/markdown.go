package trial

import (
	"fmt"
	"strings"
	"time"
)

// Say is a sentence in the reader's language: verify.… of assets/locales.
type Say func(key string, pairs ...any) string

// Columns are the keys of the table's heads, in order; see Cells.
func Columns() []string {
	return []string{
		"verify.column.path", "verify.column.concurrency", "verify.column.size", "verify.column.requests", "verify.column.ok",
		"verify.column.finite", "verify.column.dimension", "verify.column.norm", "verify.column.elapsed", "verify.column.median",
		"verify.column.high", "verify.column.wait", "verify.column.throughput",
	}
}

// Cells is a row as people read it: seconds, and a dash for what was not measured.
func (r Row) Cells(say Say) []string {
	norm := dash
	if r.NormMin != nil && r.NormMax != nil {
		norm = fmt.Sprintf("%.6f … %.6f", *r.NormMin, *r.NormMax)
	}
	return []string{
		say("verify.path." + r.Path), decimal(r.Concurrency), say("verify.size."+r.Size.String(), "tokens", r.Tokens),
		decimal(r.Requests), decimal(r.OK), decimal(r.Finite), decimal(r.Dimension), norm, seconds(&r.ElapsedMS),
		seconds(r.P50MS), seconds(r.P95MS), seconds(r.LongestWaitMS), fmt.Sprintf("%.2f", r.RequestsPerSecond),
	}
}

const dash = "–"

func seconds(ms *float64) string {
	if ms == nil {
		return dash
	}
	return fmt.Sprintf("%.3f", *ms/1000)
}

// Findings are the sentences below the table, the verdict aside.
func (r Report) Findings(say Say) []string {
	var lines []string
	for _, a := range r.Agreement {
		if a.MinCosine == nil || a.MaxDifference == nil {
			lines = append(lines, say("verify.agreement_none", "a", say("verify.path."+a.Paths[0]), "b", say("verify.path."+a.Paths[1])))
			continue
		}
		lines = append(lines, say("verify.agreement", "a", say("verify.path."+a.Paths[0]), "b", say("verify.path."+a.Paths[1]), "count", a.Compared,
			"equal", a.Equal, "cosine", fmt.Sprintf("%.8f", *a.MinCosine), "difference", fmt.Sprintf("%.1e", *a.MaxDifference)))
	}
	if e := r.AtEnd; e != nil {
		lines = append(lines, say("verify.at_end", "executing", e.Executing, "draining", e.Draining, "waiting", e.Waiting, "background", e.Background))
	}
	if o := r.Others; o != nil {
		lines = append(lines, say("verify.others", "count", o.Requests, "refused", o.Refused))
	}
	if c := r.Cache; c != nil {
		lines = append(lines, say("verify.cache", "computed", c.Misses, "hits", c.Hits, "joins", c.Joins))
	}
	if g := r.GPU; g.Available && g.OthersMean != nil && g.OthersMax != nil {
		lines = append(lines, say("verify.gpu", "mean", percent(*g.OthersMean), "max", percent(*g.OthersMax)))
	} else {
		lines = append(lines, say("verify.gpu_unavailable", "reason", say("verify.gpu."+g.Reason)))
	}
	return lines
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

// Reading are the sentences on how to read the report, and on what it does not
// prove.
func (r Report) Reading(say Say) (notes, caveats []string) {
	for _, note := range r.Notes {
		notes = append(notes, say("verify.note."+note.String(), "seconds", r.deadline(), "full", int(FullDeadline/time.Second)))
	}
	for _, caveat := range r.Caveats {
		caveats = append(caveats, say("verify.caveat."+caveat.String()))
	}
	return notes, caveats
}

// deadline is in seconds.
func (r Report) deadline() string { return fmt.Sprintf("%g", float64(r.DeadlineMS)/1000) }

// Sentence is the reason in words.
func (r Reason) Sentence(say Say) string {
	var pairs []any
	for name, value := range r.Args {
		switch name {
		case "path", "a", "b":
			value = say("verify.path." + value)
		}
		pairs = append(pairs, name, value)
	}
	return say("verify.reason."+r.Code.String(), pairs...)
}

// Headline is the verdict in words.
func (r Report) Headline(say Say) string {
	kind := say("verify.kind.full")
	if r.Quick {
		kind = say("verify.kind.quick")
	}
	key := "verify.failed"
	if r.Verdict.Pass {
		key = "verify.passed"
	}
	return say(key, "kind", kind, "count", len(r.Samples), "total", r.Requests)
}

// Markdown is the report as a page.
func (r Report) Markdown(say Say) string {
	var b strings.Builder
	line := func(text string) { b.WriteString(text + "\n") }
	list := func(items []string) {
		for _, item := range items {
			line("- " + item)
		}
		line("")
	}
	line("# " + say("verify.title") + "\n")
	line("**" + r.Headline(say) + "**\n")
	var reasons []string
	for _, reason := range r.Verdict.Reasons {
		reasons = append(reasons, reason.Sentence(say))
	}
	if len(reasons) > 0 {
		list(reasons)
	}
	list([]string{
		say("verify.began", "time", r.Started.Format(time.RFC3339), "seconds", fmt.Sprintf("%.1f", r.Ended.Sub(r.Started).Seconds())),
		say("verify.deadline", "seconds", r.deadline()),
		say("verify.version", "version", r.Version),
		say("verify.machine", "cpu", r.Machine.CPU, "cpus", r.Machine.CPUs, "memory", fmt.Sprintf("%.1f", float64(r.Machine.Memory)/(1<<30)),
			"system", r.Machine.OS+"/"+r.Machine.Arch),
	})
	line("## " + say("verify.engines") + "\n")
	for _, p := range r.Paths {
		e := p.Engine
		line("### " + say("verify.path."+p.Name) + "\n")
		list([]string{
			say("verify.engine.model", "model", "`"+e.Model+"`", "dimension", e.Dimension, "tokens", e.MaxTokens),
			say("verify.engine.build", "build", "`"+e.Build+"`", "profile", e.Profile),
			say("verify.engine.fingerprint", "fingerprint", "`"+e.Fingerprint+"`"),
			say("verify.engine.flags", "flags", "`"+strings.Join(e.Flags, " ")+"`"),
		})
	}
	line("## " + say("verify.figures") + "\n")
	r.table(&b, say)
	list(r.Findings(say))
	notes, caveats := r.Reading(say)
	line("## " + say("verify.notes") + "\n")
	list(notes)
	line("## " + say("verify.caveats") + "\n")
	list(caveats)
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func (r Report) table(b *strings.Builder, say Say) {
	write := func(cells []string) {
		for i, cell := range cells {
			cells[i] = strings.ReplaceAll(cell, "|", `\|`)
		}
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	var heads, rules []string
	for _, key := range Columns() {
		heads, rules = append(heads, say(key)), append(rules, "---:")
	}
	write(heads)
	write(rules)
	for _, row := range r.Rows {
		write(row.Cells(say))
	}
	b.WriteString("\n")
}
