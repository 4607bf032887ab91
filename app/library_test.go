package app_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ondol-app/ondol/build/tools/tinymodels"
	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/enginetest"
	"github.com/ondol-app/ondol/internal/models"
)

// TestModels finds models of other programs, refuses those that cannot serve,
// and moves an app from the starter model to one of them.
func TestModels(t *testing.T) {
	h := newHome(t)
	hub := t.TempDir()
	snapshot := filepath.Join(hub, "models--Qwen--Shaped", "snapshots", "1")
	shaped, talker := filepath.Join(snapshot, "shaped.gguf"), filepath.Join(snapshot, "talker.gguf")
	raw, err := os.ReadFile(enginetest.StarterModel(t))
	if err = errors.Join(err, os.MkdirAll(snapshot, 0o755), os.Symlink(enginetest.Qwen3Shaped(t), shaped), tinymodels.WriteTalker(talker),
		os.WriteFile(filepath.Join(snapshot, "cut-embed.gguf"), raw[:len(raw)/2], 0o644)); err != nil {
		t.Fatal(err)
	}
	h.env = append(without(h.env, "ONDOL_MODEL", "ONDOL_PROFILE"), "HOME="+t.TempDir(), "HF_HUB_CACHE="+hub, "OLLAMA_MODELS="+filepath.Join(hub, "none"))
	write(t, filepath.Join(h.dir, "settings.toml"), "# mine\n[engine]\nmodel = '"+enginetest.StarterModel(t)+"'\nprofile = \"starter\"\n")
	r := h.serve(t)

	part(t, "list", func(t *testing.T) {
		code, out, _ := h.ondol(t, "models", "list", "--json")
		var list control.ModelList
		if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 || list.Machine == nil || len(list.Unreadable) != 0 {
			t.Fatalf("exit %d: %v\n%s", code, err, out)
		}
		var refs []string
		for _, m := range list.Models {
			refs = append(refs, m.Ref+" "+m.Role.String())
			source := models.SourceHuggingFace
			if m.InUse {
				source = models.SourceSetting
			}
			if m.Source != source || m.InUse != (m.Path == enginetest.StarterModel(t)) || m.Memory == nil || m.Memory.Need.Total < m.Size {
				t.Errorf("%s: %+v, memory %+v", m.Ref, m, m.Memory)
			}
		}
		want := []string{"ondol-starter-en embed", "Qwen/Shaped:cut-embed.gguf embed", "Qwen/Shaped:shaped.gguf embed", "Qwen/Shaped:talker.gguf chat"}
		if !slices.Equal(refs, want) {
			t.Errorf("found %q", refs)
		}
		if code, out, _ := h.ondol(t, "models", "list"); code != 0 || !strings.Contains(out, "Qwen/Shaped:shaped.gguf") || !strings.Contains(out, "cannot be used") {
			t.Errorf("exit %d\n%s", code, out)
		}
	})
	part(t, "inspect", func(t *testing.T) {
		code, out, _ := h.ondol(t, "models", "inspect", shaped)
		for _, want := range []string{"qwen3", "2560", "last", "Qwen3-shaped fixture", "may be used here"} {
			if code != 0 || !strings.Contains(out, want) {
				t.Errorf("exit %d, %q is missing:\n%s", code, want, out)
			}
		}
		if code, _, errOut := h.ondol(t, "models", "inspect", filepath.Join(h.dir, "settings.toml")); code != 2 || !strings.Contains(errOut, "not a GGUF file") {
			t.Errorf("exit %d: %s", code, errOut)
		}
	})
	part(t, "refused", func(t *testing.T) {
		for model, says := range map[string]string{
			"nothing": "No model here is called nothing.", "talker": "no model that embeds", "cut-embed": "cut off",
			filepath.Join(hub, "none.gguf"): "does not exist",
		} {
			if code, _, errOut := h.ondol(t, "models", "use", model); code == 0 || !strings.Contains(errOut, says) {
				t.Errorf("%s: exit %d, %q is missing:\n%s", model, code, says, errOut)
			}
		}
		if code, _, errOut := h.ondol(t, "models", "use", "shaped", "--profile", "huge"); code != 2 || !strings.Contains(errOut, "reference, standard, small") {
			t.Errorf("exit %d: %s", code, errOut)
		}
		if engine, err := h.client.Engine(t.Context()); err != nil || engine.Model.Path != enginetest.StarterModel(t) {
			t.Errorf("%+v, %v", engine.Model, err)
		}
	})
	part(t, "use", func(t *testing.T) {
		used, err := h.client.UseModel(t.Context(), control.UseModel{Path: enginetest.StarterModel(t)})
		if err != nil || used.Applies != control.AppliesNow || !used.Model.InUse {
			t.Errorf("the one in use: %+v, %v", used, err)
		}
		code, out, _ := h.ondol(t, "models", "use", "Qwen/Shaped:shaped.gguf", "--profile", "small", "--next-start")
		for _, want := range []string{shaped, "started again", "ondol config set engine.model '" + enginetest.StarterModel(t) + "'", "ondol config set engine.profile 'starter'"} {
			if code != 0 || !strings.Contains(out, want) {
				t.Errorf("exit %d, %q is missing:\n%s", code, want, out)
			}
		}
		text, err := os.ReadFile(filepath.Join(h.dir, "settings.toml"))
		if want := "# mine\n[engine]\nmodel = \"" + shaped + "\"\nprofile = \"small\"\n"; err != nil || string(text) != want {
			t.Errorf("settings %q, %v", text, err)
		}
	})
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	h.serve(t)
	part(t, "in use", func(t *testing.T) {
		engine, err := h.client.Engine(t.Context())
		if err != nil || engine.Model.Path != shaped || engine.Profile != "small" || engine.Model.Dimension != 2560 || engine.Memory == nil || engine.Memory.Need < 300<<20 {
			t.Errorf("%+v, memory %+v, %v", engine, engine.Memory, err)
		}
		m, err := h.client.InspectModel(t.Context(), shaped)
		if err != nil || !m.InUse {
			t.Errorf("%+v, %v", m, err)
		}
	})
}
