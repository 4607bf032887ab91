package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/engines"
	"github.com/ondol-app/ondol/internal/llamaserver"
)

// tuned is one setting that was tried.
type tuned struct {
	Point   engines.Point     `json:"point"`
	Quick   bool              `json:"quick"`            // by the smaller trial
	Result  tuneResult        `json:"result"`           //
	Time    *float64          `json:"time"`             // to the engine in service; null = not measured
	Why     string            `json:"why,omitempty"`    // in words, where it did not pass
	Against []engines.Finding `json:"against"`          // never null
	Engine  *engines.Subject  `json:"engine,omitempty"` // its figures; absent where it was not measured

	live engines.Subject
}

// tuneResult is what became of a setting.
type tuneResult string

const (
	tunePassed     tuneResult = "passed"
	tuneRefused    tuneResult = "refused"    // a check failed
	tuneShorter    tuneResult = "shorter"    // it takes shorter inputs than the engine in service
	tuneFailed     tuneResult = "failed"     // it did not start, or broke
	tuneImpossible tuneResult = "impossible" // the settings do not allow it
)

// tuneReply is what tuning found.
type tuneReply struct {
	Start engines.Point  `json:"start"` // the engine in service
	Tried []tuned        `json:"tried"` // in order; never null
	Best  *engines.Point `json:"best"`  // the fastest that passed every check; null = that of the engine in service
	Order *engines.Order `json:"order"` // the candidate that is at Best
}

func (c *commands) tune() *cobra.Command {
	say := c.term.words.Say
	var r engines.Range
	var quick, inPlace bool
	cmd := c.command("tune", "cli.engine.tune", func(cmd *cobra.Command, _ []string) error {
		for _, list := range []struct {
			name      string
			values    []int
			low, high int
		}{{"--ngl", r.NGL, 0, maxLayers}, {"--ub", r.Ubatch, 32, 1 << 20}, {"--np", r.Slots, 1, 64}} {
			for _, value := range list.values {
				if err := c.between(list.name, value, list.low, list.high); err != nil {
					return err
				}
			}
		}
		return c.tuneEngine(cmd.Context(), r, quick, inPlace)
	})
	cmd.Args = c.arguments(0, 0, "usage.want.none")
	flags := cmd.Flags()
	flags.IntSliceVar(&r.NGL, "ngl", nil, say("cli.engine.tune.ngl"))
	flags.IntSliceVar(&r.Ubatch, "ub", nil, say("cli.engine.tune.ub"))
	flags.IntSliceVar(&r.Slots, "np", nil, say("cli.engine.tune.np"))
	flags.BoolVar(&quick, "quick", false, say("cli.engine.tune.quick"))
	flags.BoolVar(&inPlace, "in-place", false, say("cli.engine.candidate.in_place"))
	return cmd
}

// tuneEngine tries one setting after the other as a candidate, and recommends
// the fastest that passed every check. It changes nothing.
func (c *commands) tuneEngine(ctx context.Context, r engines.Range, quick, inPlace bool) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	live, err := client.Engine(ctx)
	if err != nil {
		return err
	}
	if live.State != llamaserver.Ready {
		return &complaint{code: control.CodeEngineUnavailable, key: "refusal.engine_unavailable", pairs: []any{"state", c.term.words.Say("engine.state." + live.State.String())}}
	}
	model, err := client.InspectModel(ctx, live.Model.Path)
	if err != nil {
		return err
	}
	usual := engines.DefaultRange(model.Blocks)
	t := &tuner{commands: c, client: client, live: live, inPlace: inPlace, reply: tuneReply{Start: engines.PointOf(live.Flags), Tried: []tuned{}}}
	err = t.walk(ctx, engines.Range{NGL: given(r.NGL, usual.NGL), Ubatch: given(r.Ubatch, usual.Ubatch), Slots: given(r.Slots, usual.Slots)}, quick)
	if err != nil {
		return err
	}
	if c.asJSON {
		return writeJSON(c.term.out, t.reply)
	}
	t.show()
	return nil
}

func given(wanted, usual []int) []int {
	if len(wanted) > 0 {
		return wanted
	}
	return usual
}

// tuner is one tuning under way.
type tuner struct {
	*commands
	client  *control.Client
	live    llamaserver.Status
	inPlace bool
	reply   tuneReply
}

// walk tries the settings of the range by the quick trial, and then the fastest
// by the full one, until one passes that too.
func (t *tuner) walk(ctx context.Context, r engines.Range, quick bool) error {
	w := engines.NewWalk(t.reply.Start, r)
	for p, ok := w.Next(); ok; p, ok = w.Next() {
		done, err := t.try(ctx, p, true)
		if err != nil {
			return err
		}
		if done.Result == tunePassed && done.Time != nil {
			w.Took(p, *done.Time)
		}
	}
	for _, fast := range w.Fastest() {
		passed := quick
		if !quick {
			done, err := t.try(ctx, fast.Point, false)
			if err != nil {
				return err
			}
			passed = done.Result == tunePassed && done.Time != nil && *done.Time < 1
		}
		if passed {
			order := fast.Point.Order(t.live.Flags)
			t.reply.Best, t.reply.Order = &fast.Point, &order
			return nil
		}
	}
	return nil
}

