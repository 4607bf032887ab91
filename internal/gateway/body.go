package gateway

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/ondol-app/ondol/internal/openai"
)

// bodyTime is how long a client may take to send its body; over loopback even
// the largest takes a fraction of it.
const bodyTime = 30 * time.Second

// beginBodyTime starts the clock for a body. It runs for refused requests too:
// the server reads what is left of a body before it writes the reply, and
// would wait for a slow one for ever. A writer without deadlines has no
// connection to wait for.
func beginBodyTime(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	}
}

// endBodyTime lifts the deadline once the body is there: one that passed
// while the request waits for its turn would look like a client that left.
func endBodyTime(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
}

// errClientGone means that nobody is left to answer.
var errClientGone = errors.New("client is gone")

// read appends the whole body to the buffer. The error is errClientGone or a failure.
func (in *intake) read(w http.ResponseWriter, r *http.Request) error {
	g := in.gateway
	if err := checkMedia(r.Header, speaksOllama(r.URL.Path)); err != nil {
		return err
	}
	if r.ContentLength > g.maxBody {
		return g.tooLarge()
	}
	err := in.readAll(http.MaxBytesReader(w, r.Body, g.maxBody), r.ContentLength)
	var large *http.MaxBytesError
	switch {
	case err == nil:
		endBodyTime(w)
		return nil
	case errors.As(err, new(failure)):
		return err
	case errors.As(err, &large):
		return g.tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return failure{status: http.StatusRequestTimeout, close: true, body: openai.Error{
			Type: openai.TypeInvalidRequest, Code: openai.CodeRequestTimeout,
			Message: fmt.Sprintf("the body did not arrive within %s; send it at once", bodyTime)}}
	case broken(err) || r.Context().Err() != nil:
		return errClientGone
	default: // chunks that are none
		return failure{status: http.StatusBadRequest, close: true, body: openai.Error{
			Type: openai.TypeInvalidRequest, Code: openai.CodeInvalidValue,
			Message: "the body cannot be read: " + err.Error() + "; send it with its Content-Length"}}
	}
}

// broken reports whether the connection under a body has ended.
func broken(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe)
}

func (g *Gateway) tooLarge() failure {
	return failure{status: http.StatusRequestEntityTooLarge, close: true, body: openai.Error{
		Type: openai.TypeInvalidRequest, Code: openai.CodeTooLarge,
		Message: fmt.Sprintf("the body is larger than %d bytes; send the inputs in several requests", g.maxBody)}}
}

// readAll reads r to its end. The announced length sizes the buffer only up
// to a point: it is the client's word.
func (in *intake) readAll(r io.Reader, announced int64) error {
	buf := *in.buffer
	want := int(min(max(announced+1, 512), maxPooled))
	if free := cap(buf) - len(buf); free < want {
		buf = append(make([]byte, 0, len(buf)+want), buf...)
	}
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		*in.buffer = buf
		if full := in.count(n); full != nil {
			return full
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
	}
}

// checkMedia lets JSON in UTF-8 pass, and a body that does not say what it
// is. Forms and plain text are refused: they are what a page can send
// without asking first. Ollama's routes take curl's default type as well, as
// its manual shows: a form of that type writes its braces and quotes as %7B and
// %22, which is no JSON, and a script that sends it sends an Origin.
func checkMedia(h http.Header, ollama bool) error {
	if enc := h.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return media("Content-Encoding " + clip(enc) + " is not understood; send the body uncompressed")
	}
	claimed := h.Values("Content-Type")
	if len(claimed) == 0 || len(claimed) == 1 && claimed[0] == "" {
		return nil
	}
	kind, params, err := mime.ParseMediaType(claimed[0])
	if ollama && kind == "application/x-www-form-urlencoded" {
		kind = "application/json"
	}
	if len(claimed) > 1 || err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return media("Content-Type must be application/json, not " + clip(strings.Join(claimed, ", ")))
	}
	if cs := params["charset"]; cs != "" && !strings.EqualFold(cs, "utf-8") && !strings.EqualFold(cs, "utf8") {
		return media("the charset must be utf-8, not " + clip(cs))
	}
	return nil
}

func media(message string) failure {
	return failure{status: http.StatusUnsupportedMediaType, body: openai.Error{
		Type: openai.TypeInvalidRequest, Code: openai.CodeUnsupportedMedia, Message: message}}
}
