package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/ondol-app/ondol/internal/models/catalog"
	"github.com/ondol-app/ondol/internal/models/hub"
	"github.com/ondol-app/ondol/internal/models/pull"
)

// Puller downloads models. An id that does not exist is pull.ErrNotFound.
type Puller interface {
	Catalogue() []catalog.Model
	List() []pull.Pull
	Pull(ctx context.Context, req pull.Request) (pull.Pull, error)
	Pause(ctx context.Context, id int64) (pull.Pull, error)
	Resume(ctx context.Context, id int64) (pull.Pull, error)
	Remove(ctx context.Context, id int64) error
}

// Pulls is the reply to GET models/pulls.
type Pulls struct {
	Pulls []pull.Pull `json:"pulls"` // never null; oldest first
}

// Catalogue is the reply to GET models/catalog.
type Catalogue struct {
	Models []catalog.Model `json:"models"`
}

// Codes of Error about pulls.
const (
	CodeUnknownModel    = "unknown_model"
	CodeLicenceRequired = "licence_required" // Args: model, licence, url, page, size (bytes)
	CodeNoHash          = "no_hash"          // Args: model, page
	CodeHubAccess       = "hub_access"       // Args: repo, page
	CodeHubNotFound     = "hub_not_found"    // Args: repo, file
	CodeHubUnreachable  = "hub_unreachable"  // Args: host, detail
)

// pullRoutes are the routes of models that are downloaded.
func (s *Server) pullRoutes() map[string]methods {
	return map[string]methods{
		"models/catalog":           {"GET": s.catalogue},
		"models/pull":              {"POST": s.pull},
		"models/pulls":             {"GET": s.pulls},
		"models/pulls/{id}":        {"DELETE": s.removePull},
		"models/pulls/{id}/pause":  {"POST": s.onPull(s.cfg.Pulls.Pause)},
		"models/pulls/{id}/resume": {"POST": s.onPull(s.cfg.Pulls.Resume)},
	}
}

func (s *Server) catalogue(r *http.Request) (any, error) {
	if _, err := params(r); err != nil {
		return nil, err
	}
	return Catalogue{Models: s.cfg.Pulls.Catalogue()}, nil
}

func (s *Server) pulls(r *http.Request) (any, error) {
	if _, err := params(r); err != nil {
		return nil, err
	}
	return Pulls{Pulls: append([]pull.Pull{}, s.cfg.Pulls.List()...)}, nil
}

func (s *Server) pull(r *http.Request) (any, error) {
	req, err := decode[pull.Request](r)
	if err != nil {
		return nil, err
	}
	if req.Model == "" {
		return nil, invalid("model", "is missing", "send a name of the catalogue, or hf:OWNER/REPO:FILE")
	}
	p, err := s.cfg.Pulls.Pull(r.Context(), req)
	if err != nil {
		return nil, pullError(err, 0)
	}
	return p, nil
}

// onPull pauses or resumes a pull and answers with it.
func (s *Server) onPull(do func(context.Context, int64) (pull.Pull, error)) action {
	return func(r *http.Request) (any, error) {
		id, err := pathID(r)
		if err != nil {
			return nil, err
		}
		if err := noBody(r); err != nil {
			return nil, err
		}
		p, err := do(r.Context(), id)
		if err != nil {
			return nil, pullError(err, id)
		}
		return p, nil
	}
}

func (s *Server) removePull(r *http.Request) (any, error) {
	id, err := pathID(r)
	if err != nil {
		return nil, err
	}
	if err := noBody(r); err != nil {
		return nil, err
	}
	return nil, pullError(s.cfg.Pulls.Remove(r.Context(), id), id)
}

// pullError maps the errors of pulls to the API's; others pass.
func pullError(err error, id int64) error {
	if e, ok := errors.AsType[*catalog.ReferenceError](err); ok {
		reason := e.Code
		if e.Nearest != "" {
			reason += "_near"
		}
		return &Error{Status: http.StatusBadRequest, Code: CodeUnknownModel, Message: e.Error(), Remedy: "`ondol models catalog` has the names",
			Args: map[string]string{"text": e.Text, "reason": reason, "nearest": e.Nearest}}
	}
	if e, ok := errors.AsType[*pull.LicenceError](err); ok {
		return &Error{Status: http.StatusConflict, Code: CodeLicenceRequired, Message: e.Error(), Remedy: `send "accept_licence": ` + strconv.Quote(e.Licence),
			Args: map[string]string{"model": e.Model, "licence": e.Licence, "url": e.URL, "page": e.Page, "size": strconv.FormatInt(e.Size, 10)}}
	}
	if e, ok := errors.AsType[*pull.NoHashError](err); ok {
		return &Error{Status: http.StatusConflict, Code: CodeNoHash, Message: e.Error(), Remedy: `send "unverified": true to take it all the same`,
			Args: map[string]string{"model": e.Model, "page": e.Page}}
	}
	if e, ok := errors.AsType[*hub.AccessError](err); ok {
		return &Error{Status: http.StatusForbidden, Code: CodeHubAccess, Message: e.Error(),
			Remedy: "accept the terms at " + e.Page + ", then give a token: HF_TOKEN, or models.key with an account of the keychain",
			Args:   map[string]string{"repo": e.Repo, "page": e.Page}}
	}
	if e, ok := errors.AsType[*hub.NotFoundError](err); ok {
		return &Error{Status: http.StatusNotFound, Code: CodeHubNotFound, Message: e.Error(), Remedy: "check the names; upper and lower case count",
			Args: map[string]string{"repo": e.Repo, "file": e.File}}
	}
	if e, ok := errors.AsType[*hub.UnreachableError](err); ok {
		return &Error{Status: http.StatusBadGateway, Code: CodeHubUnreachable, Message: e.Error(), Remedy: "check the connection, models.mirror and models.proxy",
			Args: map[string]string{"host": e.Host, "detail": e.Err.Error()}}
	}
	switch {
	case errors.Is(err, pull.ErrNotFound):
		return &Error{Status: http.StatusNotFound, Code: CodeNotFound, Message: fmt.Sprintf("pull %d is not on the list", id), Remedy: "`ondol models pulls` has the numbers",
			Args: map[string]string{"kind": "pull", "id": strconv.FormatInt(id, 10)}}
	case errors.Is(err, pull.ErrClosed):
		return errStopping
	}
	return err
}
