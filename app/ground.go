package app

import (
	"cmp"
	"io/fs"
	"os"
	"runtime"
	"sync"

	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/locations"
	"github.com/ondol-app/ondol/internal/models"
	"github.com/ondol-app/ondol/internal/settings"
	"github.com/ondol-app/ondol/internal/sqlite"
	"github.com/ondol-app/ondol/internal/upstream"
)

// ground is what settings stand on: this machine and the models on it. Its
// methods may be called from any goroutine.
type ground struct {
	machine    models.Machine // zero when the system does not tell
	paths      locations.Paths
	executable string
	version    func() string // what llama-server says of itself; empty = not known yet

	mu   sync.Mutex
	read map[string]reading // model files as they were read last, by path; guarded by mu
}

// reading is a model file's header, and the file when it was read.
type reading struct {
	info  fs.FileInfo
	model *models.Model // nil = it cannot be read
}

func newGround(machine models.Machine, paths locations.Paths, executable string, version func() string) *ground {
	return &ground{machine: machine, paths: paths, executable: executable, version: version, read: make(map[string]reading)}
}

// inspect reads a model once, as long as its file stays the same; nil when it
// cannot be read.
func (g *ground) inspect(path string) *models.Model {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if known, ok := g.read[path]; ok && os.SameFile(known.info, info) && known.info.Size() == info.Size() && known.info.ModTime().Equal(info.ModTime()) {
		return known.model
	}
	model, err := models.Inspect(path)
	if err != nil {
		model = nil
	}
	g.read[path] = reading{info, model}
	return model
}

// facts are what the settings come to here. The error is about the settings: a
// profile that does not exist, a flag whose value is no number.
func (g *ground) facts(s *settings.Settings) (settings.Facts, error) {
	f := settings.Facts{
		Cores: runtime.NumCPU(), Connections: llamaclient.DefaultLimits().MaxConns, IndexConnections: sqlite.ReadConnections,
		Engines: make(map[upstream.Role]settings.EngineFacts),
	}
	if g.machine.Total > 0 {
		f.Budget, f.WorkingSet = g.machine.Budget(), g.machine.WorkingSet
	}
	for _, role := range []upstream.Role{upstream.RoleRerank, upstream.RoleChat} {
		chosen := s.Roles.Of(role)
		if chosen.Kind != settings.KindLocal {
			continue
		}
		profile, err := roleProfile(role, *chosen)
		if err != nil {
			return settings.Facts{}, err
		}
		if f.Engines[role], err = g.engine(g.inspect(chosen.Model), profile.Flags); err != nil {
			return settings.Facts{}, err
		}
	}
	if s.Roles.Embed.Remote() {
		return f, nil
	}
	path := findModel(s.Engine.Model, g.paths, g.executable)
	model := g.inspect(path)
	profile, err := profileFor(s.Engine, path, model)
	if err != nil {
		return settings.Facts{}, err
	}
	e, err := g.engine(model, profile.Flags)
	if err != nil {
		return settings.Facts{}, err
	}
	e.Smaller = g.smaller(s, model, e, f)
	f.Engines[upstream.RoleEmbed] = e
	return f, nil
}

// engine is what an engine has that runs the model with these flags.
func (g *ground) engine(model *models.Model, flags []string) (settings.EngineFacts, error) {
	sizes, err := models.ReadSizes(flags)
	if err != nil {
		return settings.EngineFacts{}, err
	}
	e := settings.EngineFacts{Slots: sizes.Slots, Batch: sizes.Batch, Ubatch: sizes.Ubatch, Context: sizes.Context, Shared: sizes.Unified}
	if model == nil {
		return e, nil
	}
	e.Trained, e.Whole = model.Context, !model.Splits(flags)
	if e.Context == 0 {
		e.Context = model.Context
	}
	if model.Role != "" {
		need := model.Weigh(g.machine, models.Profile{Flags: flags}, nil, g.build()).Need
		e.Need, e.GPU = need.Total, need.GPU
	}
	return e, nil
}

// build is llama.cpp's number. As long as nobody has asked llama-server, it is
// taken for a known one: before a start the supervisor asks, and weighs again.
func (g *ground) build() int { return cmp.Or(buildNumber(g.version()), models.MeasuredBuild) }

// smaller is the largest profile with which everything would fit; empty when
// it fits as it is, or none would.
func (g *ground) smaller(s *settings.Settings, model *models.Model, e settings.EngineFacts, f settings.Facts) string {
	if model == nil || e.Need == 0 || f.Budget == 0 {
		return ""
	}
	need, gpu := int64(s.Cache.Memory)<<20, int64(0)
	for _, other := range f.Engines {
		need, gpu = need+other.Need, gpu+other.GPU
	}
	fits := func(e settings.EngineFacts) bool {
		return need+e.Need <= f.Budget && (f.WorkingSet == 0 || gpu+e.GPU <= f.WorkingSet)
	}
	if fits(e) {
		return ""
	}
	for _, p := range smallerProfiles(s.Engine) {
		if other, err := g.engine(model, model.FlagsFor(p.Flags)); err == nil && other.Need < e.Need && fits(other) {
			return p.Name
		}
	}
	return ""
}

// holds refuses settings with which the app cannot run.
func (g *ground) holds(s *settings.Settings) error {
	facts, err := g.facts(s)
	if err != nil {
		return err
	}
	return settings.Refusal(nil, settings.Unbearable(settings.Chain(s, facts)))
}

// acceptSettings refuses a change that the capacity chain does not hold, while
// no app runs.
func acceptSettings(before, after *settings.Loaded, changed []string) error {
	paths, err := locations.Resolve(locations.Current())
	if err != nil {
		return err
	}
	executable, _ := os.Executable()   // without it the bundled model is just not seen
	machine, _ := models.ThisMachine() // without it memory is not weighed
	g := newGround(machine, paths, executable, func() string { return "" })
	_, err = settings.Judge(g.facts, before, after, changed)
	return err
}
