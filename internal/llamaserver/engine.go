package llamaserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ondol-app/ondol/internal/canary"
	"github.com/ondol-app/ondol/internal/gguf"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/process"
)

// How long to wait between two questions whether the model is loaded: at
// first a small model's load, then a large one's.
const (
	healthPollMin = 20 * time.Millisecond
	healthPollMax = 250 * time.Millisecond
)

// engine is one start of llama-server, from the search for it to its end. One
// goroutine runs it; end may be called from another.
type engine struct {
	config     *Config
	log        *engineLog
	inspector  *inspector
	generation uint64
	aloneOnly  bool         // texts together have spoilt one of this kind: that is not tried again
	emit       func(update) // blocks until the owner has taken it

	cancel context.CancelFunc // asks for the end
	kill   atomic.Bool        // the end is to be SIGKILL at once
}

// update is what an engine tells the owner: an event, and what is known since
// the update before.
type update struct {
	kind    eventKind
	problem *Problem
	learn   func(*facts)   // may be nil
	result  *canary.Result // canaries were run
}

// facts are what is known of the present or last engine, for Status.
type facts struct {
	binary, version string
	flags           []string
	pid             int
	model           Model
	memory          *Memory // nil = not checked
	fingerprint     string
	probe           Probe
	instance        *Instance     // nil unless this engine was found good and runs
	asleep          *Instance     // the last one that was unloaded; may be of long ago
	load            time.Duration // from start to ready, of the last engine that got there

	canary     *canary.Result // the last
	oneAtATime *OneAtATime
	aloneOnly  bool // together spoilt the last engine for good; until a person starts one
}

// plan is everything a start needs.
type plan struct {
	binary executable
	header *gguf.Header
	key    string
	args   []string
	name   string // of the model
}

// run lives through one start and returns when no process of it is left: nil
// when it was asked to end, else why it ended.
func (e *engine) run(ctx context.Context) *Problem {
	p := e.live(ctx)
	if ctx.Err() != nil && (p == nil || p.Code != CodeStuck) {
		return nil // whatever went wrong while it was being ended
	}
	if p != nil {
		p.At = time.Now().UTC()
	}
	return p
}

func (e *engine) live(ctx context.Context) (p *Problem) {
	began := time.Now()
	plan, p := e.prepare(ctx)
	if p != nil {
		return p
	}
	files := runFiles{e.config.RunDir}
	hash := e.startHash(ctx) // beside the load: a large model takes seconds to read
	defer hash.stop()
	client, err := llamaclient.New(llamaclient.Config{Socket: files.socket(), APIKey: plan.key, Limits: e.config.Limits})
	if err != nil {
		return problem(CodeStart, "%v", err)
	}
	defer client.Close()

	alarm := e.log.begin(e.generation, plan.binary.path, plan.args)
	child, err := process.Start(ctx, process.Spec{
		Path: plan.binary.path, Args: plan.args, Env: append(environment(os.Environ()), e.config.Env...), Dir: e.config.RunDir,
		Log: unhurried{e.log}, Record: files.record(),
	})
	if err != nil {
		return problem(CodeStart, "%v", err)
	}
	defer func() {
		if err := e.endChild(child); err != nil {
			p = problem(CodeStuck, "end llama-server: %v", err)
		}
		// Leftovers; the next start removes what cannot be removed now, or says why not.
		_, _ = os.Remove(files.key()), os.Remove(files.socket())
	}()
	e.emit(update{kind: eventLoading, learn: func(f *facts) { f.pid = child.PID() }})

	loading, cancel := context.WithTimeoutCause(ctx, e.config.LoadTimeout, errLoadTimeout)
	defer cancel()
	if p := e.awaitHealth(loading, child, client); p != nil {
		return p
	}
	_ = os.Remove(files.key()) // read by now; what is not there cannot leak
	if err := child.Confirm(); err != nil {
		return problem(CodeRunDir, "%v", err)
	}
	e.emit(update{kind: eventChecking})
	instance, result, p := e.check(loading, plan, child, client, hash)
	if p != nil {
		return p
	}
	e.emit(update{kind: eventReady, learn: func(f *facts) {
		f.instance, f.load = instance, time.Since(began)
	}})
	reference := e.startReference(ctx, plan, instance, result)
	defer reference.stop()
	return e.monitor(ctx, child, client, alarm)
}

var errLoadTimeout = errors.New("load time limit passed")

// prepare finds and checks everything that can be known before a start.
func (e *engine) prepare(ctx context.Context) (*plan, *Problem) {
	path, err := Locate(e.config.Binary)
	if err != nil {
		return nil, problem(CodeBinaryMissing, "%v", err)
	}
	model := e.config.Model
	if model == "" {
		return nil, problem(CodeModelMissing, "no model is set; set engine.model (ONDOL_MODEL) to a GGUF file of an embedding model")
	}
	head, err := gguf.Read(model)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, problem(CodeModelMissing, "the model %s is not there; set engine.model (ONDOL_MODEL) to a GGUF file", model)
	case err != nil:
		return nil, problem(CodeModelInvalid, "the model %s cannot be read: %v; download it again or choose another", model, err)
	case head.Size < head.Need:
		return nil, problem(CodeModelInvalid, "the model %s is cut off: %d of %d bytes are there; download it again or choose another", model, head.Size, head.Need)
	}
	if err := accepts(e.config.Profile.Role, head); err != nil {
		return nil, problem(CodeModelInvalid, "the model %s cannot serve this role: %v", model, err)
	}
	b, err := e.inspector.inspect(ctx, path)
	if err != nil {
		return nil, problem(CodeBinaryUnusable, "%v", err)
	}
	if p := e.checkMemory(b.version); p != nil {
		return nil, p
	}
	files := runFiles{e.config.RunDir}
	key, p := files.prepare()
	if p != nil {
		return nil, p
	}
	if !b.knows["--api-key-file"] {
		return nil, problem(CodeFlagsRejected, "llama-server %s knows no --api-key-file, so its key would be seen by others; install a newer one", b.version)
	}
	name := calledBy(model, head)
	args := b.arguments(e.config.Profile.Flags, model, name, files.socket(), files.key())
	e.emit(update{kind: eventNone, learn: func(f *facts) {
		f.binary, f.version, f.flags = path, b.version, args
		f.model = Model{Path: model, Name: name, Architecture: head.Architecture()}
		f.fingerprint, f.probe = "", Probe{}
	}})
	return &plan{binary: b, header: head, key: key, args: args, name: name}, nil
}

