package gateway

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/ondol-app/ondol/internal/openai"
)

// ollamaPrefix is where Ollama's routes are, but for the root.
const ollamaPrefix = "/api/"

// speaksOllama tells which dialect an error is written in: by the path alone,
// so that a refusal before the route table has the right shape as well.
func speaksOllama(path string) bool {
	path = tidy(path)
	return path == "/" || strings.HasPrefix(path+"/", ollamaPrefix)
}

// errorBody is e in the dialect of the request.
func errorBody(r *http.Request, e openai.Error) []byte {
	if !speaksOllama(r.URL.Path) {
		return e.Envelope()
	}
	// A struct of strings always marshals: the error is impossible.
	body, _ := json.Marshal(struct {
		Error string `json:"error"`
	}{e.Message})
	return body
}
