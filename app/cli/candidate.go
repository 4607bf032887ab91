package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/engines"
)

// candidateFlags are what a candidate is to differ in, and how it is tried.
type candidateFlags struct {
	order   engines.Order
	model   string
	flags   []string
	ngl     int
	promote bool
	noWait  bool
}

func (c *commands) candidate() *cobra.Command {
	say := c.term.words.Say
	var f candidateFlags
	cmd := c.command("candidate", "cli.engine.candidate", func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return c.unknown(cmd, args[0])
		}
		if cmd.Flags().Changed("ngl") {
			if err := c.between("--ngl", f.ngl, 0, maxLayers); err != nil {
				return err
			}
			f.order.NGL = &f.ngl
		}
		return c.tryCandidate(cmd.Context(), f)
	})
	flags := cmd.Flags()
	flags.StringVar(&f.model, "model", "", say("cli.engine.candidate.model"))
	flags.StringVar(&f.order.Profile, "profile", "", say("cli.models.use.profile"))
	flags.IntVar(&f.ngl, "ngl", 0, say("cli.engine.candidate.ngl"))
	flags.StringArrayVar(&f.flags, "flag", nil, say("cli.engine.candidate.flag"))
	flags.BoolVar(&f.order.ClearFlags, "clear-flags", false, say("cli.engine.candidate.clear"))
	flags.StringVar(&f.order.Server, "server", "", say("cli.engine.candidate.server"))
	flags.BoolVar(&f.order.InPlace, "in-place", false, say("cli.engine.candidate.in_place"))
	flags.BoolVar(&f.order.Quick, "quick", false, say("cli.engine.candidate.quick"))
	flags.BoolVar(&f.promote, "promote", false, say("cli.engine.candidate.promote"))
	flags.BoolVar(&f.noWait, "no-wait", false, say("cli.engine.nowait"))

	status := c.command("status", "cli.engine.candidate.status", func(cmd *cobra.Command, _ []string) error {
		state, done, err := ask(cmd.Context(), c, (*control.Client).Candidate)
		if !done {
			c.showCandidate(state)
		}
		return err
	})
	status.Args = c.arguments(0, 0, "usage.want.none")
	stop := c.command("stop", "cli.engine.candidate.stop", func(cmd *cobra.Command, _ []string) error {
		_, done, err := ask(cmd.Context(), c, (*control.Client).DropCandidate)
		if !done {
			c.term.say("candidate.stopped")
		}
		return err
	})
	stop.Args = c.arguments(0, 0, "usage.want.none")
	cmd.AddCommand(status, stop)
	return cmd
}

// maxLayers is more than any model has; llama-server takes it for all.
const maxLayers = 9999

func (c *commands) tryCandidate(ctx context.Context, f candidateFlags) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	for _, text := range f.flags { // each is one flag, or a flag with its value
		f.order.Flags = append(f.order.Flags, strings.Fields(text)...)
	}
	if f.order.Server != "" {
		if f.order.Server, err = filepath.Abs(f.order.Server); err != nil { // the app has another working directory
			return err
		}
	}
	if f.model != "" {
		if f.order.Model, err = c.findModel(ctx, client, f.model); err != nil {
			return err
		}
	}
	if f.promote {
		f.order.Promote = &engines.Promotion{}
	}
	state, err := client.TryCandidate(ctx, f.order)
	if err == nil && !f.noWait {
		state, err = c.followCandidate(ctx, client, state, tried)
	}
	if err != nil {
		return err
	}
	if c.asJSON {
		err = writeJSON(c.term.out, state)
	} else {
		c.showCandidate(state)
		c.costOf(ctx, client, state)
		c.tellNext(state)
		if state.Candidate.Outcome == engines.Proved {
			c.sayEnd(state)
		}
	}
	if err == nil && !f.noWait {
		err = c.candidateEnd(state)
	}
	return err
}

