package control

import (
	"context"
	"net/http"
	"path/filepath"

	"github.com/ondol-app/ondol/internal/engines"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/models"
)

// Models knows the models on this machine. Its errors are *Error, or the system's.
type Models interface {
	List(ctx context.Context) (ModelList, error)
	Inspect(ctx context.Context, path string) (Model, error)
	Use(ctx context.Context, req UseModel) (UsedModel, error)
}

// Model is a model file, and what an engine that runs it would take.
type Model struct {
	models.Found
	InUse  bool            `json:"in_use"` // an engine of ours is set to run it now
	Memory *models.Verdict `json:"memory"` // nil when the machine does not tell, or the model can serve nothing
}

// ModelList is the reply to GET models.
type ModelList struct {
	Models     []Model             `json:"models"`     // by ref; never null
	Unreadable []models.Unreadable `json:"unreadable"` // never null
	Machine    *models.Machine     `json:"machine"`    // nil when it does not tell
}

// UseModel is the body of POST models/use: a path or a name, which flags, and
// how the engine in service is to be exchanged.
type UseModel struct {
	Path    string `json:"path,omitempty"`    // absolute
	Name    string `json:"name,omitempty"`    // the ref or the name of one model of GET models
	Profile string `json:"profile,omitempty"` // empty = as it is set

	NextStart bool `json:"next_start,omitempty"` // only set it: nothing changes before the next start
	InPlace   bool `json:"in_place,omitempty"`   // as of engines.Order, likewise below
	Quick     bool `json:"quick,omitempty"`
	Force     bool `json:"force,omitempty"` // as of engines.Promotion, likewise below
	Now       bool `json:"now,omitempty"`
}

// Applies says when a change counts.
type Applies string

// The moments.
const (
	AppliesNow        Applies = "now"        // the engine runs it so already
	AppliesTrial      Applies = "trial"      // when it has passed its trial as a candidate, which has begun
	AppliesNextStart  Applies = "next_start" // when the app is started again
	AppliesOverridden Applies = "overridden" // not while UsedModel.Overriding is set
	AppliesLocal      Applies = "local"      // when roles.embed.kind is local again
)

// String returns the moment as it stands in JSON.
func (a Applies) String() string { return string(a) }

// UsedModel is the reply to POST models/use.
type UsedModel struct {
	Model      Model             `json:"model"`
	Profile    string            `json:"profile"` // by which it will be run
	Applies    Applies           `json:"applies"`
	Overriding []string          `json:"overriding,omitempty"` // settings that the environment or a flag sets above the file
	Before     map[string]string `json:"before"`               // what the settings were; setting them so is undoing; empty where they are not changed yet
	Candidate  *engines.State    `json:"candidate,omitempty"`  // of AppliesTrial: as it began
}

// Codes of errors about models.
const (
	CodeModelUnreadable = "model_unreadable" // Args: path, reason
	CodeModelUnknown    = "model_unknown"    // no model has the name; Args: name
	CodeModelAmbiguous  = "model_ambiguous"  // several have; Args: name, count
	CodeModelRole       = "model_role"       // it does not embed; Args: path, role
	CodeModelBroken     = "model_broken"     // a warning forbids it; Args: path, warning, and the warning's own
	CodeMemoryShort     = string(llamaserver.CodeMemory)
	CodeGPUMemoryShort  = string(llamaserver.CodeGPUMemory)
)

func (s *Server) models(r *http.Request) (any, error) {
	if _, err := params(r); err != nil {
		return nil, err
	}
	return s.cfg.Models.List(r.Context())
}

func (s *Server) inspectModel(r *http.Request) (any, error) {
	values, err := params(r, "path")
	if err != nil {
		return nil, err
	}
	path := values["path"]
	if !filepath.IsAbs(path) {
		return nil, invalid("path", "is missing or relative", "send the absolute path of a GGUF file")
	}
	return s.cfg.Models.Inspect(r.Context(), filepath.Clean(path))
}

func (s *Server) useModel(r *http.Request) (any, error) {
	req, err := decode[UseModel](r)
	if err != nil {
		return nil, err
	}
	if (req.Path == "") == (req.Name == "") {
		return nil, invalid("path", "and name are both there, or neither", "send one of them")
	}
	if req.Path != "" && !filepath.IsAbs(req.Path) {
		return nil, invalid("path", "is relative", "send the absolute path of a GGUF file")
	}
	return s.cfg.Models.Use(r.Context(), req)
}
