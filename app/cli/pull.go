package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/models/pull"
)

func (c *commands) pull() *cobra.Command {
	var accept, nowait bool
	var req pull.Request
	cmd := c.command("pull MODEL", "cli.models.pull", func(cmd *cobra.Command, args []string) error {
		req.Model = args[0]
		return c.pullModel(cmd.Context(), req, accept, nowait)
	})
	cmd.Args = c.arguments(1, 1, "usage.want.pull_model")
	cmd.Flags().BoolVar(&accept, "accept-licence", false, c.term.words.Say("cli.models.pull.accept"))
	cmd.Flags().BoolVar(&req.Unverified, "unverified", false, c.term.words.Say("cli.models.pull.unverified"))
	cmd.Flags().BoolVar(&nowait, "no-wait", false, c.term.words.Say("cli.models.pull.nowait"))
	return cmd
}

func (c *commands) pullModel(ctx context.Context, req pull.Request, accept, nowait bool) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	p, err := client.Pull(ctx, req)
	if e, ok := errors.AsType[*control.Error](err); ok && e.Code == control.CodeLicenceRequired {
		if err := c.acceptLicence(ctx, e, accept); err != nil {
			return err
		}
		req.AcceptLicence = e.Args["licence"]
		p, err = client.Pull(ctx, req)
	}
	if err != nil {
		return err
	}
	if !nowait {
		if p, err = c.waitPull(ctx, client, p.ID); err != nil {
			return err
		}
	}
	if c.asJSON {
		return writeJSON(c.term.out, p)
	}
	if p.State != pull.Done {
		c.term.say("pull.queued", "model", clean(p.Model))
		return nil
	}
	c.term.say("pull.done", "model", clean(p.Model), "path", clean(p.Path))
	if p.HashFrom == pull.FromNobody {
		c.term.say("pull.unverified", "sha", p.SHA256)
	}
	return nil
}

// acceptLicence shows the licence and asks, unless it was accepted on the
// command line. Where nobody can be asked, the refusal itself says what to do.
func (c *commands) acceptLicence(ctx context.Context, e *control.Error, accepted bool) error {
	in, ok := c.cfg.In.(*os.File)
	asks := ok && c.term.repaints && !c.asJSON && term.IsTerminal(int(in.Fd()))
	if !accepted && !asks {
		return e
	}
	if c.asJSON {
		return nil
	}
	n, _ := strconv.ParseInt(e.Args["size"], 10, 64) // 0 = not known
	for _, key := range []string{"pull.licence.model", "pull.licence.terms"} {
		io.WriteString(c.term.err, c.term.words.Say(key, "model", clean(e.Args["model"]), "page", clean(e.Args["page"]), "size", size(n),
			"licence", clean(e.Args["licence"]), "url", clean(e.Args["url"]))+"\n")
	}
	if accepted {
		return nil
	}
	io.WriteString(c.term.err, c.term.words.Say("pull.licence.ask")+" ")
	answer := make(chan string, 1)
	go func() { // a read of a terminal cannot be cancelled; the process ends with it
		line, _ := bufio.NewReader(in).ReadString('\n') // no line is no yes
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case line := <-answer:
		if line == "y" || line == "yes" || line == "예" || line == "네" {
			return nil
		}
		return &complaint{code: "licence_declined", key: "pull.licence.declined"}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waitPull shows how a pull goes on until it has ended. Who interrupts the
// command pauses the pull.
func (c *commands) waitPull(ctx context.Context, client *control.Client, id int64) (pull.Pull, error) {
	show := c.progress()
	defer show.end()
	for {
		p, err := findPull(ctx, client, id)
		if ctx.Err() != nil {
			return c.pauseFor(ctx, client, id, show)
		}
		if err != nil {
			return p, err
		}
		switch p.State {
		case pull.Done:
			return p, nil
		case pull.Paused:
			return p, &complaint{code: "paused", key: "pull.paused.how", pairs: []any{"model", clean(p.Model)}}
		case pull.Failed:
			return p, &complaint{code: p.Reason.String(), key: "pull.failed", pairs: []any{"model", clean(p.Model), "reason", c.reasonText(p)}}
		}
		show.step(c.stepText(p))
		if !pause(ctx, watchInterval/4) {
			return c.pauseFor(ctx, client, id, show)
		}
	}
}

// pauseTime is how long the app may take to pause for somebody who has left.
const pauseTime = 5 * time.Second

func (c *commands) pauseFor(ctx context.Context, client *control.Client, id int64, show *progress) (pull.Pull, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pauseTime)
	defer cancel()
	p, err := client.PausePull(ctx, id)
	if err != nil || p.State == pull.Done {
		return p, err
	}
	show.end()
	return p, &complaint{code: "paused", key: "pull.paused.how", pairs: []any{"model", clean(p.Model)}}
}

// stepText is one line of progress: every look on a terminal, every tenth of
// the file elsewhere.
func (c *commands) stepText(p pull.Pull) string {
	if c.term.repaints || p.Total == 0 {
		return c.progressText(p)
	}
	return c.term.words.Say("pull.step", "state", c.term.words.Say("pull.state."+p.State.String()), "percent", p.Done*10/p.Total*10, "total", size(p.Total))
}

func (c *commands) progressText(p pull.Pull) string {
	say := c.term.words.Say
	if p.Total == 0 {
		return say("pull.state." + p.State.String())
	}
	text := say("pull.progress", "state", say("pull.state."+p.State.String()), "percent", p.Done*100/p.Total, "done", size(p.Done), "total", size(p.Total))
	switch {
	case p.Retry != "":
		text += " · " + say("pull.retry", "detail", clean(p.Retry))
	case p.Rate > 0:
		text += " · " + say("pull.rate", "rate", size(int64(p.Rate)))
		if p.Left > 0 {
			text += " · " + say("pull.left", "time", (time.Duration(p.Left)*time.Second).String())
		}
	}
	return text
}

// reasonText is why a pull failed; figures of bytes are made readable.
func (c *commands) reasonText(p pull.Pull) string {
	args := map[string]string{}
	for name, value := range p.Args {
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && (name == "need" || name == "free") {
			value = size(n)
		}
		args[name] = value
	}
	return c.term.words.Say("pull.reason."+p.Reason.String(), pairsOf(args)...)
}
