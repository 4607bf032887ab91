package app

import (
	"context"
	"os"
	"sync"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/gpu"
	"github.com/ondol-app/ondol/internal/gpu/host"
	"github.com/ondol-app/ondol/internal/history"
	"github.com/ondol-app/ondol/internal/power"
	"github.com/ondol-app/ondol/internal/prom"
	"github.com/ondol-app/ondol/internal/settings"
	"github.com/ondol-app/ondol/internal/trial"
	"github.com/ondol-app/ondol/internal/yielding"
)

// watchMachine builds what looks at the GPU, and what pauses indexing by it.
func (p *parts) watchMachine(s *settings.Settings, open func() gpu.Source) (err error) {
	if p.gpu, err = gpu.New(gpu.Config{Open: open, Ours: p.ourProcesses, Executing: p.executing, Logger: p.logger.With("part", "gpu")}); err != nil {
		return err
	}
	p.yielder, err = yielding.New(yielding.Config{Limits: yieldLimits(s), Sampler: p.gpu, Gate: yieldGate{p.gate, p.wakeForIndexing}, Notify: p.recorder.Notify})
	return err
}

// thisMachine is what the system tells of itself.
func thisMachine() gpu.Source {
	source := host.Open()
	rest := source.Conditions
	source.Conditions = func() gpu.Conditions {
		now, battery := rest(), power.Now() == power.Battery
		now.OnBattery = &battery
		return now
	}
	return source
}

// yieldGate is the gate as the yielder sees it. An engine that was unloaded in
// a pause is started when that is over: who waits in it has asked long ago.
type yieldGate struct {
	*admission.Gate
	wake func()
}

func (g yieldGate) PauseBackground(paused bool) {
	g.Gate.PauseBackground(paused)
	g.wake()
}

// wakeForIndexing starts an engine that was unloaded while background work
// waited that may go on now. Any other stays as it is.
func (p *parts) wakeForIndexing() {
	now := p.gate.Stats()
	if p.engines != nil && now.BackgroundWaiting > 0 && !now.BackgroundPaused && now.Limits.Background > 0 {
		p.engines.Wake()
	}
}

// yieldLimits are the owner's. Where others run the engine that embeds, indexing
// takes nothing of this machine's GPU that could be told from their work.
func yieldLimits(s *settings.Settings) yielding.Limits {
	l := yielding.Limits{
		Busy: float64(s.Yield.GPU) / 100, Quiet: float64(s.Yield.GPUResume) / 100,
		Onset: s.Yield.After, Calm: s.Yield.ResumeAfter, Battery: s.Yield.Battery, Low: s.Yield.LowPower,
	}
	if s.Roles.Embed.Remote() {
		l.Busy = 1
	}
	return l
}

// ourProcesses are those whose work on the GPU is ours: our engines, and this
// one. false: a server on this machine that others run works for us too, in
// processes of its own.
func (p *parts) ourProcesses() (pids []int, known bool) {
	pids = []int{os.Getpid()}
	if far, ok := p.engine.(remoteEmbedder); ok && !far.Engine.Snapshot().Outside {
		return nil, false
	}
	if p.engines != nil {
		pids = append(pids, p.engines.PIDs()...)
	}
	for _, r := range p.roles {
		switch engine := r.engine.(type) {
		case localEngine:
			pids = append(pids, engine.Snapshot().PID)
		case remoteEngine:
			if !engine.Snapshot().Outside {
				return nil, false
			}
		}
	}
	return pids, true
}

// executing reports whether any engine has work.
func (p *parts) executing() bool {
	busy := func(g *admission.Gate) bool {
		now := g.Stats()
		return now.Executing+now.Draining > 0
	}
	for _, r := range p.roles {
		if busy(r.gate) {
			return true
		}
	}
	return busy(p.gate)
}

// gpuFigures is the GPU for the history; nil when nobody watches it.
func (p *parts) gpuFigures() *history.GPU {
	now := p.gpu.Latest()
	if now.At == nil || !now.Available {
		return nil
	}
	return &history.GPU{Utilization: now.Utilization, Ours: now.Ours, Others: now.Others, Contention: now.Contention, MemoryInUse: now.MemoryInUse}
}

// gpuState is the GPU for a scrape, which is a look.
func (p *parts) gpuState() gpu.Status { return p.gpu.Look(context.Background()) }

func (p *parts) yieldState() prom.Yielding {
	now := prom.Yielding{Pauses: p.yielder.Pauses()}
	if state := p.yielder.State(); state != nil {
		now.Reasons = state.Reasons
	}
	return now
}

// reasonNoShares is why a trial knows nothing of others although the GPU tells
// something: whose work it is cannot be told.
const reasonNoShares = "no_shares"

// othersOnGPU is trial.Config.GPU: others' share, once a second, from now until
// the function it returns is called.
func othersOnGPU(sampler *gpu.Sampler) func() trial.GPU {
	leave := sampler.Join()
	ended := make(chan struct{})
	var watching sync.WaitGroup
	var sum, highest float64
	count, last := 0, gpu.Status{}
	watching.Go(func() {
		for {
			changed := sampler.Changed()
			select {
			case <-ended:
				return
			case <-changed:
			}
			last = sampler.Latest()
			if last.Others != nil {
				sum, highest, count = sum+*last.Others, max(highest, *last.Others), count+1
			}
		}
	})
	return func() trial.GPU {
		close(ended)
		watching.Wait()
		leave()
		if count == 0 {
			reason := last.Reason.String()
			if last.Available {
				reason = reasonNoShares
			} else if reason == "" {
				reason = gpu.ReasonUnread.String()
			}
			return trial.GPU{Reason: reason}
		}
		mean := sum / float64(count)
		return trial.GPU{Available: true, OthersMean: &mean, OthersMax: &highest}
	}
}
