package app

import (
	"context"
	"errors"
	"log/slog"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/logs"
	"github.com/ondol-app/ondol/internal/settings"
)

// apply takes over the settings that count at once. What is refused here was
// checked before, so it is a defect and is logged.
func (p *parts) apply(s *settings.Settings) {
	err := errors.Join(
		setLevel(p.level, s.Log),
		p.gateway.Welcome(s.Aliases, s.AllowedOrigins),
		setLimits(p.gate, gateLimits(s)),
		p.yielder.SetLimits(yieldLimits(s)),
	)
	p.wakeForIndexing()
	for _, r := range p.roles {
		err = errors.Join(err, setLimits(r.gate, roleLimits(s.Roles.Of(r.name))))
	}
	if err != nil {
		p.logger.Error("Settings are not taken over", "error", err)
	}
}

func setLevel(level *slog.LevelVar, name string) error {
	l, err := logs.Level(name)
	if err == nil {
		level.Set(l)
	}
	return err
}

func setLimits(gate *admission.Gate, limits admission.Limits) error {
	if err := gate.SetLimits(limits); err != nil && !errors.Is(err, admission.ErrClosed) {
		return err
	}
	return nil // one that is closed has no use for them
}

// gateLimits are those of the engine that embeds.
func gateLimits(s *settings.Settings) admission.Limits {
	return admission.Limits{Executing: s.Admission.Executing, Waiting: s.Admission.Waiting, Wait: s.Admission.Wait, Background: s.Admission.Background}
}

func roleLimits(r *settings.Role) admission.Limits {
	return admission.Limits{Executing: r.Executing, Waiting: r.Waiting, Wait: r.Wait}
}

// watchEngine tells the indexer when the engine comes, goes or changes, and
// keeps the queue within what the running engine computes at once: permits may
// be raised before an engine with more slots is started, and some compute
// rightly only one text at a time.
func (p *parts) watchEngine(ctx context.Context) error {
	changed, stop := p.engine.Changed()
	defer stop()
	for {
		p.gate.SetCeiling(p.ceiling())
		p.indexer.EngineChanged()
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// ceiling is how many requests the running engine may be given at once; 0 = as
// many as the settings say.
func (p *parts) ceiling() int {
	if p.engine.Snapshot().OneAtATime != nil {
		return 1
	}
	if p.engines == nil {
		return 0
	}
	now, err := p.engines.Current()
	switch {
	case err != nil:
		return 0 // there is none; the next one says for itself
	case p.alone:
		return 1
	}
	return now.Slots
}

// engineVersion is what llama-server says of itself; empty before it was asked.
func (p *parts) engineVersion() string {
	if p.engine == nil {
		return ""
	}
	return p.engine.Snapshot().Version
}

// settingsForControl is the settings as the control API shows and changes them.
type settingsForControl struct{ *parts }

// List tells of every knob.
func (s settingsForControl) List() control.SettingsList {
	state := s.settings.State()
	list := control.SettingsList{File: s.ground.paths.Settings}
	if state.Refused != nil {
		list.Refused = state.Refused.Error()
		if e, ok := errors.AsType[*settings.ProblemsError](state.Refused); ok {
			list.Problems = e.Problems
		}
	}
	force := s.inForce(state)
	for _, k := range settings.Knobs() {
		value, _ := state.Value(k.Key)
		running, _ := force.Value(k.Key)
		item := control.Setting{
			Key: k.Key, Value: value, InForce: running, Default: k.DefaultText(), Source: state.Sources[k.Key],
			Type: k.Type(), Unit: k.Unit, Applies: k.Applies, Bounds: settings.Bounds(k.Key),
		}
		if item.Type == settings.TypeNumber || item.Type == settings.TypeTime {
			item.Min, item.Max = &k.Min, &k.Max
		}
		list.Settings = append(list.Settings, item)
	}
	return list
}

// inForce is the settings by which the app goes. The engine's are those of the
// engine in service: a candidate that was promoted serves without a new start.
func (s settingsForControl) inForce(state settings.State) settings.Settings {
	force := state.InForce()
	if s.engines != nil {
		setup, _ := s.engines.Live()
		takeSetup(&force.Engine, setup)
	}
	return force
}

// Chain is the capacity chain of the settings.
func (s settingsForControl) Chain() []settings.Check { return s.settings.State().Chain }

func (s settingsForControl) Change(changes map[string]string) (settings.Changed, error) {
	return s.settings.Change(changes)
}

func (s settingsForControl) Preview(changes map[string]string) (settings.Changed, error) {
	return s.settings.Preview(changes)
}
