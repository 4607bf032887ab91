package llamaserver

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/ondol-app/ondol/internal/canary"
	"github.com/ondol-app/ondol/internal/gguf"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/process"
	"github.com/ondol-app/ondol/internal/vector"
)

// defaultUbatch is llama-server's physical batch where no flag sets one, tokens.
const defaultUbatch = 512

// exitWait is how long a failed exchange may precede the exit that caused it.
const exitWait = time.Second

// modelName is what a model is called: its file's name without .gguf.
func modelName(path string) string {
	if path == "" {
		return ""
	}
	return strings.TrimSuffix(filepath.Base(path), ".gguf")
}

// calledBy is what the model at path is called: where its file has no name of
// its own, as among Ollama's blobs, what its header says.
func calledBy(path string, h *gguf.Header) string {
	if title := h.Text("general.name"); title != "" && filepath.Ext(path) != ".gguf" {
		return strings.Join(strings.Fields(title), "-")
	}
	return modelName(path)
}

// check sends the probe, learns what the engine can do, and runs the canaries
// where its role is embedding.
func (e *engine) check(ctx context.Context, plan *plan, child *process.Process, client *llamaclient.Client, hash *hashing) (*Instance, canary.Result, *Problem) {
	began := time.Now()
	probing, cancel := context.WithTimeout(ctx, e.config.ProbeTimeout)
	defer cancel()
	flags := e.config.Profile.Flags
	props, err := client.Props(probing)
	if err != nil {
		return nil, canary.Result{}, e.probeProblem(ctx, child, err)
	}
	probed, err := e.probe(probing, client)
	if err != nil {
		return nil, canary.Result{}, e.probeProblem(ctx, child, err)
	}
	sum, err := hash.wait(ctx)
	if err != nil {
		return nil, canary.Result{}, e.probeProblem(ctx, child, err)
	}
	ubatch := flagNumber(flags, defaultUbatch, "-ub", "--ubatch-size")
	i := &Instance{
		Generation: e.generation, Client: client, ModelName: plan.name, Dim: probed.dim, Slots: props.Slots, Normalized: probed.normalized,
		MaxTokens:   maxTokens(plan.header, flags, props.ContextPerSlot, ubatch),
		Fingerprint: fingerprint(sum, plan.binary.version, flags, probed.dim), Checked: began,
	}
	i.BatchTokens = max(i.MaxTokens, ubatch)
	var result canary.Result
	if probed.dim > 0 {
		if result, err = e.measure(probing, i, client); err != nil {
			return nil, result, e.probeProblem(ctx, child, err)
		}
		e.emit(update{kind: eventNone, result: &result})
		if !result.OK() && !i.OneAtATime || result.Poisoned {
			p := canaryProblem(result)
			p.Log = e.log.last()
			return nil, result, p
		}
	}
	now := time.Now().UTC()
	e.emit(update{kind: eventNone, learn: func(f *facts) {
		if !i.OneAtATime {
			f.oneAtATime = nil
		}
		f.probe = Probe{OK: true, At: &now}
		f.fingerprint = i.Fingerprint
		f.model.Dimension, f.model.Context, f.model.MaxTokens, f.model.SHA256 = probed.dim, props.ContextPerSlot, i.MaxTokens, sum
	}})
	return i, result, nil
}

// maxTokens is the longest input: what a slot holds, what the model was made
// for, and one physical batch where the input cannot be computed in pieces.
func maxTokens(h *gguf.Header, flags []string, perSlot, ubatch int) int {
	limit := perSlot
	if context := h.Of("context_length", 0); context > 0 {
		limit = min(limit, context)
	}
	if !splits(h, flags) {
		limit = min(limit, ubatch)
	}
	return limit
}

// splits reports whether an input longer than one physical batch can be
// computed in pieces: llama-server does so only where a cache carries over
// what came before and the last token speaks for all. flags may override the
// file's pooling.
func splits(h *gguf.Header, flags []string) bool {
	last := h.Pooling() == gguf.PoolingLast
	if pooling, set := flagValue(flags, "--pooling"); set {
		last = pooling == gguf.PoolingLast.String()
	}
	return last && !h.Encoder()
}

// probeProblem tells why a check failed: an invalid vector, an engine that
// ended meanwhile, or one that did not answer.
func (e *engine) probeProblem(ctx context.Context, child *process.Process, err error) *Problem {
	var invalid *vector.InvalidError
	var p *Problem
	switch {
	case errors.As(err, &invalid), errors.Is(err, errProbe):
		p = problem(CodeProbe, "the engine's answer to the probe is not valid: %v", err)
	case ctx.Err() != nil:
		return e.overtaken(ctx)
	default:
		select {
		case <-child.Done():
			return e.exitProblem(child, CodeLoadExit)
		case <-time.After(exitWait):
		}
		p = problem(CodeProbeFailed, "the engine did not answer the probe: %v", err)
	}
	p.Log = e.log.last()
	now := time.Now().UTC()
	e.emit(update{kind: eventNone, learn: func(f *facts) { f.probe = Probe{OK: false, At: &now} }})
	return p
}

// hashing is the model's SHA-256 being computed.
type hashing struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	result chan struct{} // closed when sum and err are set
	sum    string
	err    error
}

func (e *engine) startHash(ctx context.Context) *hashing {
	ctx, cancel := context.WithCancel(ctx)
	h := &hashing{cancel: cancel, result: make(chan struct{})}
	h.done.Go(func() {
		h.sum, h.err = hashCache{e.config.HashCache}.sum(ctx, e.config.Model)
		close(h.result)
	})
	return h
}

func (h *hashing) wait(ctx context.Context) (string, error) {
	select {
	case <-h.result:
		return h.sum, h.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// stop gives the work up and returns when it has ended.
func (h *hashing) stop() {
	h.cancel()
	h.done.Wait()
}
