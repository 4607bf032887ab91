package gateway

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
)

// controlPrefix is where the control API lives, for who cannot open its socket.
const controlPrefix = "/ondol/v1/*"

// controlRoutes serve the control API behind the token. They are open to the
// route table because every one of them asks for the token itself, whether or
// not clients need a key.
func (g *Gateway) controlRoutes() []route {
	if g.control == nil {
		return nil
	}
	return []route{{path: controlPrefix, handler: g.steer, open: true}}
}

// steer hands a request to the control API.
func (g *Gateway) steer(w http.ResponseWriter, r *http.Request) {
	if !g.token.admits(r.Header) {
		g.refuseControl(w)
		return
	}
	if r.ContentLength != 0 {
		in, err := g.intake(w, r)
		if err != nil {
			g.refuse(w, r, err)
			return
		}
		defer in.close()
		r.Body = io.NopCloser(bytes.NewReader(in.bytes()))
	}
	g.control.ServeHTTP(w, r)
}

// refuseControl answers in the control API's form of an error.
func (g *Gateway) refuseControl(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="ondol"`)
	w.Header().Set("Connection", "close")
	body, _ := json.Marshal(map[string]any{"error": map[string]string{
		"code":    "unauthorized",
		"message": "the control API needs the token of this Ondol",
		"remedy":  "send it as Authorization: Bearer TOKEN; the file named token in Ondol's folder holds it",
	}}) // texts always marshal
	g.send(w, http.StatusUnauthorized, body)
}
