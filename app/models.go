package app

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/engines"
	"github.com/ondol-app/ondol/internal/gguf"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/locations"
	"github.com/ondol-app/ondol/internal/models"
	"github.com/ondol-app/ondol/internal/settings"
	"github.com/ondol-app/ondol/internal/upstream"
)

// library is the models of this machine as control sees them.
type library struct {
	live    *settings.Live
	places  []models.Place
	machine models.Machine
	engine  func() llamaserver.Status
	keeper  func() *engines.Keeper // nil, or of nil, where others run the engine
}

func newLibrary(s *settings.Live, paths locations.Paths, executable string, machine models.Machine, engine func() llamaserver.Status, keeper func() *engines.Keeper) library {
	env := models.Environment{GOOS: runtime.GOOS, Getenv: os.Getenv, Own: paths.Models()}
	env.Home, _ = os.UserHomeDir() // without one fewer places are known
	for _, path := range bundledModels(executable) {
		if _, err := os.Stat(path); err == nil {
			env.Starter = path
			break
		}
	}
	return library{live: s, places: models.Places(env), machine: machine, engine: engine, keeper: keeper}
}

// List looks through every place.
func (l library) List(ctx context.Context) (control.ModelList, error) {
	found, err := l.discover(ctx)
	if err != nil {
		return control.ModelList{}, err
	}
	list := control.ModelList{Models: []control.Model{}, Unreadable: found.Unreadable}
	if l.machine.Total > 0 {
		list.Machine = &l.machine
	}
	for _, m := range found.Models {
		list.Models = append(list.Models, l.describe(m))
	}
	return list, nil
}

// discover looks through the places, and at the models that are set.
func (l library) discover(ctx context.Context) (models.Discovery, error) {
	places := slices.Clone(l.places)
	for _, path := range l.running() {
		if path != "" {
			places = append(places, models.Place{Source: models.SourceSetting, Path: path})
		}
	}
	return models.Discover(ctx, places)
}

// Inspect reads one file, wherever it lies.
func (l library) Inspect(_ context.Context, path string) (control.Model, error) {
	m, err := models.Inspect(path)
	if err != nil {
		return control.Model{}, modelError(path, err)
	}
	return l.describe(models.Found{Model: *m}), nil
}

// describe adds what the machine and the settings say of a model.
func (l library) describe(m models.Found) control.Model {
	model := control.Model{Found: m, InUse: slices.ContainsFunc(l.running(), func(path string) bool { return sameFile(path, m.Path) })}
	profile, err := l.profile(&m.Model, "")
	if err != nil || m.Role == "" || l.machine.Total == 0 {
		return model
	}
	v := l.weigh(&m.Model, profile)
	model.Memory = &v
	return model
}

// running are the paths of the models that engines of ours are set to run.
func (l library) running() []string {
	paths := []string{l.engine().Model.Path}
	for _, role := range []upstream.Role{upstream.RoleRerank, upstream.RoleChat} {
		if chosen := l.live.Now().Roles.Of(role); chosen.Kind == settings.KindLocal {
			paths = append(paths, chosen.Model)
		}
	}
	return paths
}

// profile is how the model would be run: with the profile named, else the one set.
func (l library) profile(m *models.Model, name string) (llamaserver.Profile, error) {
	if m.Role == upstream.RoleRerank || m.Role == upstream.RoleChat {
		return roleProfile(m.Role, *l.live.Now().Roles.Of(m.Role))
	}
	engine := l.inService()
	if name != "" {
		engine.Profile = name
	}
	return chooseProfile(engine, m.Path)
}

// inService is what the engine in service is set to, else what the settings say.
func (l library) inService() settings.Engine {
	engine := l.live.Now().Engine
	if l.keeper != nil && l.keeper() != nil {
		takeSetup(&engine, l.keeper().State().Live)
	}
	return engine
}

func (l library) weigh(m *models.Model, profile llamaserver.Profile) models.Verdict {
	var others []models.Profile
	if m.Role == upstream.RoleEmbed {
		others = smallerProfiles(l.inService())
	}
	return m.Weigh(l.machine, models.Profile{Name: profile.Name, Flags: profile.Flags}, others, buildNumber(l.engine().Version))
}

// find is the model a request names.
func (l library) find(ctx context.Context, req control.UseModel) (models.Found, error) {
	if req.Path != "" {
		path := filepath.Clean(req.Path)
		m, err := models.Inspect(path)
		if err != nil {
			return models.Found{}, modelError(path, err)
		}
		return models.Found{Model: *m}, nil
	}
	all, err := l.discover(ctx)
	if err != nil {
		return models.Found{}, err
	}
	var named []models.Found
	for _, m := range all.Models {
		if m.Ref == req.Name || m.Name == req.Name {
			named = append(named, m)
		}
	}
	switch len(named) {
	case 1:
		return named[0], nil
	case 0:
		return models.Found{}, &control.Error{Status: http.StatusNotFound, Code: control.CodeModelUnknown, Message: "no model here is called " + req.Name,
			Remedy: "`ondol models list` has the names; a file elsewhere is named by its path", Args: map[string]string{"name": req.Name}}
	}
	count := strconv.Itoa(len(named))
	return models.Found{}, &control.Error{Status: http.StatusConflict, Code: control.CodeModelAmbiguous, Message: count + " models here are called " + req.Name,
		Remedy: "name the one that is meant by its path", Args: map[string]string{"name": req.Name, "count": count}}
}

// serves refuses a model that cannot embed.
func serves(m *models.Model) error {
	if m.Role != upstream.RoleEmbed {
		return &control.Error{Status: http.StatusConflict, Code: control.CodeModelRole, Message: m.Path + " is no model that embeds",
			Remedy: "choose one that does; `ondol models list` says what each is for", Args: map[string]string{"path": m.Path, "role": m.Role.String()}}
	}
	if w := m.Broken(); w != nil {
		args := map[string]string{"path": m.Path}
		maps.Copy(args, w.Args)
		args["warning"] = w.Code.String()
		return &control.Error{Status: http.StatusConflict, Code: control.CodeModelBroken, Message: m.Path + " cannot be used: " + w.Code.String(),
			Remedy: "download it again, or choose another", Args: args}
	}
	return nil
}

// memoryError refuses what would not be started.
func memoryError(v models.Verdict) *control.Error {
	p := memoryProblem(v)
	remedy := "choose a smaller model"
	if v.Smaller != "" {
		remedy = "send profile " + v.Smaller
	}
	return &control.Error{Status: http.StatusConflict, Code: string(p.Code), Message: p.Message, Remedy: remedy, Args: p.Args}
}

// modelError is why a file could not be read as a model.
func modelError(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return err
	}
	remedy := "choose a GGUF file, or download it again"
	if part, ok := errors.AsType[*models.NotFirstPartError](err); ok {
		remedy = "name its first part, " + part.First
	} else if _, damaged := errors.AsType[*gguf.DamagedError](err); !damaged && !errors.Is(err, gguf.ErrNotGGUF) {
		return err
	}
	return &control.Error{Status: http.StatusBadRequest, Code: control.CodeModelUnreadable, Message: path + ": " + err.Error(), Remedy: remedy,
		Args: map[string]string{"path": path, "reason": err.Error()}}
}

// sameFile reports whether two paths lead to one file.
func sameFile(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	one, err := os.Stat(a)
	if err != nil {
		return a == b
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}