// findModel is the path of a model file, or of the one model here of that name.
func (c *commands) findModel(ctx context.Context, client *control.Client, named string) (string, error) {
	if path, ok := modelFile(named); ok {
		return path, nil
	}
	list, err := client.Models(ctx)
	if err != nil {
		return "", err
	}
	var found []string
	for _, m := range list.Models {
		if m.Ref == named || m.Name == named {
			found = append(found, m.Path)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", &complaint{code: control.CodeModelUnknown, key: "refusal.model_unknown", pairs: []any{"name", clean(named)}}
	}
	return "", &complaint{code: control.CodeModelAmbiguous, key: "refusal.model_ambiguous", pairs: []any{"name", clean(named), "count", len(found)}}
}

// modelFile is the absolute path of a file that a person named.
func modelFile(named string) (path string, ok bool) {
	path, err := filepath.Abs(named)
	if err != nil {
		return "", false
	}
	info, err := os.Stat(path)
	return path, filepath.IsAbs(named) || err == nil && info.Mode().IsRegular()
}

// tried says that a candidate was judged, and, where its order wants it live,
// that this has come to an end as well.
func tried(s engines.State) bool {
	return s.Phase == engines.Idle || s.Phase == engines.Checked && s.Candidate.Outcome != engines.Pending
}

// followCandidate is watchCandidate for a command whose work goes on without it.
func (c *commands) followCandidate(ctx context.Context, client *control.Client, state engines.State, done func(engines.State) bool) (engines.State, error) {
	state, err := c.watchCandidate(ctx, client, state, done)
	if ctx.Err() != nil && !c.asJSON {
		c.term.note(c.term.words.Say("candidate.goes_on"))
	}
	return state, err
}

// watchCandidate looks until done, or until another candidate has taken the
// place of this one, and shows what goes on.
func (c *commands) watchCandidate(ctx context.Context, client *control.Client, state engines.State, done func(engines.State) bool) (engines.State, error) {
	show := c.progress()
	defer show.end()
	this := began(state)
	for !done(state) && began(state) == this {
		show.step(c.candidateStep(state))
		if !pause(ctx, watchInterval/4) {
			return state, ctx.Err()
		}
		var err error
		if state, err = client.Candidate(ctx); err != nil {
			return state, err
		}
	}
	return state, nil
}

func began(s engines.State) time.Time {
	if s.Candidate == nil {
		return time.Time{}
	}
	return s.Candidate.At
}

// candidateStep is where a candidate stands, in one line. Where lines cannot
// be written over, one for each step is enough.
func (c *commands) candidateStep(s engines.State) string {
	say := c.term.words.Say
	text := say("candidate.phase." + s.Phase.String())
	if s.Candidate == nil || s.Candidate.Progress == nil {
		return text
	}
	p := s.Candidate.Progress
	text += " · " + say("candidate.step."+p.Step.String())
	if c.term.repaints && p.Total > 0 {
		text += " " + say("candidate.step.count", "done", p.Done, "total", p.Total)
	}
	if p.Waits != "" {
		text += " · " + say("candidate.waits."+p.Waits.String())
	}
	return text
}

// candidateEnd is the exit code of what became of a candidate.
func (c *commands) candidateEnd(s engines.State) error {
	if s.Candidate != nil {
		switch s.Candidate.Outcome {
		case engines.Passed, engines.Promoted, engines.Proved:
			if s.Candidate.Problem == nil {
				return nil
			}
		}
	}
	return said(exitFailed)
}

// tellNext says what a person may do with a candidate that was judged.
func (c *commands) tellNext(s engines.State) {
	if s.Phase != engines.Checked || s.Candidate.Verdict == nil {
		return
	}
	switch v := s.Candidate.Verdict; {
	case v.Pass:
		c.term.say("candidate.next.promote")
	case !v.Fatal():
		c.term.say("candidate.next.force")
	}
	c.term.say("candidate.next.stop")
}

// costOf says what the vectors of a candidate that was judged would take on
// disk, where they are of another kind than those in service.
func (c *commands) costOf(ctx context.Context, client *control.Client, s engines.State) {
	if s.Phase != engines.Checked || s.Candidate == nil || s.Candidate.Verdict == nil {
		return
	}
	v := s.Candidate.Verdict
	if v.Candidate.Fingerprint != v.Live.Fingerprint {
		c.tellCost(ctx, client, v.Candidate.Dimension, v.Candidate.Fingerprint, v.InPlace)
	}
}

// tellCost says what vectors of so many components, and of that fingerprint
// where it is known, would take on disk; nothing where they are there, or
// nothing is indexed. inPlace says that they are made in the place of the
// engine in service.
func (c *commands) tellCost(ctx context.Context, client *control.Client, dimension int, fingerprint string, inPlace bool) {
	if dimension < 1 {
		return
	}
	reply, err := client.Generations(ctx, dimension)
	if err != nil || reply.Cost == nil || reply.Cost.Texts == 0 {
		return // what it would cost keeps nobody from it
	}
	for _, g := range reply.Generations {
		if g.Fingerprint == fingerprint && g.Missing() == 0 {
			return
		}
	}
	c.term.say("candidate.cost", "texts", reply.Cost.Texts, "size", size(reply.Cost.Bytes))
	if inPlace {
		c.term.say("candidate.cost.in_place")
	}
}
