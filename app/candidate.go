package app

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/engines"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/locations"
	"github.com/ondol-app/ondol/internal/models"
	"github.com/ondol-app/ondol/internal/process"
	"github.com/ondol-app/ondol/internal/settings"
	"github.com/ondol-app/ondol/internal/upstream"
)

// secondPlace is the name of the folders, below those for sockets and logs, of
// an engine beside the one that was started with the app.
const secondPlace = "second"

// keeper builds what holds our llama-server, and candidates beside it.
func (p *parts) keeper(s *settings.Loaded, paths locations.Paths) (*engines.Keeper, error) {
	logger := p.logger.With("part", "engine")
	return engines.New(engines.Config{
		Live: engines.Setup{Server: s.Engine.Server, Model: s.Engine.Model, Profile: s.Engine.Profile, Flags: s.Engine.Flags},
		Build: func(setup engines.Setup, place engines.Place) (llamaserver.Config, error) {
			chosen := s.Settings
			takeSetup(&chosen.Engine, setup)
			model := findModel(setup.Model, paths, p.ground.executable)
			profile, err := chooseProfile(chosen.Engine, model)
			if err != nil {
				return llamaserver.Config{}, err
			}
			if err := p.ground.holds(&chosen); err != nil {
				return llamaserver.Config{}, err
			}
			return llamaserver.Config{
				Binary: setup.Server, Model: model, Profile: profile, HashCache: filepath.Join(paths.Cache, "model-hashes.json"),
				References: p.index, Concurrency: s.Admission.Executing, ReferenceFits: p.twoFit, Evidence: p.evidence.keep,
				CheckMemory: p.memoryCheck(s, smallerProfiles(chosen.Engine)), Silence: s.Engine.Silence,
				Role: upstream.RoleEmbed, Notify: p.recorder.Notify, Logger: logger.With("place", filepath.Base(place.RunDir)),
			}, nil
		},
		Places: [2]engines.Place{
			{RunDir: paths.Run, LogDir: paths.Logs},
			{RunDir: filepath.Join(paths.Run, secondPlace), LogDir: filepath.Join(paths.Logs, secondPlace)},
		},
		Bench: engines.Bench{
			Passages: p.index.SamplePassages, Turn: p.trialTurn, RSS: process.RSS, Slower: float64(s.Engine.CandidateSlower) / 100,
		},
		Save:  p.saveSetup,
		Fits:  func(setup engines.Setup, beside bool) error { return p.fits(s, paths, setup, beside) },
		Index: indexForEngines{p}, File: paths.Candidates(), Probation: s.Engine.Probation, Keep: s.Index.KeepGenerations,
		Notify: p.recorder.Notify, Logger: logger,
	})
}

func takeSetup(e *settings.Engine, setup engines.Setup) {
	e.Server, e.Model, e.Profile, e.Flags = setup.Server, setup.Model, setup.Profile, setup.Flags
}

// trialTurn is a permit for one call of an engine on trial, or of the live one
// compared with it: all of them compute on one machine, so one gate counts.
func (p *parts) trialTurn(ctx context.Context) (func(), error) {
	permit, err := p.gate.Acquire(ctx, admission.LaneUpkeep)
	if err != nil {
		return nil, err
	}
	return func() { permit.Release(admission.Uncounted) }, nil
}

// saveSetup makes an engine the settings' own. Only what differs from the
// settings of now is written: the environment may be where the rest is from.
func (p *parts) saveSetup(setup engines.Setup) error {
	now := p.settings.Now().Engine
	to := now
	takeSetup(&to, setup)
	changes := now.Changes(to)
	if len(changes) == 0 {
		return nil
	}
	_, err := p.settings.Change(changes)
	return err
}

// candidates is the keeper as the control API sees it; nil where there is none.
func (p *parts) candidates() control.Candidates {
	if p.engines == nil {
		return nil
	}
	return p.engines
}

// fits refuses a candidate whose model does not embed, or that memory does not
// hold beside the live engine. What is not known is no reason.
func (p *parts) fits(s *settings.Loaded, paths locations.Paths, setup engines.Setup, beside bool) error {
	path := findModel(setup.Model, paths, p.ground.executable)
	model, err := models.Inspect(path)
	if err != nil {
		return nil // its start says why
	}
	live := p.engine.Snapshot()
	if model.Role != "" && !sameFile(path, live.Model.Path) { // what we do not know is the engine's to refuse
		if err := serves(model); err != nil {
			return err
		}
	}
	if !beside || p.machine.Total == 0 || live.Memory == nil || live.PID == 0 || !s.Engine.MemoryCheck {
		return nil
	}
	profile, err := chooseProfile(settings.Engine{Profile: setup.Profile, Flags: setup.Flags}, path)
	if err != nil {
		return err
	}
	v := model.Weigh(p.machine, models.Profile{Flags: profile.Flags}, nil, buildNumber(live.Version))
	need, gpu := v.Need.Total+live.Memory.Need, v.Need.GPU+live.Memory.GPU
	if need <= v.Budget && (v.WorkingSet == 0 || gpu <= v.WorkingSet) {
		return nil
	}
	have := v.Budget
	if need <= v.Budget {
		need, have = gpu, v.WorkingSet
	}
	return &engines.RefusedError{Code: engines.CodeMemory,
		Message: fmt.Sprintf("memory does not hold two engines: %s are needed, %s are there", gib(need), gib(have)),
		Remedy:  "in place (--in-place) the engine in service is stopped for the trial; clients are refused meanwhile",
		Args:    map[string]string{"need": gib(need), "have": gib(have)}}
}
