package app

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/keychain"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/locations"
	"github.com/ondol-app/ondol/internal/relay"
	"github.com/ondol-app/ondol/internal/remote"
	"github.com/ondol-app/ondol/internal/settings"
	"github.com/ondol-app/ondol/internal/upstream"
)

// role is one role beside embedding: an engine, a gate, a door, all its own.
type role struct {
	name   upstream.Role
	kind   string
	engine roleEngine
	gate   *admission.Gate
	door   *relay.Relay
}

// roleEngine is what serves a role, be it ours or somebody else's.
type roleEngine interface {
	relay.Engine
	Run(ctx context.Context) error
	// tell fills in what is known of the engine.
	tell(*control.RoleStatus)
}

// wireRole builds a role from its settings; nil when it is not served.
func wireRole(name upstream.Role, s *settings.Loaded, paths locations.Paths, logger *slog.Logger, notify func(event.Event), check memoryChecker) (*role, error) {
	chosen := *s.Roles.Of(name)
	if chosen.Kind == settings.KindNone {
		return nil, nil
	}
	logger = logger.With("role", name.String())
	r := &role{name: name, kind: chosen.Kind}
	var err error
	if chosen.Remote() {
		r.engine, err = remoteRole(name, chosen, logger, notify)
	} else {
		r.engine, err = localRole(name, chosen, s.Engine.Server, paths, logger, notify, check)
	}
	if err != nil {
		return nil, fmt.Errorf("roles.%s: %w", name, err)
	}
	if r.gate, err = admission.NewGate(roleLimits(&chosen)); err != nil {
		return nil, fmt.Errorf("roles.%s: %w", name, err)
	}
	if r.door, err = relay.New(relay.Config{Role: name, Gate: r.gate, Engine: r.engine, Total: chosen.Total, Logger: logger.With("part", "relay")}); err != nil {
		return nil, fmt.Errorf("roles.%s: %w", name, err)
	}
	return r, nil
}

func localRole(name upstream.Role, chosen settings.Role, server string, paths locations.Paths, logger *slog.Logger, notify func(event.Event), check memoryChecker) (roleEngine, error) {
	profile, err := roleProfile(name, chosen)
	if err != nil {
		return nil, err
	}
	engine, err := llamaserver.New(llamaserver.Config{
		Binary: server, Model: chosen.Model, Profile: profile,
		RunDir: filepath.Join(paths.Run, name.String()), LogDir: filepath.Join(paths.Logs, name.String()),
		HashCache: filepath.Join(paths.Cache, "model-hashes-"+name.String()+".json"),
		Role:      name, Notify: notify, CheckMemory: check,
		Autostart: true, Logger: logger.With("part", "engine"),
	})
	return localEngine{engine}, err
}

// roleProfile is the flags of a role's llama-server, the owner's own last.
func roleProfile(name upstream.Role, chosen settings.Role) (llamaserver.Profile, error) {
	profile, err := llamaserver.RoleProfile(name)
	if err != nil {
		return llamaserver.Profile{}, err
	}
	profile.Flags = append(slices.Clone(profile.Flags), chosen.Flags...)
	return profile, nil
}

func remoteRole(name upstream.Role, chosen settings.Role, logger *slog.Logger, notify func(event.Event)) (roleEngine, error) {
	engine, err := newRemote(name, chosen, logger, notify)
	return remoteEngine{engine}, err
}

// newRemote is a role's engine that others run, with its key from the keychain.
func newRemote(name upstream.Role, chosen settings.Role, logger *slog.Logger, notify func(event.Event)) (*remote.Engine, error) {
	config := remote.Config{
		Role: name, Kind: remote.Kind(chosen.Kind), URL: chosen.URL, Model: chosen.Model, PlainHTTP: chosen.PlainHTTP,
		Notify: notify, Logger: logger.With("part", "remote"),
	}
	if chosen.Key != "" {
		config.Key = func(ctx context.Context) (string, error) { return keychain.System{}.Get(ctx, chosen.Key) }
	}
	return remote.New(config)
}

// status is the role now.
func (r *role) status() control.RoleStatus {
	status := control.RoleStatus{Role: r.name, Kind: r.kind, Admission: r.gate.Stats()}
	r.engine.tell(&status)
	return status
}

// roleStatus lists every role that is served, embedding first.
func (p *parts) roleStatus() []control.RoleStatus {
	embed := control.RoleStatus{Role: upstream.RoleEmbed, Kind: settings.KindLocal, Admission: p.gate.Stats()}
	if far, ok := p.engine.(remoteEmbedder); ok {
		embed.Kind = far.Engine.Snapshot().Kind.String()
		tellRemote(far.Engine.Snapshot(), &embed)
	} else {
		tellLocal(p.engine.Snapshot(), &embed)
	}
	list := []control.RoleStatus{embed}
	for _, r := range p.roles {
		list = append(list, r.status())
	}
	return list
}

// role is the one of that name, or nil.
func (p *parts) role(name upstream.Role) *role {
	for _, r := range p.roles {
		if r.name == name {
			return r
		}
	}
	return nil
}
