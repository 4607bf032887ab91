package settings

import (
	"regexp"
	"strings"
	"time"

	"github.com/ondol-app/ondol/internal/upstream"
)

// Kinds of engine that can serve a role.
const (
	KindNone   = ""       // the role is not served
	KindLocal  = "local"  // llama-server, run by the app
	KindOllama = "ollama" // an Ollama that somebody runs
	KindOpenAI = "openai" // any server of OpenAI's dialect
)

// Role is what serves one role. Writing an address into it is the owner's
// consent that texts go there.
type Role struct {
	Kind      string
	URL       string // of a remote engine
	Model     string // path of a GGUF file where local, else the remote's name for it
	Key       string // account in the keychain that holds the remote's key; empty = none is sent
	PlainHTTP bool   // http to another machine is allowed

	// Those of embedding stand in Engine and Admission.
	Flags     []string      // of a local engine, after the profile's
	Executing int           // requests at once
	Waiting   int           // requests in the queue
	Wait      time.Duration // longest time in the queue
	Total     time.Duration // longest exchange that is no stream, from the permit
}

// Roles are the three roles.
type Roles struct {
	Embed  Role
	Rerank Role
	Chat   Role
}

// Of is the role's settings.
func (r *Roles) Of(role upstream.Role) *Role {
	switch role {
	case upstream.RoleRerank:
		return &r.Rerank
	case upstream.RoleChat:
		return &r.Chat
	}
	return &r.Embed
}

// Remote reports whether somebody else runs the role's engine.
func (r Role) Remote() bool { return r.Kind == KindOllama || r.Kind == KindOpenAI }

// roleKnobs is the part of the table that repeats for every role.
func roleKnobs() []Knob {
	var list []Knob
	for _, role := range upstream.Roles() {
		prefix := "roles." + role.String() + "."
		of := func(pick func(*Role) any) func(*Settings) any {
			return func(s *Settings) any { return pick(s.Roles.Of(role)) }
		}
		kinds := "local (llama-server, run by Ondol), ollama or openai (a server that others run); empty means none"
		kind, executing := KindNone, "requests its engine works on at once; at most its slots"
		switch role {
		case upstream.RoleEmbed:
			kind, kinds = KindLocal, "local (the engine section), ollama or openai (a server that others run)"
		case upstream.RoleRerank:
			kinds = "local (llama-server, run by Ondol) or openai (a server that others run); empty means none"
			executing = "requests its engine works on at once; one keeps its memory small"
		}
		model := "path of its model (GGUF) where local, else the server's name for it"
		if role == upstream.RoleEmbed {
			model = "the server's name for its model; a local one is engine.model"
		}
		list = append(list,
			Knob{Key: prefix + "kind", Default: kind, Meaning: "what serves " + role.String() + ": " + kinds, field: of(func(r *Role) any { return &r.Kind })},
			Knob{Key: prefix + "url", Default: "", Meaning: "address of the server; setting it sends texts there", field: of(func(r *Role) any { return &r.URL })},
			Knob{Key: prefix + "model", Default: "", Meaning: model, field: of(func(r *Role) any { return &r.Model })},
			Knob{Key: prefix + "key", Default: "", Meaning: "account in the system's keychain that holds the server's key; never the key itself",
				field: of(func(r *Role) any { return &r.Key })},
			Knob{Key: prefix + "plain_http", Default: false, Meaning: "allow http to another machine, which others on the network can read",
				field: of(func(r *Role) any { return &r.PlainHTTP })},
		)
		if role == upstream.RoleEmbed {
			continue
		}
		list = append(list,
			Knob{Key: prefix + "flags", Default: []string{}, Meaning: "flags of its llama-server added after the profile's, so that they win",
				field: of(func(r *Role) any { return &r.Flags })},
			Knob{Key: prefix + "executing", Default: 1, Unit: "requests", Min: 1, Max: 64, Meaning: executing, field: of(func(r *Role) any { return &r.Executing })},
			Knob{Key: prefix + "waiting", Default: 64, Unit: "requests", Min: 0, Max: 10000, Meaning: "requests that may wait; one more is refused at once",
				field: of(func(r *Role) any { return &r.Waiting })},
			Knob{Key: prefix + "wait", Default: 120 * time.Second, Min: 1, Max: 3600, Meaning: "longest time a request waits before it is refused",
				field: of(func(r *Role) any { return &r.Wait })},
			Knob{Key: prefix + "total", Default: 300 * time.Second, Min: 1, Max: 3600, Meaning: "longest exchange that is no stream, from the moment a request may execute",
				field: of(func(r *Role) any { return &r.Total })},
		)
	}
	return list
}

// accountName is what can name an account in every keychain. A key pasted in
// its place is mostly longer, or begins as keys do.
var accountName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

var keyStart = regexp.MustCompile(`^(sk|hf|pk|gsk|key)[-_]`)

// check is what a role's settings must be as a set. An address or a name that
// its kind does not use is no error: values are set one by one, kind last.
func (r *Role) check(role upstream.Role) []Problem {
	var problems []Problem
	at := func(knob string, value any, reason error) {
		problems = append(problems, bad("roles."+role.String()+"."+knob, value, reason))
	}
	if p, ok := badAccount("roles."+role.String()+".key", r.Key); !ok {
		problems = append(problems, p)
	}
	switch {
	case r.Kind == KindNone && role == upstream.RoleEmbed:
		at("kind", r.Kind, oneOf("local", "ollama", "openai"))
	case r.Kind == KindOllama && role == upstream.RoleRerank:
		at("kind", r.Kind, needs("ollama_rerank", "Ollama does not rerank; use local, or an openai server that does"))
	case r.Kind == KindLocal && role != upstream.RoleEmbed && r.Model == "":
		at("model", r.Model, needs("model_path", "the path of a GGUF file is needed"))
	case r.Remote():
		if _, err := upstream.ParseURL(r.URL, r.PlainHTTP); err != nil {
			at("url", redacted(r.URL), err)
		}
		if r.Model == "" {
			at("model", r.Model, needs("model_name", "the name of a model on that server is needed"))
		}
	case r.Kind != KindNone && r.Kind != KindLocal:
		at("kind", r.Kind, oneOf("local", "ollama", "openai"))
	}
	return problems
}

// badAccount is what is wrong with the name of an account, if anything. The
// value may be the secret itself, so it is not repeated.
func badAccount(knob, name string) (Problem, bool) {
	if name == "" || (accountName.MatchString(name) && !keyStart.MatchString(name)) {
		return Problem{}, true
	}
	return bad(knob, "…", needs("account", "the name of an account in the keychain is needed, not the key itself")), false
}

// redacted is an address fit to be repeated: one that may hold a password is
// not.
func redacted(raw string) string {
	if strings.Contains(raw, "@") {
		return "…"
	}
	return raw
}
