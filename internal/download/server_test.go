package download_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// content is a file of n bytes in which no part looks like another.
func content(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// hub serves one file, and does one wrong thing per request for as long as
// its script lasts. Afterwards it behaves.
type hub struct {
	*httptest.Server
	mu     sync.Mutex
	file   []byte
	etag   string
	script []fault
	asked  []http.Header // of every request
}

// fault answers one request wrongly; b is the file.
type fault func(w http.ResponseWriter, r *http.Request, b []byte)

func newHub(t *testing.T, file []byte, script ...fault) *hub {
	t.Helper()
	return newHubAt(t, "127.0.0.1:0", file, script...)
}

func newHubAt(t *testing.T, address string, file []byte, script ...fault) *hub {
	t.Helper()
	h := &hub{file: file, etag: `"` + sum(file)[:16] + `"`, script: script}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	h.Server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: h}}
	h.Start()
	t.Cleanup(h.Close)
	return h
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.asked = append(h.asked, r.Header.Clone())
	file, etag := h.file, h.etag
	var wrong fault
	if len(h.script) > 0 {
		wrong, h.script = h.script[0], h.script[1:]
	}
	h.mu.Unlock()
	if wrong != nil {
		wrong(w, r, file)
		return
	}
	w.Header().Set("ETag", etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file))
}

// become makes the hub serve another file from now on.
func (h *hub) become(file []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.file, h.etag = file, `"`+sum(file)[:16]+`"`
}

func (h *hub) ranges() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []string
	for _, header := range h.asked {
		list = append(list, header.Get("Range"))
	}
	return list
}

// first is where a request's range begins.
func first(r *http.Request) int {
	text := strings.TrimSuffix(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-")
	n, _ := strconv.Atoi(text)
	return n
}

func etagOf(b []byte) string { return `"` + sum(b)[:16] + `"` }

// rest sends the asked-for part of b with a right head, and only n bytes of it.
func rest(w http.ResponseWriter, r *http.Request, b []byte, n int) {
	from := first(r)
	w.Header().Set("ETag", etagOf(b))
	w.Header().Set("Content-Length", strconv.Itoa(len(b)-from))
	if from > 0 {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(b)-1, len(b)))
		w.WriteHeader(http.StatusPartialContent)
	}
	w.Write(b[from:min(from+n, len(b))])
	w.(http.Flusher).Flush()
}

// cut sends n bytes and closes the connection.
func cut(n int) fault {
	return func(w http.ResponseWriter, r *http.Request, b []byte) {
		rest(w, r, b, n)
		panic(http.ErrAbortHandler)
	}
}

// stall sends n bytes and then nothing until the client goes; without any
// left to send it just ends.
func stall(n int) fault {
	return func(w http.ResponseWriter, r *http.Request, b []byte) {
		rest(w, r, b, n)
		if first(r)+n < len(b) { // with everything sent the client may ask again on this connection
			<-r.Context().Done()
		}
	}
}

// mute does not even send a head.
func mute(_ http.ResponseWriter, r *http.Request, _ []byte) { <-r.Context().Done() }

// status answers with a code and headers in pairs.
func status(code int, pairs ...string) fault {
	return func(w http.ResponseWriter, r *http.Request, b []byte) {
		for i := 0; i+1 < len(pairs); i += 2 {
			w.Header().Set(pairs[i], pairs[i+1])
		}
		w.WriteHeader(code)
		fmt.Fprint(w, "a page that is no model")
	}
}

// partial answers 206 with bytes from-to of b under the given Content-Range.
func partial(contentRange string, from, to int) fault {
	return func(w http.ResponseWriter, r *http.Request, b []byte) {
		w.Header().Set("ETag", etagOf(b))
		w.Header().Set("Content-Range", contentRange)
		w.Header().Set("Content-Length", strconv.Itoa(to-from))
		w.WriteHeader(http.StatusPartialContent)
		w.Write(b[from:to])
	}
}

// ignoreRange sends the whole file whatever was asked.
func ignoreRange(w http.ResponseWriter, _ *http.Request, b []byte) {
	w.Header().Set("ETag", etagOf(b))
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.Write(b)
}

// other sends the asked-for range of another file, under the ETag given, as if nothing had changed.
func other(file []byte, tag string) fault {
	return func(w http.ResponseWriter, r *http.Request, _ []byte) {
		from := first(r)
		if from >= len(file) {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
		w.Header().Set("ETag", tag)
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(file)-1, len(file)))
		w.Header().Set("Content-Length", strconv.Itoa(len(file)-from))
		w.WriteHeader(http.StatusPartialContent)
		w.Write(file[from:])
	}
}

// chunked sends the file without a Content-Length, with extra bytes behind it.
func chunked(extra int) fault {
	return func(w http.ResponseWriter, r *http.Request, b []byte) {
		w.(http.Flusher).Flush()
		w.Write(b)
		w.Write(bytes.Repeat([]byte{7}, extra))
	}
}

// length claims n bytes more than the file has, and sends only those it has.
func length(n int) fault {
	return func(w http.ResponseWriter, r *http.Request, b []byte) {
		w.Header().Set("Content-Length", strconv.Itoa(len(b)+n))
		w.Write(b[:min(len(b), len(b)+n)])
		panic(http.ErrAbortHandler)
	}
}

// slow sends the file in small pieces, each within the idle time.
func slow(pieces int, wait time.Duration) fault {
	return func(w http.ResponseWriter, r *http.Request, b []byte) {
		w.Header().Set("Content-Length", strconv.Itoa(len(b)))
		for i := range pieces {
			w.Write(b[len(b)*i/pieces : len(b)*(i+1)/pieces])
			w.(http.Flusher).Flush()
			select {
			case <-time.After(wait):
			case <-r.Context().Done():
				return
			}
		}
	}
}
