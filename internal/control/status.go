package control

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/gpu"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/yielding"
)

func (s *Server) status(r *http.Request) (any, error) {
	if _, err := params(r); err != nil {
		return nil, err
	}
	return s.snapshot(r.Context())
}

// snapshot is everything now. The number of the last event is read first, so
// that whatever comes after it is told of by a later one.
func (s *Server) snapshot(ctx context.Context) (Status, error) {
	kept, err := s.stream.Span(ctx)
	if err != nil {
		return Status{}, err
	}
	folders, err := s.cfg.Index.Folders(ctx)
	if err != nil {
		return Status{}, fmt.Errorf("read the index's counts: %w", err)
	}
	index := indexStatus(folders, s.cfg.Indexer.Counters())
	index.Yielding = s.yielding()
	if index.Generations, err = s.listGenerations(ctx); err != nil {
		return Status{}, err
	}
	engine, roles := s.cfg.Engine.Snapshot(), s.roles()
	return Status{
		Seq:       kept.Newest,
		OldestSeq: kept.Oldest,
		Version:   s.cfg.Version,
		Endpoint:  s.cfg.Endpoint(),
		Engine:    engine,
		Admission: s.cfg.Gate.Stats(),
		Validity:  s.validity(engine),
		Cache:     s.cacheStats(),
		GPU:       s.gpu(ctx),
		Index:     index,
		Roles:     roles,
		Capacity:  s.cfg.Settings.Chain(),
		Problems:  append(problems(engine, folders), slices.Concat(trustProblems(s.validity(engine)), roleProblems(roles))...),
	}, nil
}

func (s *Server) cacheStats() embedding.CacheStats {
	if s.cfg.Cache == nil {
		return embedding.CacheStats{}
	}
	return s.cfg.Cache()
}

// gpu is the machine's, and keeps its figures current for a while.
func (s *Server) gpu(ctx context.Context) gpu.Status {
	if s.cfg.GPU == nil {
		return gpu.Status{Reason: gpu.ReasonUnread}
	}
	return s.cfg.GPU(ctx)
}

func (s *Server) yielding() *yielding.State {
	if s.cfg.Yielding == nil {
		return nil
	}
	return s.cfg.Yielding()
}

// indexStatus sums the folders up. They come from one statement, so the sum
// balances as each of them does.
func indexStatus(folders []document.Folder, work Counters) IndexStatus {
	status := IndexStatus{Folders: len(folders), Counters: work}
	var last time.Time
	for _, f := range folders {
		status.Counts = status.Counts.Add(f.Counts)
		if f.LastScan.After(last) {
			last = f.LastScan
		}
	}
	if !last.IsZero() {
		status.LastScan = &last
	}
	return status
}

// problems derives what is wrong now from what the parts say of themselves.
func problems(engine llamaserver.Status, folders []document.Folder) []Problem {
	found := []Problem{}
	switch engine.State {
	case llamaserver.Failed:
		found = append(found, engineProblem(engine, SeverityError))
	case llamaserver.Degraded:
		found = append(found, engineProblem(engine, SeverityWarning))
	}
	for _, f := range folders {
		if f.State == document.FolderOffline || f.State == document.FolderDenied {
			found = append(found, Problem{Code: "folder_" + f.State.String(), Severity: SeverityWarning,
				Args: map[string]string{"path": f.Path, "reason": f.Reason}})
		}
		if f.Counts.Failed > 0 {
			found = append(found, Problem{Code: "documents_failed", Severity: SeverityWarning,
				Args: map[string]string{"path": f.Path, "count": strconv.FormatInt(f.Counts.Failed, 10)}})
		}
	}
	return found
}

func engineProblem(engine llamaserver.Status, severity Severity) Problem {
	since := engine.Since
	p := Problem{Code: "engine_" + engine.State.String(), Severity: severity, Since: &since,
		Args: map[string]string{"cause": engine.Cause.String()}}
	if e := engine.LastError; e != nil {
		maps.Copy(p.Args, e.Args)
		p.Args["problem"], p.Args["detail"], p.Args["remedy"] = string(e.Code), e.Message, string(e.Remedy)
	}
	return p
}
