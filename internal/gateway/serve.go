package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Limits of the HTTP server. There is no limit on the whole time of a request
// here: waiting and execution together may take 420 s, and the door ends
// both. Bodies and replies have limits of their own (bodyTime, writeTime).
const (
	headerTime = 10 * time.Second
	idleTime   = 2 * time.Minute
	maxHeader  = 64 << 10    // bytes
	lastWords  = time.Second // for the answers to requests that are cut
)

// Run serves until ctx ends, then takes no new requests, gives those under
// way the grace time, ends the rest with a 503, and returns when every handler
// has returned. It can run once. A listener that breaks ends Run with its error.
func (g *Gateway) Run(ctx context.Context) error {
	if err := g.Listen(); err != nil {
		return err
	}
	requests, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	var conns sync.WaitGroup
	srv := g.server(requests, &conns)
	group, gctx := errgroup.WithContext(ctx)
	g.mu.Lock()
	listeners := g.listeners
	g.mu.Unlock()
	for _, l := range listeners {
		group.Go(func() error {
			if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	group.Go(func() error {
		<-gctx.Done()
		for _, wait := range []time.Duration{g.grace, lastWords} {
			limit, done := context.WithTimeout(context.WithoutCancel(ctx), wait)
			err := srv.Shutdown(limit)
			done()
			if err == nil {
				return nil
			}
			cut(errStopping)
		}
		return srv.Close()
	})
	err := group.Wait()
	conns.Wait()
	return err
}

// server is the http.Server of Run. conns counts connections from the moment
// they are accepted until their goroutine is done: Close does not wait for
// handlers, Run does.
func (g *Gateway) server(base context.Context, conns *sync.WaitGroup) *http.Server {
	return &http.Server{
		Handler:     g.Handler(),
		BaseContext: func(net.Listener) context.Context { return base },
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			conns.Add(1)
			return ctx
		},
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				conns.Done()
			}
		},
		ReadHeaderTimeout:            headerTime,
		IdleTimeout:                  idleTime,
		MaxHeaderBytes:               maxHeader,
		DisableGeneralOptionsHandler: true, // OPTIONS * passes the gate as well
		ErrorLog:                     slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
	}
}
