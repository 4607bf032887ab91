package app

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/locations"
	"github.com/ondol-app/ondol/internal/models"
	"github.com/ondol-app/ondol/internal/search"
	"github.com/ondol-app/ondol/internal/settings"
)

// starterModel is the file name of the model that comes with the app.
const starterModel = "ondol-starter-en.gguf"

// starterProfile is the set of flags made for it.
const starterProfile = "starter"

// findModel says which model to run: the setting, else one that was put into
// the data folder, else the one that came with the app, else that of a
// checkout. Empty when there is none; the engine then says what helps.
func findModel(setting string, paths locations.Paths, executable string) string {
	if setting != "" {
		return setting
	}
	var candidates, starters []string
	entries, _ := os.ReadDir(paths.Models()) // sorted by name; no folder is no model
	for _, entry := range entries {
		switch path := filepath.Join(paths.Models(), entry.Name()); {
		case isStarter(path):
			starters = append(starters, path)
		case filepath.Ext(path) == ".gguf": // who put it there wants it rather than the starter
			candidates = append(candidates, path)
		}
	}
	candidates = append(append(candidates, starters...), bundledModels(executable)...)
	for _, path := range candidates {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}

// bundledModels are where the model that came with the app may be.
func bundledModels(executable string) []string {
	binary := filepath.Dir(executable)
	return []string{
		filepath.Join(binary, "..", "Resources", starterModel),      // Ondol.app/Contents/MacOS/ondol
		filepath.Join(binary, "..", "deps", "models", starterModel), // build/bin/ondol
	}
}

func isStarter(path string) bool { return filepath.Base(path) == starterModel }

// chooseProfile is the flags to run model with: the profile that is set, else
// the one made for the model, with the owner's own flags after it.
func chooseProfile(engine settings.Engine, model string) (llamaserver.Profile, error) {
	m, _ := models.Inspect(model) // the engine says what is wrong with it
	return profileFor(engine, model, m)
}

// profileFor is chooseProfile for a model that was read; m is nil where it could not be.
func profileFor(engine settings.Engine, model string, m *models.Model) (llamaserver.Profile, error) {
	name := engine.Profile
	if name == "" {
		name = "standard"
		if isStarter(model) {
			name = starterProfile
		}
	}
	profile, err := llamaserver.ProfileByName(name)
	if err != nil {
		var names []string
		for _, p := range llamaserver.Profiles() {
			names = append(names, p.Name)
		}
		return llamaserver.Profile{}, settings.NoChoice("engine.profile", name, names...)
	}
	if m != nil {
		profile.Flags = m.FlagsFor(profile.Flags)
	}
	profile.Flags = append(slices.Clone(profile.Flags), engine.Flags...)
	return profile, nil
}

// searchTrust says how far search believes a model's vectors: the family it was
// measured for in full, any other only behind the words.
func searchTrust(engine func() llamaserver.Status) func(fingerprint string) search.Trust {
	return func(fingerprint string) search.Trust {
		now := engine()
		name := strings.ToLower(now.Model.Name)
		if now.Fingerprint == fingerprint && strings.HasPrefix(name, "qwen3-embedding") {
			return search.StrongTrust()
		}
		return search.WeakTrust()
	}
}
