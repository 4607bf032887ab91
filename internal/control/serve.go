package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// ErrRunning means that another app listens on the socket.
var ErrRunning = errors.New("another Ondol is running with the same home folder; use it, end it, or set ONDOL_HOME to another folder")

// maxSocketPath is what every system takes: sun_path holds 104 bytes on macOS,
// the closing NUL included.
const maxSocketPath = 103

// probeTime is how long a socket may take to say whether somebody listens.
const probeTime = 2 * time.Second

// lastWords is the time for the answers to requests that are cut.
const lastWords = time.Second

// headerTime and idleTime keep a broken caller from holding a connection.
const (
	headerTime = 10 * time.Second
	idleTime   = 2 * time.Minute
)

// Listen opens the socket, so that a second app is known before anything else
// starts. Run calls it when nobody has. A second call does nothing.
func (s *Server) Listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		return nil
	}
	l, err := listen(s.cfg.Socket)
	if err != nil {
		return err
	}
	s.listener = l
	return nil
}

func listen(path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("the socket path %s is longer than the %d bytes a system takes; set ONDOL_HOME to a shorter folder", path, maxSocketPath)
	}
	if err := closedFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, ErrRunning // somebody was faster
	}
	if err != nil {
		return nil, fmt.Errorf("open control socket: %w", err)
	}
	// Until here the folder alone keeps others out.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("close control socket to others: %w", err), l.Close())
	}
	return l, nil
}

// closedFolder makes the folder of the socket, or checks that only its owner can enter it.
func closedFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder of the control socket: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at folder of the control socket: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("the folder of the control socket is open to other users (mode %04o); run: chmod 700 %q", mode, dir)
	}
	return nil
}

// removeStale removes a socket that a dead app left. One that somebody
// listens on stays, and so does whatever is no socket.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at control socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is in the way of the control socket and no socket; move it away", path)
	}
	conn, err := net.DialTimeout("unix", path, probeTime)
	if err == nil {
		return errors.Join(ErrRunning, conn.Close())
	}
	// Anything but a refusal may come from a live app that is busy.
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w (%w)", ErrRunning, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove stale control socket: %w", err)
	}
	return nil
}

// Run serves until ctx ends, then takes no new requests, gives those under way
// the grace time, ends the rest with a 503, and returns when every handler has
// returned. It can run once. The socket is gone afterwards.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Listen(); err != nil {
		return err
	}
	requests, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	// Counts connections until their goroutines are done: Close does not wait
	// for handlers, Run does.
	var conns sync.WaitGroup
	srv := &http.Server{
		Handler:     s.Handler(),
		BaseContext: func(net.Listener) context.Context { return requests },
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			conns.Add(1)
			return ctx
		},
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				conns.Done()
			}
		},
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		ErrorLog:          slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
	}
	s.mu.Lock()
	l := s.listener
	s.mu.Unlock()
	stopFeeding := s.feed()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	var err error
	select {
	case err = <-served:
		cut(errStopping)
		err = errors.Join(fmt.Errorf("serve control socket: %w", err), srv.Close())
	case <-ctx.Done():
		s.end() // streams would last for ever
		err = s.shutdown(context.WithoutCancel(ctx), srv, cut)
		<-served
	}
	conns.Wait()
	return errors.Join(err, stopFeeding())
}

// feed runs what streams read from, until stop is called and all of it has ended.
func (s *Server) feed() (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.stream.Run(ctx) })
	group.Go(func() error { return s.sampler.run(ctx) })
	return func() error {
		s.end()
		cancel()
		return group.Wait()
	}
}

// shutdown lets requests finish, then cuts them, then their connections.
func (s *Server) shutdown(ctx context.Context, srv *http.Server, cut context.CancelCauseFunc) error {
	for _, wait := range []time.Duration{s.cfg.Grace, lastWords} {
		limit, done := context.WithTimeout(ctx, wait)
		err := srv.Shutdown(limit)
		done()
		if err == nil {
			return nil
		}
		cut(errStopping)
	}
	return srv.Close()
}
