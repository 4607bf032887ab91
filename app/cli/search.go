package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/search"
)

// snippetLines is how many lines of a snippet a person sees.
const snippetLines = 3

func (c *commands) search() *cobra.Command {
	var folders, kinds []string
	var after, before string
	req := search.Request{}
	cmd := c.command("search WORD…", "cli.search", func(cmd *cobra.Command, args []string) error {
		req.Query = strings.Join(args, " ")
		if strings.TrimSpace(req.Query) == "" {
			return c.wants(cmd, "usage.want.query")
		}
		if err := c.between("--limit", req.Limit, 1, search.MaxLimit); err != nil {
			return err
		}
		if err := choice("--mode", string(req.Mode), "hybrid", "lexical", "semantic"); err != nil {
			return err
		}
		for _, kind := range kinds {
			if err := choice("--kind", kind, string(document.KindText), string(document.KindMarkdown), string(document.KindCode)); err != nil {
				return err
			}
			req.Kinds = append(req.Kinds, document.Kind(kind))
		}
		var err error
		if req.After, err = day("--after", after); err != nil {
			return err
		}
		if req.Before, err = day("--before", before); err != nil {
			return err
		}
		client, err := c.client()
		if err != nil {
			return err
		}
		for _, name := range folders {
			folder, err := c.findFolder(cmd.Context(), client, name)
			if err != nil {
				return err
			}
			req.Folders = append(req.Folders, folder.ID)
		}
		reply, err := client.Search(cmd.Context(), req)
		if err != nil {
			return err
		}
		if c.asJSON {
			err = writeJSON(c.term.out, reply)
		} else {
			c.showReply(reply)
		}
		if err == nil && !reply.Evidence.Found {
			return said(exitNoEvidence)
		}
		return err
	})
	cmd.Args = c.arguments(1, -1, "usage.want.query")
	f, say := cmd.Flags(), c.term.words.Say
	f.IntVarP(&req.Limit, "limit", "n", 10, say("cli.search.limit"))
	f.StringVar((*string)(&req.Mode), "mode", "hybrid", say("cli.search.mode"))
	f.StringArrayVar(&folders, "folder", nil, say("cli.search.folder"))
	f.StringVar(&req.Path, "path", "", say("cli.search.path"))
	f.StringArrayVar(&kinds, "kind", nil, say("cli.search.kind"))
	f.StringVar(&after, "after", "", say("cli.search.after"))
	f.StringVar(&before, "before", "", say("cli.search.before"))
	f.BoolVar(&req.Explain, "explain", false, say("cli.search.explain"))
	return cmd
}

// day reads a date on the reader's calendar; empty is no date.
func day(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.ParseInLocation(time.DateOnly, text, time.Local)
	if err != nil {
		return time.Time{}, &usageError{key: "usage.bad_value", pairs: []any{"name", flag, "value", clean(text), "want", "2026-01-31"}}
	}
	return t, nil
}

func (c *commands) showReply(r search.Reply) {
	say := c.term.words.Say
	shown := r.Results
	if !r.Evidence.Found {
		text, ok := c.term.words.Lookup("evidence." + string(r.Evidence.Reason))
		if !ok {
			text = say("search.none")
		}
		c.term.line(text)
		if len(r.NearMisses) > 0 {
			c.term.say("search.near")
		}
		shown = r.NearMisses
	}
	for i, result := range shown {
		c.showResult(i+1, result)
	}
	var notes []string
	if made := r.Index.Rebuilding; made != nil {
		notes = append(notes, say("search.rebuilding", "embedded", made.Embedded, "texts", made.Texts))
	} else if r.Index.Pending > 0 {
		notes = append(notes, say("search.pending", "count", r.Index.Pending))
	}
	if r.Index.StaleRemoved > 0 {
		notes = append(notes, say("search.stale", "count", r.Index.StaleRemoved))
	}
	for _, code := range r.Degraded {
		what, ok := c.term.words.Lookup("degraded." + string(code))
		if !ok {
			what = string(code)
		}
		notes = append(notes, say("search.degraded", "what", what))
	}
	for _, note := range notes {
		c.term.line(c.term.paint(dim, clean(note)))
	}
}