// awaitHealth returns nil once /health says ok.
func (e *engine) awaitHealth(ctx context.Context, child *process.Process, client *llamaclient.Client) *Problem {
	for pause := healthPollMin; ; pause = min(pause*3/2, healthPollMax) {
		select {
		case <-ctx.Done():
			return e.overtaken(ctx)
		case <-child.Done():
			return e.exitProblem(child, CodeLoadExit)
		case <-time.After(pause):
		}
		if e.healthy(ctx, client) == nil {
			return nil
		}
	}
}

func (e *engine) healthy(ctx context.Context, client *llamaclient.Client) error {
	ctx, cancel := context.WithTimeout(ctx, e.config.HealthTimeout)
	defer cancel()
	return client.Health(ctx)
}

// monitor watches a ready engine until it ends or is asked to.
func (e *engine) monitor(ctx context.Context, child *process.Process, client *llamaclient.Client, alarm <-chan string) *Problem {
	ticker := time.NewTicker(min(e.config.HealthEvery, e.config.Silence/4))
	defer ticker.Stop()
	well := true
	quiet := silence{limit: e.config.Silence}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-child.Done():
			return e.exitProblem(child, CodeCrash)
		case line := <-alarm:
			// Whatever it answers from now on may be wrong in a way that no
			// check sees, so it is not asked.
			p := problem(CodeWatchdog, "llama-server reports that it cannot compute: %s", Scrub(line))
			p.At, p.Log = time.Now().UTC(), e.log.last()
			e.emit(update{kind: eventReplace, problem: p})
			continue
		case <-ticker.C:
		}
		if lasted, hangs := quiet.step(e.look(child.PID(), client), time.Now()); hangs {
			p := problem(CodeHang, "llama-server has had requests for %v and gives no sign of work: no answer, no line in its log, no processor time", lasted.Round(time.Second))
			p.At, p.Log = time.Now().UTC(), e.log.last()
			e.emit(update{kind: eventReplace, problem: p})
			continue
		}
		err := e.healthy(ctx, client)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			well = false
			p := problem(CodeUnresponsive, "llama-server does not answer its health check: %v", err)
			p.At, p.Log = time.Now().UTC(), e.log.last()
			e.emit(update{kind: eventUnhealthy, problem: p})
		case !well:
			well = true
			e.emit(update{kind: eventHealthy})
		}
	}
}

// end asks the engine to end. Its run returns once it has.
func (e *engine) end(kill bool) {
	if kill {
		e.kill.Store(true)
	}
	e.cancel()
}

func (e *engine) endChild(child *process.Process) error {
	if e.kill.Load() {
		return child.Kill()
	}
	return child.Stop(e.config.StopGrace)
}

// overtaken is the problem of a step whose time was up; run drops it when the
// engine was asked to end.
func (e *engine) overtaken(ctx context.Context) *Problem {
	if errors.Is(context.Cause(ctx), errLoadTimeout) {
		p := problem(CodeLoadTimeout, "llama-server was not ready after %v; see its log, or choose a smaller model or profile", e.config.LoadTimeout)
		p.Log = e.log.last()
		return p
	}
	return problem(CodeLoadExit, "asked to end")
}

// refusals are the lines by which llama-server turns a command line down
// (common/arg.cpp). They carry no time stamp, unlike its log.
var refusals = regexp.MustCompile(`^error: (invalid|unknown|unrecognized) argument|^error while handling (argument|environment variable)|^error: .*argument has been removed`)

// exitProblem tells why a child that has ended did so.
func (e *engine) exitProblem(child *process.Process, code Code) *Problem {
	exit := child.Exit()
	lines := e.log.last()
	if exit.Err != nil {
		return problem(CodeStuck, "end llama-server: %v", exit.Err)
	}
	p := problem(code, "llama-server ended (%v)%s", exit, lastComplaint(lines))
	if code == CodeLoadExit {
		for _, line := range lines {
			if refusals.MatchString(line) {
				p = problem(CodeFlagsRejected, "this llama-server refuses a flag (%s); correct the engine's flags, or install another version", line)
			}
		}
	}
	p.Log = lines
	return p
}

// lastComplaint is the first of the closing error lines, which names the cause.
func lastComplaint(lines []string) string {
	for _, line := range lines {
		if _, text, found := strings.Cut(line, " E "); found { // "0.00.015.766 E srv load_model: …"
			return fmt.Sprintf(": %s", strings.TrimSpace(text))
		}
	}
	return "; see its log"
}
