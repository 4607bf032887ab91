package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/upstream"
)

// Kind is the dialect of a remote engine.
type Kind string

const (
	KindOllama Kind = "ollama"
	KindOpenAI Kind = "openai"
)

func (k Kind) String() string { return string(k) }

// Config describes a remote engine. Role, Kind, URL and Model are required;
// zero times and limits mean the defaults, a nil Logger none.
type Config struct {
	Role  upstream.Role
	Kind  Kind
	URL   string // of Ollama, or OpenAI's base address with or without /v1
	Model string // as the remote calls it

	// PlainHTTP allows http to another machine, where whoever is on the way
	// can read every text.
	PlainHTTP bool

	// Key fetches the secret to send as a bearer token; nil = none is sent. It
	// is called before every probe, so a changed key is taken up.
	Key func(ctx context.Context) (string, error)

	Probe   time.Duration // for one probe; default 2 min, since a model may have to be loaded
	Recheck time.Duration // between looks at a ready engine; default 5 min
	Backoff Backoff
	Limits  upstream.Limits
	Logger  *slog.Logger

	// Notify gets what becomes of the engine; it must not block. nil = nobody.
	Notify func(event.Event)
}

// KindState tells that an engine run by others came to another state, checks in
// between left out: role, from, to, url, and problem (a Code) where it is not usable.
const KindState event.Kind = "engine.remote"

// Backoff is how long an engine that is not usable is left alone.
type Backoff struct {
	First time.Duration // after the first failure; it doubles
	Max   time.Duration
	Reset time.Duration // ready for this long, the next failure is a first one
}

// DefaultBackoff asks a server that is being restarted soon, one that is
// switched off once a minute.
func DefaultBackoff() Backoff {
	return Backoff{First: time.Second, Max: time.Minute, Reset: time.Minute}
}

// lookTime bounds a look at a ready engine.
const lookTime = 10 * time.Second

func (c *Config) complete() (*url.URL, error) {
	base, err := upstream.ParseURL(c.URL, c.PlainHTTP)
	switch {
	case err != nil:
		return nil, fmt.Errorf("address of the %s engine: %w", c.Role, err)
	case c.Model == "":
		return nil, fmt.Errorf("the %s engine needs the name of its model", c.Role)
	case c.Kind == KindOllama && c.Role == upstream.RoleRerank:
		return nil, errors.New("reranking is nothing Ollama does; use an openai server that has /v1/rerank, or a local model")
	}
	switch c.Role {
	case upstream.RoleEmbed, upstream.RoleRerank, upstream.RoleChat:
	default:
		return nil, fmt.Errorf("remote engine: no role %q", c.Role)
	}
	switch c.Kind {
	case KindOllama:
		base.Path = strings.TrimSuffix(base.Path, "/v1") // people copy the OpenAI address of it
	case KindOpenAI:
		if !strings.HasSuffix(base.Path, "/v1") {
			base.Path += "/v1"
		}
	default:
		return nil, fmt.Errorf("remote engine: no kind %q; use ollama or openai", c.Kind)
	}
	if c.Probe == 0 {
		c.Probe = 2 * time.Minute
	}
	if c.Recheck == 0 {
		c.Recheck = 5 * time.Minute
	}
	if c.Backoff == (Backoff{}) {
		c.Backoff = DefaultBackoff()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return base, nil
}
