package app

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/enginetest"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/models"
	"github.com/ondol-app/ondol/internal/settings"
)

func TestMemoryCheck(t *testing.T) {
	const version = "0.7.0 (build 11669, commit Debian)"
	reference, err := llamaserver.ProfileByName("reference")
	if err != nil {
		t.Fatal(err)
	}
	others := smallerProfiles(settings.Engine{})
	for _, test := range []struct {
		name             string
		machine          models.Machine
		refuse           bool
		code             llamaserver.Code // empty = it may start
		remedy           llamaserver.Remedy
		smaller, message string
	}{
		{"fits", models.Machine{Total: 64 << 30, WorkingSet: 48 << 30}, true, "", "", "", ""},
		{"the next smaller one", models.Machine{Total: 4 << 30}, true, llamaserver.CodeMemory, llamaserver.RemedyProfile, "standard", "set engine.profile to standard"},
		{"the smallest", models.Machine{Total: 3 << 29}, true, llamaserver.CodeMemory, llamaserver.RemedyProfile, "small", "but 1.1 GiB may be used here"},
		{"the GPU's share", models.Machine{Total: 64 << 30, WorkingSet: 1 << 30}, true, llamaserver.CodeGPUMemory, llamaserver.RemedyProfile, "small", "on the GPU, which reaches 1.0 GiB"},
		{"none", models.Machine{Total: 1 << 28}, true, llamaserver.CodeMemory, llamaserver.RemedySmaller, "", "choose a smaller model"},
		{"switched off", models.Machine{Total: 1 << 28}, false, "", "", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			memory, p := memoryCheck(test.machine, test.refuse, others)(enginetest.Qwen3Shaped(t), reference.Flags, version)
			if memory.Need < 4<<30 || memory.Need > 9<<30 || memory.GPU >= memory.Need || memory.Budget != test.machine.Budget() {
				t.Errorf("figures: %+v", memory)
			}
			if p == nil {
				if test.code != "" {
					t.Error("it may start")
				}
				return
			}
			if p.Code != test.code || p.Remedy != test.remedy || p.Args["smaller"] != test.smaller || !strings.Contains(p.Message, test.message) {
				t.Errorf("refused with %+v", p)
			}
		})
	}
}

func TestBuildNumber(t *testing.T) {
	for version, want := range map[string]int{"0.7.0 (build 11669, commit Debian)": 11669, "6123 (abc)": 0, "": 0} {
		if got := buildNumber(version); got != want {
			t.Errorf("%q: %d", version, got)
		}
	}
}

// The profiles pool by the last token; a model that was trained otherwise
// keeps its own way.
func TestAProfileDoesNotOverruleTheModelsPooling(t *testing.T) {
	for model, want := range map[string]bool{enginetest.Qwen3Shaped(t): true, enginetest.StarterModel(t): false, "/not/there.gguf": true} {
		p, err := chooseProfile(settings.Engine{Profile: "small", Flags: []string{"-t", "1"}}, model)
		if err != nil {
			t.Fatal(err)
		}
		flags := strings.Join(p.Flags, " ")
		if strings.Contains(flags, "--pooling last") != want || !strings.HasSuffix(flags, "-np 2 -t 1") {
			t.Errorf("%s: %s", model, flags)
		}
	}
}

// What would not be started is not set either, and the reply names what fits.
func TestUseRefusesWhatDoesNotFit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "settings.toml")
	env := map[string]string{}
	sources := settings.Config{File: file, Getenv: func(k string) string { return env[k] }}
	loaded, err := settings.Load(sources)
	if err != nil {
		t.Fatal(err)
	}
	machine := models.Machine{Total: 2 << 30}
	l := library{live: settings.NewLive(settings.LiveConfig{Config: sources, Facts: groundOf(t, machine).facts}, loaded), machine: machine,
		engine: func() llamaserver.Status { return llamaserver.Status{Version: measured} }}
	use := control.UseModel{Path: enginetest.Qwen3Shaped(t), Profile: "reference"}
	_, err = l.Use(t.Context(), use)
	refused, ok := errors.AsType[*control.Error](err)
	if !ok || refused.Code != control.CodeMemoryShort || refused.Args["smaller"] != "standard" || refused.Args["budget"] != "1.5 GiB" {
		t.Fatalf("refused with %+v", err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the settings were changed: %v", err)
	}
	if _, err := l.live.Change(map[string]string{"engine.memory_check": "false"}); err != nil {
		t.Fatal(err)
	}
	used, err := l.Use(t.Context(), use)
	if err != nil || used.Applies != control.AppliesNextStart || used.Model.Memory == nil || used.Before["engine.model"] != "" {
		t.Errorf("with the check off: %+v, %v", used, err)
	}
	env["ONDOL_MODEL"] = enginetest.StarterModel(t)
	if used, err := l.Use(t.Context(), use); err != nil || used.Applies != control.AppliesOverridden || used.Overriding[0] != "engine.model" {
		t.Errorf("under a variable: %+v, %v", used, err)
	}
}
