package control

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Prefix is where every route lives.
const Prefix = "/ondol/v1/"

// action answers one route: with a value that becomes JSON, nothing (204), or
// an error.
type action func(r *http.Request) (any, error)

// methods is one path of the API.
type methods map[string]action

// routes is the one table.
func (s *Server) routes() *http.ServeMux {
	table := map[string]methods{
		"status":               {"GET": s.status},
		"events":               {"GET": s.events},
		"history":              {"GET": s.history},
		"folders":              {"GET": s.folders, "POST": s.addFolder},
		"folders/{id}":         {"DELETE": s.removeFolder},
		"folders/{id}/rescan":  {"POST": s.rescanFolder},
		"search":               {"POST": s.search},
		"documents":            {"GET": s.documents},
		"documents/{id}":       {"GET": s.document},
		"documents/{id}/retry": {"POST": s.retryDocument},
		"engine":               {"GET": s.engine},
		"engine/start":         {"POST": s.engineAction(s.cfg.Engine.Start)},
		"engine/stop":          {"POST": s.engineAction(s.cfg.Engine.Stop)},
		"engine/restart":       {"POST": s.engineAction(s.cfg.Engine.Restart)},
		"engine/candidate":     {"GET": s.candidate, "POST": s.tryCandidate, "DELETE": s.dropCandidate},
		"engine/promote":       {"POST": s.promote},
		"engine/rollback":      {"POST": s.rollback},
		"engine/logs":          {"GET": s.engineLogs},
		"generations":          {"GET": s.generations},
		"models":               {"GET": s.models},
		"engine/check":         {"POST": s.engineAction(s.cfg.Trust.Recheck)},
		"models/inspect":       {"GET": s.inspectModel},
		"engine/report":        {"GET": s.engineReport},
		"models/use":           {"POST": s.useModel},
		"engine/quarantine":    {"GET": s.quarantine, "DELETE": s.liftQuarantine},
		"settings":             {"GET": s.settings, "PATCH": s.changeSettings},
		"settings/chain":       {"GET": s.chain},
		"settings/preview":     {"POST": s.previewSettings},
		"verify":               {"GET": s.verifications, "POST": s.verify},
	}
	if s.cfg.Pulls != nil {
		maps.Copy(table, s.pullRoutes())
	}
	mux := http.NewServeMux()
	for path, byMethod := range table {
		mux.Handle(Prefix+path, s.serve(byMethod))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, &Error{Status: http.StatusNotFound, Code: CodeUnknownRoute,
			Message: "no route " + r.Method + " " + r.URL.Path, Remedy: "the routes begin with " + Prefix + "status"})
	})
	return mux
}

// serve picks the action by method and writes what it returns.
func (s *Server) serve(byMethod methods) http.HandlerFunc {
	allowed := slices.Sorted(maps.Keys(byMethod))
	return func(w http.ResponseWriter, r *http.Request) {
		act, ok := byMethod[r.Method]
		if !ok {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			s.fail(w, r, &Error{Status: http.StatusMethodNotAllowed, Code: CodeMethodNotAllowed,
				Message: r.Method + " is not possible here", Remedy: "use " + strings.Join(allowed, " or ")})
			return
		}
		value, err := act(r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.reply(w, r, value)
	}
}
