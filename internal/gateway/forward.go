package gateway

import (
	"net/http"

	"github.com/ondol-app/ondol/internal/openai"
	"github.com/ondol-app/ondol/internal/relay"
)

// Forwarder is the door to the chat role; *relay.Relay is one.
type Forwarder interface {
	relay.Forwarder
	Model() (string, error)
}

const noChat = "no chat engine is configured: say with `ondol config set roles.chat.kind` what serves it and start Ondol again, or point this client's chat model at another server and only its embedding model at /v1/embeddings here"

// forward hands a request to the chat role as it is, under the engine's path.
func (g *Gateway) forward(path string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		in, err := g.intake(w, r)
		if err != nil {
			g.refuse(w, r, err)
			return
		}
		defer in.close()
		var asked struct {
			Stream bool `json:"stream"`
		}
		if err := openai.Object(in.bytes(), &asked); err != nil {
			g.refuse(w, r, err)
			return
		}
		reply := &firstByte{ResponseWriter: w}
		err = g.chat.Forward(r.Context(), reply, relay.ForwardRequest{Path: path, Body: in.bytes(), Stream: asked.Stream})
		switch {
		case err == nil:
		case reply.written:
			// Half a reply must not look like a whole one.
			g.log.Debug("forwarded reply broke off", "route", path, "error", err)
			panic(http.ErrAbortHandler)
		default:
			g.refuse(w, r, err)
		}
	}
}

// firstByte notices when a reply has begun.
type firstByte struct {
	http.ResponseWriter
	written bool
}

func (f *firstByte) WriteHeader(status int) {
	f.written = true
	f.ResponseWriter.WriteHeader(status)
}

func (f *firstByte) Write(b []byte) (int, error) {
	f.written = true
	return f.ResponseWriter.Write(b)
}

// Unwrap leads http.ResponseController to the connection, for deadlines and flushing.
func (f *firstByte) Unwrap() http.ResponseWriter { return f.ResponseWriter }
