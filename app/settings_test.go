package app_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/settings"
)

// Settings change while the app runs: what can be is taken over at once, what
// breaks the chain is refused with the knob to move, and all of it is told.
func TestSettingsWhileTheAppRuns(t *testing.T) {
	h := newHome(t)
	h.env = slices.DeleteFunc(h.env, func(v string) bool { return strings.HasPrefix(v, "ONDOL_LOG=") })
	h.serve(t)
	limits := func() control.Status {
		t.Helper()
		status, err := h.client.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return status
	}
	code, out, errOut := h.ondol(t, "config", "set", "admission.waiting", "3", "log", "warn")
	if code != 0 || !strings.Contains(out, "In force now.") && !strings.Contains(out, "in force now") {
		t.Fatalf("config set: %d %s%s", code, out, errOut)
	}
	if got := limits().Admission.Limits.Waiting; got != 3 {
		t.Errorf("%d may wait, want 3", got)
	}
	code, out, errOut = h.ondol(t, "config", "set", "admission.executing", "9")
	for _, want := range []string{"admission.executing (9) must be ≤ -np (4)", "Change this with it: engine.flags = -np 9 -c 73728", "or set: admission.executing = 4"} {
		if code != 2 || !strings.Contains(errOut, want) {
			t.Errorf("exit %d %s, want %q in:\n%s", code, out, want, errOut)
		}
	}
	// With what is to move it is accepted; the engine that runs keeps its four
	// slots, and is given no more than those until another is started.
	if code, out, errOut = h.ondol(t, "config", "set", "admission.executing", "6", "engine.flags", "-np 6 -c 49152"); code != 0 || !strings.Contains(out, "these take effect: engine.flags") {
		t.Fatalf("config set: %d %s%s", code, out, errOut)
	}
	if got := limits().Admission.Limits.Executing; got != 4 {
		t.Errorf("%d may execute, want the engine's 4", got)
	}
	list, err := h.client.Settings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list.Settings {
		if s.Key == "engine.flags" && (s.Value != "-np 6 -c 49152" || s.InForce != "" || s.Applies != settings.AppliesStart) {
			t.Errorf("engine.flags: %+v", s)
		}
	}
	for _, c := range limits().Capacity {
		if c.State != settings.LinkHolds && c.State != settings.LinkUnknown {
			t.Errorf("%s is %s", c.Link, c.State)
		}
	}
	preview, err := h.client.PreviewSettings(t.Context(), map[string]string{"index.chunk_max": "8192", "engine.flags": "-c 16384"})
	if err != nil || len(preview.Refused) == 0 {
		t.Errorf("preview: %+v, %v", preview.Refused, err)
	}
	_, err = h.client.ChangeSettings(t.Context(), map[string]string{"admission.background": "6"})
	if refused, ok := errors.AsType[*control.Error](err); !ok || refused.Problems[0].Args["link"] != "background_permits" || refused.Problems[0].Args["value"] != "7" {
		t.Errorf("background: %v", err)
	}
	// By hand, well and badly.
	write(t, filepath.Join(h.dir, "settings.toml"), "[admission]\nwaiting = 5\n")
	within(t, patience, "the edited file", func() error {
		if got := limits().Admission.Limits.Waiting; got != 5 {
			return fmt.Errorf("%d may wait", got)
		}
		return nil
	})
	write(t, filepath.Join(h.dir, "settings.toml"), "[admission]\nwaiting = 6\nexecuting = 9\n")
	within(t, patience, "the refusal", func() error {
		list, err := h.client.Settings(t.Context())
		if err != nil || len(list.Problems) != 1 || list.Problems[0].Args["link"] != "permits_slots" {
			return fmt.Errorf("%+v, %w", list.Problems, err)
		}
		return nil
	})
	if got := limits().Admission.Limits; got.Waiting != 5 || got.Executing != 2 {
		t.Errorf("after a bad edit: %+v", got)
	}
	var told []string
	for _, e := range h.events(t, "--since", "0") {
		if e.Kind == settings.KindChanged || e.Kind == settings.KindRefused {
			told = append(told, strings.TrimSpace(e.Kind.String()+" "+e.Args["key"]+" "+e.Args["to"]))
		}
	}
	want := []string{
		"settings.changed log warn", "settings.changed admission.waiting 3", "settings.changed engine.flags -np 6 -c 49152", "settings.changed admission.executing 6",
		"settings.changed log info", `settings.changed engine.flags ""`, "settings.changed admission.executing 2", "settings.changed admission.waiting 5", "settings.refused",
	}
	if !slices.Equal(told, want) {
		t.Errorf("told\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
	}
	if code, out, _ = h.ondol(t, "events"); code != 0 || !strings.Contains(out, "The setting admission.waiting was changed: 3 → 5 (from now on)") ||
		!strings.Contains(out, "The settings file was edited, but does not hold") {
		t.Errorf("events: %d\n%s", code, out)
	}
}
