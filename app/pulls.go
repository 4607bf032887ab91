package app

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"os"

	"github.com/ondol-app/ondol/internal/download"
	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/keychain"
	"github.com/ondol-app/ondol/internal/locations"
	"github.com/ondol-app/ondol/internal/models/hub"
	"github.com/ondol-app/ondol/internal/models/pull"
	"github.com/ondol-app/ondol/internal/settings"
)

// newPulls is what downloads models. It asks nobody before somebody pulls.
func newPulls(s settings.Models, paths locations.Paths, notify func(event.Event), logger *slog.Logger) (*pull.Manager, error) {
	agent := "ondol/" + Version
	var proxy func(*http.Request) (*url.URL, error) // nil = by the environment
	if s.Proxy != "" {
		address, err := url.Parse(s.Proxy)
		if err != nil {
			return nil, err
		}
		proxy = http.ProxyURL(address)
	}
	asks, err := hub.New(hub.Config{Mirror: s.Mirror, Token: hubToken(s.Key), Proxy: proxy, Agent: agent})
	if err != nil {
		return nil, err
	}
	fetches, err := download.New(download.Config{Idle: s.Stall, Proxy: proxy, Agent: agent})
	if err != nil {
		return nil, err
	}
	return pull.New(pull.Config{
		Dir: paths.Models(), Hub: asks, Downloader: fetches, Parallel: s.Downloads, Notify: notify, Logger: logger,
	})
}

// hubToken is the person's token for the hub, as other tools of it find it, or
// from the keychain.
func hubToken(account string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		if token := os.Getenv("HF_TOKEN"); token != "" || account == "" {
			return token, nil
		}
		return keychain.System{}.Get(ctx, account)
	}
}
