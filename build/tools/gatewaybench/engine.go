package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ondol-app/ondol/internal/llamaserver"
)

// engine is a llama-server beside the app, with the flags the app's has.
type engine struct {
	*child
	url    string
	socket string // empty with TCP
	client *http.Client
}

// startEngine runs llama-server over TCP or a unix socket, without a key.
func startEngine(ctx context.Context, o options, dir, model, profile string, unix bool, more ...string) (*engine, error) {
	named, err := llamaserver.ProfileByName(profile)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	e := &engine{url: "http://llama-server", client: newHTTPClient(2)}
	args := slices.Concat([]string{"-m", model}, named.Flags, o.threadFlags(), more)
	if unix {
		e.socket = filepath.Join(dir, "direct.sock")
		args = append(args, "--host", e.socket)
		e.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", e.socket)
		}
	} else {
		address, err := freeAddress()
		if err != nil {
			return nil, err
		}
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		e.url = "http://" + address
		args = append(args, "--host", host, "--port", port)
	}
	if e.child, err = startChild(filepath.Join(dir, "direct.log"), nil, o.server, args...); err != nil {
		return nil, err
	}
	err = e.ready(ctx, func(ctx context.Context) error {
		_, err := get(ctx, e.client, e.url+"/health")
		return err
	})
	if err != nil {
		e.stop()
		return nil, err
	}
	return e, nil
}

// threadFlags are the flags that both engines of a comparison get beyond the
// profile's.
func (o options) threadFlags() []string {
	if o.threads == 0 {
		return nil
	}
	return []string{"-t", strconv.Itoa(o.threads)}
}

// address is where the engine listens: a path or host:port.
func (e *engine) address() string {
	if e.socket != "" {
		return e.socket
	}
	return strings.TrimPrefix(e.url, "http://")
}
