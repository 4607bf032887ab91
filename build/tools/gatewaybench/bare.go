package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// The bare server does the least a server can: it answers GET with a few bytes
// and refuses a POST after reading its body. How long that takes in a process
// of its own, during the same run, is what the machine and this program's own
// clients cost; what the app takes beyond it is the app's.

// bare is the bare server as a child.
type bare struct {
	*child
	url string
}

func startBare(ctx context.Context, dir string) (*bare, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	b := &bare{url: "http://" + address + "/"}
	if b.child, err = startChild(filepath.Join(dir, "bare.log"), nil, self, "-bare", address); err != nil {
		return nil, err
	}
	client := newHTTPClient(1)
	defer client.CloseIdleConnections()
	err = b.ready(ctx, func(ctx context.Context) error {
		_, err := get(ctx, client, b.url)
		return err
	})
	if err != nil {
		b.stop()
		return nil, err
	}
	return b, nil
}

func serveBare(ctx context.Context, address string) error {
	server := &http.Server{Addr: address, ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPost {
			_, _ = io.Copy(io.Discard, r.Body) // a client that leaves is no concern here
			w.WriteHeader(http.StatusTooManyRequests)
		}
		_, _ = io.WriteString(w, `{"status":"ok"}`)
	})}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		return err
	}
	return nil
}
