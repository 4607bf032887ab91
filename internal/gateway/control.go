package gateway

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
)

// controlPrefix is where the control API lives, for who cannot open its socket.
const controlPrefix = "/ondol/v1/*"

// mcpPath is where agents speak the Model Context Protocol.
const mcpPath = "/mcp"

// controlRoutes serve what reads and steers the app, behind the token. They are open to the
// route table because every one of them asks for the token itself, whether or
// not clients need a key.
func (g *Gateway) controlRoutes() []route {
	var rows []route
	for path, api := range map[string]http.Handler{controlPrefix: g.control, mcpPath: g.mcp} {
		if api != nil {
			rows = append(rows, route{path: path, handler: g.steer(api), open: true})
		}
	}
	return rows
}

// steer hands a request with the token to an API of its own.
func (g *Gateway) steer(api http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
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
		api.ServeHTTP(w, r)
	}
}

// refuseControl answers in the control API's form of an error, which MCP clients show as it is.
func (g *Gateway) refuseControl(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="ondol"`)
	w.Header().Set("Connection", "close")
	body, _ := json.Marshal(map[string]any{"error": map[string]string{
		"code":    "unauthorized",
		"message": "this route needs the token of this Ondol",
		"remedy":  "send it as Authorization: Bearer TOKEN; the file named token in Ondol's folder holds it",
	}}) // texts always marshal
	g.send(w, http.StatusUnauthorized, body)
}
