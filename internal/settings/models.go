package settings

import (
	"net/url"
	"time"

	"github.com/ondol-app/ondol/internal/upstream"
)

// Models is how models are downloaded.
type Models struct {
	Mirror    string        // base address of the hub
	Key       string        // account in the keychain that holds the hub's token; empty = only HF_TOKEN
	Proxy     string        // empty = by HTTPS_PROXY and its like
	Downloads int           // at once
	Stall     time.Duration // longest time without a byte
}

// modelKnobs is the part of the table that is about downloading models.
func modelKnobs() []Knob {
	return []Knob{
		{Key: "models.mirror", Default: "https://huggingface.co", Meaning: "hub from which models are downloaded, or a mirror of it",
			Env: "HF_ENDPOINT", field: func(s *Settings) any { return &s.Models.Mirror }},
		{Key: "models.key", Default: "", Meaning: "account in the system's keychain that holds the hub's token; never the token itself; HF_TOKEN is above it",
			field: func(s *Settings) any { return &s.Models.Key }},
		{Key: "models.proxy", Default: "", Meaning: "proxy for downloads, such as http://127.0.0.1:3128; empty means by HTTPS_PROXY and NO_PROXY",
			field: func(s *Settings) any { return &s.Models.Proxy }},
		{Key: "models.downloads", Default: 1, Unit: "downloads", Min: 1, Max: 4, Meaning: "downloads at once; the others wait",
			field: func(s *Settings) any { return &s.Models.Downloads }},
		{Key: "models.stall", Default: 30 * time.Second, Min: 1, Max: 600, Meaning: "a download that brings nothing for so long is tried again",
			field: func(s *Settings) any { return &s.Models.Stall }},
	}
}

// check is what these settings must be beyond their type.
func (m *Models) check() []Problem {
	var problems []Problem
	u, err := url.Parse(m.Mirror)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "",
		u.Scheme != "https" && u.Scheme != "http",
		u.Scheme == "http" && !upstream.Loopback(u):
		// What a hub says over http, a hash among it, could be anybody's.
		problems = append(problems, bad("models.mirror", redacted(m.Mirror), needs("mirror", "an https address such as https://huggingface.co is needed")))
	}
	if m.Proxy != "" {
		if u, err := url.Parse(m.Proxy); err != nil || u.Host == "" || u.User != nil || (u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5") {
			problems = append(problems, bad("models.proxy", redacted(m.Proxy),
				needs("proxy", "an address such as http://127.0.0.1:3128 is needed; one with a password belongs into HTTPS_PROXY")))
		}
	}
	if p, ok := badAccount("models.key", m.Key); !ok {
		problems = append(problems, p)
	}
	return problems
}
