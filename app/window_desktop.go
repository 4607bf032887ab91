//go:build desktop

package app

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"

	"github.com/wailsapp/wails/v2"
	"github.com/wailsapp/wails/v2/pkg/options"
	"github.com/wailsapp/wails/v2/pkg/options/assetserver"

	"github.com/ondol-app/ondol/app/cli"
	"github.com/ondol-app/ondol/frontend"
	"github.com/ondol-app/ondol/internal/locations"
)

// window is what shows the page.
func (p program) window() func(ctx context.Context) error { return p.show }

// show shows the page until it is closed. When no app of this home runs yet,
// one runs as long as the window; else the window is a guest of the running one.
// Both ways the page reaches it through the control socket: one contract.
func (p program) show(ctx context.Context) error {
	paths, err := locations.Resolve(locations.Current())
	if err != nil {
		return err
	}
	page, err := frontend.Dist()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() { served <- p.serve(ctx, nil, func(string) {}) }()

	shown := wails.Run(&options.App{
		Title: "Ondol", Width: 860, Height: 640, MinWidth: 420, MinHeight: 320,
		AssetServer: &assetserver.Options{Assets: page, Handler: controlProxy(paths.ControlSocket())},
	})
	stop()
	err = <-served
	if _, guest := errors.AsType[*cli.RunningError](err); guest {
		err = nil
	}
	return errors.Join(shown, err)
}

// controlProxy hands the page's requests to the control socket.
func controlProxy(socket string) http.Handler {
	var dialer net.Dialer
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "localhost"
			r.Out.Host = "localhost"
			r.Out.Header.Del("Origin") // the web view's own scheme; the socket is closed to others anyway
		},
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		}},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"error":{"code":"not_running","message":"the app does not answer yet"}}`))
		},
	}
}
