package control_test

import (
	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/settings"
)

// fakeSettings knows one setting, which an engine with four slots bounds.
type fakeSettings struct{ *parts }

func chainOf(executing int64) []settings.Check {
	c := settings.Check{
		Link: settings.LinkPermitsSlots, State: settings.LinkHolds, Op: "≤", Unit: "requests", Moves: []settings.Move{},
		Left: settings.Side{Name: "admission.executing", Value: executing, Knob: "admission.executing"}, Right: settings.Side{Name: "-np", Value: 4, Knob: "engine.flags"},
	}
	if executing > 4 {
		c.State, c.Moves = settings.LinkBroken, []settings.Move{{Knob: "engine.flags", Value: "-np 9"}}
	}
	return []settings.Check{c}
}

func (f fakeSettings) List() control.SettingsList {
	low, high := 1, 64
	return control.SettingsList{File: "/home/settings.toml", Settings: []control.Setting{{
		Key: "admission.executing", Value: "2", InForce: "2", Default: "2", Source: settings.FromDefault, Type: settings.TypeNumber, Unit: "requests",
		Min: &low, Max: &high, Applies: settings.AppliesNow, Bounds: settings.Bounds("admission.executing"),
	}}}
}

func (f fakeSettings) Chain() []settings.Check { return chainOf(2) }

func (f fakeSettings) Change(changes map[string]string) (settings.Changed, error) {
	changed, err := f.judge("change ", changes)
	if err != nil {
		return settings.Changed{}, err
	}
	return changed, nil
}

func (f fakeSettings) Preview(changes map[string]string) (settings.Changed, error) {
	return f.judge("preview ", changes)
}

func (f fakeSettings) judge(asked string, changes map[string]string) (settings.Changed, error) {
	value, known := changes["admission.executing"]
	f.asked = append(f.asked, asked+value)
	if !known {
		for key := range changes {
			return settings.Changed{}, settings.Unknown(key)
		}
	}
	executing := map[string]int64{"3": 3, "9": 9}[value]
	chain := chainOf(executing)
	return settings.Changed{
		Before: map[string]string{"admission.executing": ""}, Applies: map[string]settings.Applies{"admission.executing": settings.AppliesNow}, Chain: chain,
	}, settings.Refusal(nil, chain, "admission.executing")
}
