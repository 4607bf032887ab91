package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/event"
)

// recentEvents is how many of the newest events are shown unless --since says
// where to begin.
const recentEvents = 50

func (c *commands) events() *cobra.Command {
	var since uint64
	var follow bool
	cmd := c.command("events", "cli.events", func(cmd *cobra.Command, _ []string) error {
		client, err := c.client()
		if err != nil {
			return err
		}
		now, err := client.Status(cmd.Context())
		if err != nil {
			return err
		}
		if !cmd.Flags().Changed("since") {
			since = max(now.OldestSeq, now.Seq-min(now.Seq, recentEvents)+1) - 1
		}
		if !follow && since == now.Seq {
			return nil // there is nothing to wait for
		}
		return c.showEvents(cmd.Context(), client, since, now.Seq, follow)
	})
	cmd.Args = c.arguments(0, 0, "usage.want.none")
	cmd.Flags().Uint64Var(&since, "since", 0, c.term.words.Say("cli.events.since"))
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, c.term.words.Say("cli.events.follow"))
	return cmd
}

// errAll ends the stream of events when all that was asked for is shown.
var errAll = errors.New("all is shown")

// showEvents writes the events after since, each as a line; up to until, or
// without end.
func (c *commands) showEvents(ctx context.Context, client *control.Client, since, until uint64, follow bool) error {
	query := control.EventsQuery{Since: &since, Lost: c.lost}
	err := client.Events(ctx, query, func(m control.Message) error {
		switch {
		case m.Event != nil && c.asJSON:
			if err := c.json(m.Event, true); err != nil {
				return err
			}
		case m.Event != nil:
			c.showEvent(*m.Event)
		case m.Status != nil && c.asJSON:
			if err := c.json(map[string]any{m.Name: m.Status}, true); err != nil {
				return err
			}
		case m.Status != nil:
			c.term.say("event.reset", "seq", m.Status.Seq)
		}
		if at := m.Seq(); !follow && at >= until {
			return errAll
		}
		return nil
	})
	if errors.Is(err, errAll) {
		return nil
	}
	return err
}

// lost says, beside the answer, that the app went away.
func (c *commands) lost(error) {
	if !c.asJSON {
		c.term.note(c.term.words.Say("event.lost"))
	}
}

// showEvent is an event as one line: its number, when it was, what it was.
func (c *commands) showEvent(e event.Event) {
	c.term.line(c.term.paint(dim, c.term.words.Say("event.at", "seq", e.Seq, "time", local(e.At))), "  ", c.sentence(e))
}

// sentence is what an event tells. An event whose kind is not known, as of a
// newer app, is shown as it is.
func (c *commands) sentence(e event.Event) string {
	var pairs []any
	for name, value := range e.Args {
		pairs = append(pairs, name, c.argument(name, value))
	}
	if e.Args["problem"] != "" {
		if text, ok := c.term.words.Lookup("event."+e.Kind.String()+".problem", pairs...); ok {
			return text
		}
	}
	if text, ok := c.term.words.Lookup("event."+e.Kind.String(), pairs...); ok {
		return text
	}
	return clean(e.Kind.String())
}

// codes are the arguments that are codes, and the families of their sentences.
var codes = map[string][]string{
	"from": {"engine.state."}, "to": {"engine.state."}, "cause": {"event.cause."}, "problem": {"engine.problem."},
	"applies": {"event.applies."}, "role": {"status.role."}, "reason": {"event.overload.", "event.invalid.", "status.yield.reason.", "reason."},
}

// argument is an argument in words, as it is where it has none.
func (c *commands) argument(name, value string) string {
	for _, family := range codes[name] {
		if text, ok := c.term.words.Lookup(family + value); ok {
			return text
		}
	}
	return clean(value)
}