// try has one setting tried as a candidate, which has ended when it returns.
// An error means that none can be tried.
func (t *tuner) try(ctx context.Context, p engines.Point, quick bool) (tuned, error) {
	order := p.Order(t.live.Flags)
	order.Quick, order.InPlace = quick, t.inPlace
	done := tuned{Point: p, Quick: quick, Against: []engines.Finding{}}
	if !t.asJSON {
		t.term.note(t.term.words.Say("tune.tries", "flags", pointText(p)))
	}
	state, err := t.client.TryCandidate(ctx, order)
	if refused, ok := errors.AsType[*control.Error](err); ok && refused.Code == engines.CodeImpossible {
		done.Result, done.Why = tuneImpossible, refusalLines(refused, t.term.words)[0]
		t.reply.Tried = append(t.reply.Tried, done)
		return done, nil
	}
	if err == nil {
		state, err = t.watchCandidate(ctx, t.client, state, tried)
	}
	if err != nil {
		t.giveUp(state)
		return done, err
	}
	t.judge(&done, state)
	if state.Phase == engines.Checked {
		_, err = t.client.DropCandidate(ctx)
	}
	t.reply.Tried = append(t.reply.Tried, done)
	return done, err
}

// dropTime is how long an interrupted tuning waits for its candidate to end.
const dropTime = 15 * time.Second

// giveUp ends the candidate of a tuning that was interrupted: nobody else
// knows why it is there.
func (t *tuner) giveUp(state engines.State) {
	if state.Candidate == nil || state.Phase == engines.Idle {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), dropTime)
	defer cancel()
	_, _ = t.client.DropCandidate(ctx) // the app may have ended, and the candidate with it
}

func (t *tuner) judge(done *tuned, state engines.State) {
	k := state.Candidate
	if k.Verdict == nil {
		done.Result, done.Why = tuneFailed, t.term.words.Say("candidate.outcome."+k.Outcome.String())
		if k.Problem != nil {
			done.Why = t.engineProblem(k.Problem)
		}
		return
	}
	v := k.Verdict
	done.Engine, done.live, done.Result = &v.Candidate, v.Live, tunePassed
	for _, f := range v.Findings {
		if f.Check == engines.CheckSpeed {
			done.Time = f.Value
		}
	}
	if against := v.Against(); len(against) > 0 {
		done.Result, done.Against = tuneRefused, against
		var names []string
		for _, f := range against {
			names = append(names, t.term.words.Say("candidate.check."+f.Check.String()))
		}
		done.Why = strings.Join(names, ", ")
	} else if e := k.Engine; e != nil && e.Model.MaxTokens < t.live.Model.MaxTokens {
		done.Result = tuneShorter
		done.Why = t.term.words.Say("tune.shorter", "tokens", e.Model.MaxTokens, "now", t.live.Model.MaxTokens)
	}
}

// pointText is a setting as flags.
func pointText(p engines.Point) string {
	text := fmt.Sprintf("-ngl %d -ub %d -np %d", p.NGL, p.Ubatch, p.Slots)
	if p.NGL < 0 {
		text = fmt.Sprintf("-ub %d -np %d", p.Ubatch, p.Slots)
	}
	if p.NoOpOffload {
		text += " --no-op-offload"
	}
	return text
}

// show is the table and the recommendation.
func (t *tuner) show() {
	say := t.term.words.Say
	rows := [][]cell{t.head("flags", "load", "memory", "short", "medium", "throughput", "ratio", "result")}
	if i := slices.IndexFunc(t.reply.Tried, func(d tuned) bool { return d.Engine != nil }); i >= 0 {
		one := 1.0
		rows = append(rows, tuneRow(pointText(t.reply.Start), &t.reply.Tried[i].live, &one, cell{text: say("tune.live"), style: dim}))
	}
	for _, d := range t.reply.Tried {
		result := cell{text: say("tune.result." + string(d.Result)), style: red}
		if d.Result == tunePassed {
			result.style = green
			if !d.Quick {
				result.text = say("tune.full")
			}
		}
		if d.Why != "" {
			result.text += ": " + d.Why
		}
		rows = append(rows, tuneRow(pointText(d.Point), d.Engine, d.Time, result))
	}
	t.term.table(rows)
	if t.reply.Order == nil {
		t.term.say("tune.keep")
		return
	}
	t.term.say("tune.best", "flags", pointText(*t.reply.Best))
	t.term.say("tune.try", "command", orderText(*t.reply.Order))
}

func tuneRow(flags string, s *engines.Subject, time *float64, result cell) []cell {
	row := []cell{{text: flags}}
	if s == nil {
		s = &engines.Subject{}
	}
	for _, text := range []string{inSeconds(s.LoadMS), resident(s.RSSBytes), inSeconds(s.P50MS), inSeconds(s.MediumP50MS), figureOr(s.TokensPerS, "%.0f"), checkValue(engines.CheckSpeed, time)} {
		row = append(row, cell{text: text, right: true})
	}
	return append(row, result)
}

// orderText is the command that tries a candidate and puts it into service.
func orderText(o engines.Order) string {
	text := "ondol engine candidate"
	if o.NGL != nil {
		text += fmt.Sprintf(" --ngl %d", *o.NGL)
	}
	for i := 0; i < len(o.Flags); i++ {
		flag := o.Flags[i]
		if i+1 < len(o.Flags) && !strings.HasPrefix(o.Flags[i+1], "-") {
			i++
			flag += " " + o.Flags[i]
		}
		text += ` --flag "` + flag + `"`
	}
	return text + " --promote"
}
