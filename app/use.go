package app

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/engines"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/models"
	"github.com/ondol-app/ondol/internal/settings"
)

// Use has a model embed, once nothing speaks against it: as a candidate that
// is promoted when it passes its trial, where the engine is ours and runs
// another, else by the settings of the next start.
func (l library) Use(ctx context.Context, req control.UseModel) (control.UsedModel, error) {
	model, err := l.find(ctx, req)
	if err != nil {
		return control.UsedModel{}, err
	}
	if err := serves(&model.Model); err != nil {
		return control.UsedModel{}, err
	}
	remote := l.live.Now().Roles.Embed.Remote()
	trial := !req.NextStart && !remote && l.keeper != nil && l.keeper() != nil
	if trial {
		req.Profile = l.kept(&model.Model, req.Profile)
	}
	profile, err := l.planned(&model.Model, req.Profile, trial)
	if err != nil {
		return control.UsedModel{}, &control.Error{Status: http.StatusBadRequest, Code: control.CodeInvalidValue, Message: err.Error(), Remedy: "send one of them"}
	}
	if l.machine.Total > 0 && l.live.Now().Engine.MemoryCheck {
		if v := l.weigh(&model.Model, profile); !v.Fits {
			return control.UsedModel{}, memoryError(v)
		}
	}
	used := control.UsedModel{Model: l.describe(model), Profile: profile.Name, Before: map[string]string{}, Applies: control.AppliesTrial}
	now := l.engine()
	runs := sameFile(now.Model.Path, model.Path) && now.Profile == profile.Name
	changes := map[string]string{"engine.model": model.Path}
	if req.Profile != "" {
		changes["engine.profile"] = req.Profile
	}
	if trial && !runs {
		order := engines.Order{Model: model.Path, Profile: req.Profile, InPlace: req.InPlace, Quick: req.Quick, Promote: &engines.Promotion{Force: req.Force, Now: req.Now}}
		if sameFile(now.Model.Path, model.Path) {
			order.Model = "" // under whatever name it is known; its flags stay
		}
		state, err := l.keeper().Try(ctx, order)
		used.Candidate, used.Overriding = &state, l.above(changes)
		return used, err
	}
	changed, err := l.live.Change(changes)
	if err != nil {
		return control.UsedModel{}, err
	}
	used.Before, used.Overriding = changed.Before, l.above(changes)
	switch used.Applies = control.AppliesNextStart; {
	case remote:
		used.Applies = control.AppliesLocal
	case len(used.Overriding) > 0:
		used.Applies = control.AppliesOverridden
	case runs:
		used.Applies = control.AppliesNow
	}
	return used, nil
}

// planned is how the model would be run. On trial the owner's flags go with
// the model they are for.
func (l library) planned(m *models.Model, profile string, trial bool) (llamaserver.Profile, error) {
	if trial && !sameFile(l.engine().Model.Path, m.Path) {
		return chooseProfile(settings.Engine{Profile: profile}, m.Path)
	}
	return l.profile(m, profile)
}

// kept is the profile named, else the one in service, which was chosen
// for the machine; the starter's is for that model alone.
func (l library) kept(m *models.Model, name string) string {
	if name == "" && (isStarter(m.Path) || l.inService().Profile != starterProfile) {
		return l.inService().Profile
	}
	return name
}

// above lists the settings that the environment or a flag sets otherwise, above
// the file.
func (l library) above(changes map[string]string) []string {
	now := l.live.Now()
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		value, _ := now.Value(key)
		if source := now.Sources[key]; (source == settings.FromEnv || source == settings.FromFlag) && value != changes[key] {
			keys = append(keys, key)
		}
	}
	return keys
}
