package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/search"
)

func (s *Server) folders(r *http.Request) (any, error) {
	if _, err := params(r); err != nil {
		return nil, err
	}
	folders, err := s.cfg.Index.Folders(r.Context())
	if err != nil {
		return nil, fmt.Errorf("list folders: %w", err)
	}
	return Folders{Folders: append([]document.Folder{}, folders...)}, nil
}

func (s *Server) addFolder(r *http.Request) (any, error) {
	req, err := decode[AddFolder](r)
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(req.Path) {
		return nil, invalid("path", "is missing or relative", "send the absolute path of a folder")
	}
	path := filepath.Clean(req.Path)
	if err := checkFolder(path); err != nil {
		return nil, err
	}
	folder, err := s.cfg.Indexer.Add(r.Context(), path)
	if errors.Is(err, document.ErrFolderExists) {
		return nil, &Error{Status: http.StatusConflict, Code: CodeFolderExists, Message: path + " is already watched",
			Remedy: "nothing is to be done; `ondol folders rescan` looks at it again", Args: map[string]string{"path": path}}
	}
	return folder, err
}

// checkFolder finds what the indexer's errors would not name, and leaves the
// rest to it.
func checkFolder(path string) error {
	info, err := os.Stat(path)
	args := map[string]string{"path": path}
	switch {
	case err == nil && !info.IsDir(), errors.Is(err, syscall.ENOTDIR):
		return &Error{Status: http.StatusBadRequest, Code: CodeNotAFolder,
			Message: path + " is not a folder", Remedy: "add the folder that it lies in", Args: args}
	case errors.Is(err, syscall.ELOOP):
		return &Error{Status: http.StatusBadRequest, Code: CodeLinkLoop,
			Message: path + " leads through links that never end", Remedy: "correct the links", Args: args}
	case errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.EINVAL):
		return invalid("path", "is none that a system has", "check the path")
	}
	return nil
}

func (s *Server) removeFolder(r *http.Request) (any, error) {
	return s.onID(r, "folder", func(ctx context.Context, id int64) error {
		return s.cfg.Indexer.Remove(ctx, document.FolderID(id))
	})
}

func (s *Server) rescanFolder(r *http.Request) (any, error) {
	return s.onID(r, "folder", func(ctx context.Context, id int64) error {
		return s.cfg.Indexer.Rescan(ctx, document.FolderID(id))
	})
}

func (s *Server) retryDocument(r *http.Request) (any, error) {
	return s.onID(r, "document", func(ctx context.Context, id int64) error {
		return s.cfg.Indexer.Retry(ctx, document.ID(id))
	})
}

// onID does something to the folder or document (kind) named in the path; the reply is empty.
func (s *Server) onID(r *http.Request, kind string, do func(context.Context, int64) error) (any, error) {
	id, err := pathID(r)
	if err != nil {
		return nil, err
	}
	if err := noBody(r); err != nil {
		return nil, err
	}
	err = do(r.Context(), id)
	if errors.Is(err, document.ErrNotFound) {
		return nil, notFound(kind, id)
	}
	return nil, err
}

func (s *Server) search(r *http.Request) (any, error) {
	req, err := decode[search.Request](r)
	if err != nil {
		return nil, err
	}
	if req.Path, err = s.locate(r.Context(), req.Path); err != nil {
		return nil, err
	}
	reply, err := s.cfg.Search.Search(r.Context(), req)
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	return reply, nil
}

func (s *Server) engine(r *http.Request) (any, error) {
	if _, err := params(r); err != nil {
		return nil, err
	}
	return s.cfg.Engine.Snapshot(), nil
}

// engineAction steers the engine and answers with where it stands then.
func (s *Server) engineAction(do func(context.Context) error) action {
	return func(r *http.Request) (any, error) {
		if err := noBody(r); err != nil {
			return nil, err
		}
		if err := do(r.Context()); err != nil {
			return nil, err
		}
		return s.cfg.Engine.Snapshot(), nil
	}
}

// Numbers of lines of GET engine/logs.
const (
	defaultLines = 100
	maxLines     = 10000
)

func (s *Server) engineLogs(r *http.Request) (any, error) {
	values, err := params(r, "lines")
	if err != nil {
		return nil, err
	}
	n, err := number(values, "lines", 1, maxLines, defaultLines)
	if err != nil {
		return nil, err
	}
	tail, err := s.cfg.Engine.LogTail(n)
	if err != nil {
		return nil, fmt.Errorf("read engine log: %w", err)
	}
	return lines(tail), nil
}
