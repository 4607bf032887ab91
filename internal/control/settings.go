package control

import (
	"errors"
	"net/http"

	"github.com/ondol-app/ondol/internal/settings"
)

// Settings are the settings of the running app. Errors of Change and Preview
// are *settings.ProblemsError, settings.ErrBusy, or the system's.
type Settings interface {
	List() SettingsList
	Chain() []settings.Check // never nil
	Change(changes map[string]string) (settings.Changed, error)
	// Preview changes nothing. Where values are good but do not hold together,
	// the chain comes with the error.
	Preview(changes map[string]string) (settings.Changed, error)
}

// Setting is one value of GET settings.
type Setting struct {
	Key     string           `json:"key"`      // dotted, as in the settings file
	Value   string           `json:"value"`    // as the settings file and the command line write it
	InForce string           `json:"in_force"` // by which the app goes now; another than Value until it is started again
	Default string           `json:"default"`  // likewise
	Source  settings.Source  `json:"source"`
	Type    settings.Type    `json:"type"`
	Unit    string           `json:"unit,omitempty"`
	Min     *int             `json:"min,omitempty"` // of a number, or seconds of a time
	Max     *int             `json:"max,omitempty"`
	Applies settings.Applies `json:"applies"`          // when a change counts
	Bounds  []settings.Bound `json:"bounds,omitempty"` // what to raise with it
}

// SettingsList is the reply to GET settings.
type SettingsList struct {
	File     string             `json:"file"`               // path of the settings file
	Refused  string             `json:"refused,omitempty"`  // why the file as it was edited does not count; empty = it does
	Problems []settings.Problem `json:"problems,omitempty"` // the same one by one, where it can be told so
	Settings []Setting          `json:"settings"`           // never null
}

// SettingsChange is the body of PATCH settings and of POST settings/preview.
type SettingsChange struct {
	Changes map[string]string `json:"changes"` // by key, as config set takes them; empty = back to the default
}

// SettingsChanged is the reply to them.
type SettingsChanged struct {
	Before     map[string]string           `json:"before"`               // what the file said; sent as changes it undoes this
	Applies    map[string]settings.Applies `json:"applies"`              // when each counts
	Overridden []string                    `json:"overridden,omitempty"` // keys that the environment or a flag sets above the file
	Chain      []settings.Check            `json:"chain"`                // as it is then; never null
	Refused    []settings.Problem          `json:"refused"`              // of a preview: why it would be refused; never null
}

// Chain is the reply to GET settings/chain.
type Chain struct {
	Links []settings.Check `json:"links"` // in the order of a request's way; never null
}

func (s *Server) settings(r *http.Request) (any, error) {
	if _, err := params(r); err != nil {
		return nil, err
	}
	return s.cfg.Settings.List(), nil
}

func (s *Server) chain(r *http.Request) (any, error) {
	if _, err := params(r); err != nil {
		return nil, err
	}
	return Chain{Links: s.cfg.Settings.Chain()}, nil
}

func (s *Server) changeSettings(r *http.Request) (any, error) {
	changes, err := readChanges(r)
	if err != nil {
		return nil, err
	}
	changed, err := s.cfg.Settings.Change(changes)
	if err != nil {
		return nil, err
	}
	return reply(changed, nil), nil
}

func (s *Server) previewSettings(r *http.Request) (any, error) {
	changes, err := readChanges(r)
	if err != nil {
		return nil, err
	}
	changed, err := s.cfg.Settings.Preview(changes)
	if refused, ok := errors.AsType[*settings.ProblemsError](err); ok && changed.Chain != nil {
		return reply(changed, refused.Problems), nil
	}
	if err != nil {
		return nil, err
	}
	return reply(changed, nil), nil
}

func readChanges(r *http.Request) (map[string]string, error) {
	if _, err := params(r); err != nil {
		return nil, err
	}
	body, err := decode[SettingsChange](r)
	if err != nil {
		return nil, err
	}
	if len(body.Changes) == 0 {
		return nil, invalid("changes", "is missing", `send {"changes":{"KEY":"VALUE"}}`)
	}
	return body.Changes, nil
}

func reply(c settings.Changed, refused []settings.Problem) SettingsChanged {
	if refused == nil {
		refused = []settings.Problem{}
	}
	return SettingsChanged{Before: c.Before, Applies: c.Applies, Overridden: c.Overridden, Chain: c.Chain, Refused: refused}
}

// refusedSettings is the error of values that are not possible, by themselves
// or together.
func refusedSettings(e *settings.ProblemsError) *Error {
	status := http.StatusConflict
	for _, p := range e.Problems {
		if p.Code != settings.CodeBrokenChain {
			status = http.StatusBadRequest
		}
	}
	return &Error{Status: status, Code: CodeSettingsRefused, Message: e.Error(), Remedy: "change what is named, or what it depends on, in the same request", Problems: e.Problems}
}