// showResult is one result: number and title, where it is, the snippet.
func (c *commands) showResult(n int, r search.Result) {
	title := r.Title
	if title == "" {
		title = r.Path
	}
	c.term.line(fmt.Sprintf("%2d. ", n), c.term.paint(bold, clean(title)))
	where := clean(r.Path)
	if lines := r.Location.Lines; len(lines) == 2 && lines[0] > 0 {
		if lines[0] == lines[1] {
			where += " · " + c.term.words.Say("search.line", "first", lines[0])
		} else {
			where += " · " + c.term.words.Say("search.lines", "first", lines[0], "last", lines[1])
		}
	}
	if r.Location.Heading != "" {
		where += " · " + clean(r.Location.Heading)
	}
	c.term.line("    ", c.term.paint(dim, where))
	for _, line := range c.snippet(r.Snippet.Text, r.Snippet.Marks) {
		c.term.line("    ", line)
	}
	if note := c.doubt(r); note != "" {
		c.term.line("    ", c.term.paint(yellow, clean(note)))
	}
	if e := r.Explain; e != nil {
		text := fmt.Sprintf("score %.3f = words %.3f + meaning %.3f · bm25 %.2f · coverage %.2f", r.Score, e.Words, e.Meaning, e.BM25, e.Coverage)
		if e.Cosine != nil {
			text += fmt.Sprintf(" · cosine %.3f", *e.Cosine)
		}
		if e.Distance != nil {
			text += fmt.Sprintf(" · distance %.1f", *e.Distance)
		}
		c.term.line("    ", c.term.paint(dim, text))
	}
}

// doubt says why a result may not be what its file says now; empty for no reason.
func (c *commands) doubt(r search.Result) string {
	words := c.term.words
	switch {
	case r.StaleReason == search.StaleOffline:
		return words.Say("search.offline")
	case r.State == document.Failed:
		reason, ok := words.Lookup("reason." + string(r.Reason))
		if !ok {
			reason = string(r.Reason)
		}
		return words.Say("search.failed", "reason", reason)
	case r.Stale:
		return words.Say("search.changed")
	}
	return ""
}

// snippet is text as lines that fit the terminal, those around its first mark
// when there are too many, with its marks shown: in colour, or between ‹ and ›
// where there is none. Marks are byte offsets.
func (c *commands) snippet(text string, marks [][2]int) []string {
	columns := 0
	if c.term.columns > 8 {
		columns = c.term.columns - 6 // a margin of 4, and what says that there is more
	}
	var lines [][2]int
	at := 0
	for line := range strings.SplitSeq(text, "\n") {
		if strings.TrimSpace(line) != "" {
			lines = append(lines, wrap(line, at, columns)...)
		}
		at += len(line) + 1
	}
	first := 0
	if len(marks) > 0 {
		first = max(0, slices.IndexFunc(lines, func(l [2]int) bool { return l[1] > marks[0][0] })-1) // one before it
	}
	first = max(0, min(first, len(lines)-snippetLines))
	last := min(first+snippetLines, len(lines))
	var out []string
	for _, l := range lines[first:last] {
		out = append(out, c.marked(text[l[0]:l[1]], l[0], marks))
	}
	if last < len(lines) {
		out[len(out)-1] += c.term.paint(dim, " …")
	}
	return out
}

// wrap cuts a line that begins at byte offset at where a line may break, so that
// no part takes more than columns; 0 columns are without end. It returns the
// offsets of the parts.
func wrap(line string, at, columns int) [][2]int {
	var out [][2]int
	for line != "" {
		end, used, state := 0, 0, -1
		fits, space := 0, 0 // up to here: the last place to break, the last behind a space
		for rest := line; rest != ""; {
			cluster, after, boundaries, next := uniseg.StepString(rest, state)
			width := boundaries >> uniseg.ShiftWidth
			if columns > 0 && used+width > columns && strings.TrimSpace(cluster) != "" && end > 0 {
				break
			}
			end, used, rest, state = end+len(cluster), used+width, after, next
			if boundaries&uniseg.MaskLine != uniseg.LineDontBreak {
				fits = end
				if cluster == " " {
					space = end
				}
			}
		}
		switch {
		case end == len(line):
		case space > end/2:
			end = space
		case fits > 0:
			end = fits
		}
		out = append(out, [2]int{at, at + len(strings.TrimRight(line[:end], " \t"))})
		line, at = line[end:], at+end
	}
	return out
}

// marked is a part of a snippet that begins at byte offset start of it.
func (c *commands) marked(line string, start int, marks [][2]int) string {
	open, shut := "‹", "›"
	if c.term.colour {
		open, shut = "", ""
	}
	var b strings.Builder
	at := 0
	for _, m := range marks {
		from, to := max(m[0]-start, at), min(m[1]-start, len(line))
		if from >= to {
			continue
		}
		b.WriteString(clean(line[at:from]))
		b.WriteString(c.term.paint(marked, open+clean(line[from:to])+shut))
		at = to
	}
	b.WriteString(clean(line[at:]))
	return b.String()
}
