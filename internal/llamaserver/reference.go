package llamaserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ondol-app/ondol/internal/canary"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/process"
	"github.com/ondol-app/ondol/internal/trust"
	"github.com/ondol-app/ondol/internal/vector"
)

const (
	// referenceDelay keeps the run out of the way of the first requests.
	referenceDelay = 5 * time.Second
	// referenceTime bounds it, load included.
	referenceTime = 15 * time.Minute
	// referenceContext holds the longest canary, tokens.
	referenceContext = 1024
)

// referenceRun computes a fingerprint's reference without the GPU, beside the
// ready engine.
type referenceRun struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// startReference begins the run when there is something to be won by it. The
// caller stops it before the engine ends.
func (e *engine) startReference(ctx context.Context, plan *plan, i *Instance, live canary.Result) *referenceRun {
	ctx, cancel := context.WithTimeout(ctx, referenceTime)
	r := &referenceRun{cancel: cancel}
	if c := i.canaries; c != nil && c.reference.Kind != trust.ReferenceCPU && e.referenceFits(plan.binary) {
		r.done.Go(func() { e.refer(ctx, plan, i, live) })
	}
	return r
}

// stop gives the run up and returns when nothing of it is left.
func (r *referenceRun) stop() {
	r.cancel()
	r.done.Wait()
}

func (e *engine) referenceFits(b executable) bool {
	flags := e.config.Profile.Flags
	return e.config.ReferenceFits != nil && e.config.ReferenceFits(e.config.Model, flags, cpuFlags(flags, b.knows), b.version)
}

// refer makes the reference, stores it, and compares the live engine with it.
func (e *engine) refer(ctx context.Context, plan *plan, i *Instance, live canary.Result) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(e.config.ReferenceDelay):
	}
	ref, err := e.computeReference(ctx, plan, i)
	if err != nil {
		if ctx.Err() == nil {
			e.config.Logger.Warn("no reference without the GPU; the engine's own first answers stay it", "error", err)
		}
		return
	}
	e.save(ctx, i.Fingerprint, ref)
	next := *i.canaries
	next.reference = ref
	result := live.Against(ref, next.texts)
	u := update{kind: eventNone, result: &result, learn: func(f *facts) {
		if f.instance != nil { // readers have the old one: it is not touched
			changed := *f.instance
			changed.canaries = &next
			f.instance = &changed
		}
	}}
	if result.Code == canary.Drift {
		u.kind, u.problem = eventReplace, canaryProblem(result)
	}
	e.emit(u)
}

// computeReference starts a second llama-server in a folder of its own for as
// long as it takes to embed the canaries.
func (e *engine) computeReference(ctx context.Context, plan *plan, i *Instance) (ref *trust.Reference, err error) {
	files := runFiles{filepath.Join(e.config.RunDir, "cpu")}
	key, p := files.prepare()
	if p != nil {
		return nil, p
	}
	defer func() { _, _, _ = os.Remove(files.key()), os.Remove(files.socket()), os.Remove(files.dir) }() // the next start removes what is left
	client, err := llamaclient.New(llamaclient.Config{Socket: files.socket(), APIKey: key, Limits: e.config.Limits})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	child, err := process.Start(ctx, process.Spec{
		Path: plan.binary.path, Args: plan.binary.arguments(cpuFlags(e.config.Profile.Flags, plan.binary.knows), e.config.Model, plan.name, files.socket(), files.key()),
		Env: append(environment(os.Environ()), e.config.Env...), Dir: files.dir, Record: files.record(),
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if killErr := child.Kill(); err == nil {
			err = killErr
		}
	}()
	for e.healthy(ctx, client) != nil {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-child.Done():
			return nil, fmt.Errorf("llama-server ended (%v)", child.Exit())
		case <-time.After(healthPollMax):
		}
	}
	embed := embedder(client, vector.Expect{Dim: i.Dim, Normalized: i.Normalized})
	result, err := canary.Run(ctx, canary.Config{Embed: embed, Texts: i.canaries.texts, AloneOnly: true})
	if err != nil {
		return nil, err
	}
	if !result.OK() {
		return nil, canaryProblem(result)
	}
	return result.AsReference(trust.ReferenceCPU, i.canaries.texts), nil
}

// placement are the flags, each with a value, that say where and in what
// portions a model is computed, and no more.
var placement = []string{
	"-ngl", "--gpu-layers", "--n-gpu-layers", "-dev", "--device", "-ot", "--override-tensor", "-sm", "--split-mode", "-ts", "--tensor-split",
	"-mg", "--main-gpu", "-c", "--ctx-size", "-b", "--batch-size", "-ub", "--ubatch-size", "-np", "--parallel", "-t", "--threads", "-tb", "--threads-batch",
}

// cpuFlags are flags with everything off the GPU, small, and on half of the
// cores. No layers on it are not enough: ggml hands matrices of 32 tokens and
// more back to the GPU unless told otherwise.
func cpuFlags(flags []string, knows map[string]bool) []string {
	var kept []string
	for i := 0; i < len(flags); i++ {
		switch {
		case slices.Contains(placement, flags[i]):
			i++
		case flags[i] != "--op-offload":
			kept = append(kept, flags[i])
		}
	}
	size := strconv.Itoa(referenceContext)
	kept = append(kept, "-ngl", "0", "-c", size, "-b", size, "-ub", size, "-np", "1", "-t", strconv.Itoa(max(1, runtime.NumCPU()/2)))
	if knows["--device"] {
		kept = append(kept, "--device", "none")
	}
	if knows["--no-op-offload"] {
		kept = append(kept, "--no-op-offload")
	}
	return kept
}

// withoutGPU says that the flags leave nothing to the GPU.
func withoutGPU(flags []string) bool {
	device, _ := flagValue(flags, "-dev", "--device")
	return device == "none" ||
		flagNumber(flags, 1, "-ngl", "--gpu-layers", "--n-gpu-layers") == 0 && slices.Contains(flags, "--no-op-offload")
}
