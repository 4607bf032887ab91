// Package hubtest is a model hub on this machine, for tests only: the few
// routes of Hugging Face that are asked for, with the faults a hub and its
// storage can have.
package hubtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Revision is the commit that every repository is at.
const Revision = "0123456789abcdef0123456789abcdef01234567"

// Hub serves repositories of one file each. Its fields may be set before the
// first request, and under Change afterwards.
type Hub struct {
	URL string

	Repo, File string // the one repository and its file
	Bytes      []byte // of the file
	SHA256     string // told in the metadata; empty = not told at all
	Licence    string // tag; empty = none
	Token      string // needed for everything of the file; empty = open
	NoHeaders  bool   // metadata only by the listing, as of a plain mirror
	StopAt     int    // the storage sends so many bytes of a reply and then waits; 0 = all
	Status     int    // of the storage; 0 = as it should be

	mu     sync.Mutex
	ranges []string // of the requests to the storage
	tokens []string // Authorization that the storage was shown
	held   chan struct{}
}

// Model is n bytes that begin as a GGUF file does.
func Model(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 3))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	copy(b, "GGUF\x03\x00\x00\x00")
	return b
}

// Sum is the SHA-256 of b in hex.
func Sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// Start serves a repository with one file, until the test ends.
func Start(t testing.TB, repo, file string, b []byte) *Hub {
	t.Helper()
	h := &Hub{Repo: repo, File: file, Bytes: b, SHA256: Sum(b), Licence: "apache-2.0", held: make(chan struct{})}
	server := httptest.NewServer(h)
	h.URL = server.URL
	t.Cleanup(func() {
		h.Release()
		server.Close()
	})
	return h
}

// Change changes fields while requests may come.
func (h *Hub) Change(do func(*Hub)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do(h)
}

// Release lets what StopAt stopped end, and stops nothing more.
func (h *Hub) Release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.StopAt = 0
	select {
	case <-h.held:
	default:
		close(h.held)
	}
}

// Ranges are the Range headers that the storage was sent.
func (h *Hub) Ranges() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string{}, h.ranges...)
}

// Tokens are the Authorization headers that the storage was sent.
func (h *Hub) Tokens() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string{}, h.tokens...)
}

func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	s := &Hub{Repo: h.Repo, File: h.File, Bytes: h.Bytes, SHA256: h.SHA256, Licence: h.Licence, Token: h.Token,
		NoHeaders: h.NoHeaders, StopAt: h.StopAt, Status: h.Status, URL: h.URL}
	if r.URL.Path == "/storage" {
		h.ranges, h.tokens = append(h.ranges, r.Header.Get("Range")), append(h.tokens, r.Header.Get("Authorization"))
	}
	h.mu.Unlock()
	resolve, _ := strings.CutPrefix(r.URL.Path, "/"+s.Repo+"/resolve/")
	open := s.Token == "" || r.Header.Get("Authorization") == "Bearer "+s.Token
	switch {
	case r.URL.Path == "/storage":
		h.storage(w, r, s)
	case r.URL.Path == "/api/models/"+s.Repo:
		s.about(w)
	case strings.HasPrefix(r.URL.Path, "/api/models/"+s.Repo+"/tree/"+Revision):
		s.tree(w)
	case strings.HasPrefix(r.URL.Path, "/api/models/"):
		w.Header().Set("X-Error-Code", "RepoNotFound")
		w.WriteHeader(http.StatusUnauthorized)
	case !strings.HasSuffix(resolve, "/"+s.File):
		w.WriteHeader(http.StatusNotFound)
	case !open:
		w.Header().Set("X-Error-Code", "GatedRepo")
		w.WriteHeader(http.StatusUnauthorized)
	default:
		s.resolve(w, r)
	}
}

func (h *Hub) about(w http.ResponseWriter) {
	tags := []string{"gguf", "region:us"}
	card := map[string]any{}
	if h.Licence != "" {
		tags, card["license"] = append(tags, "license:"+h.Licence), h.Licence
	}
	json.NewEncoder(w).Encode(map[string]any{"id": h.Repo, "sha": Revision, "gated": false, "tags": tags, "cardData": card})
}

func (h *Hub) tree(w http.ResponseWriter) {
	entry := map[string]any{"type": "file", "path": h.File, "size": len(h.Bytes)}
	if h.SHA256 != "" {
		entry["lfs"] = map[string]any{"oid": h.SHA256, "size": len(h.Bytes)}
	}
	json.NewEncoder(w).Encode([]any{map[string]any{"type": "file", "path": "README.md", "size": 5}, entry})
}

// resolve leads to the storage, by another name of this machine, so that to a
// client it is another host.
func (h *Hub) resolve(w http.ResponseWriter, r *http.Request) {
	if h.NoHeaders {
		w.Header().Set("Content-Length", strconv.Itoa(len(h.Bytes)))
		if r.Method == http.MethodHead {
			return
		}
		w.Header().Del("Content-Length")
	} else {
		w.Header().Set("X-Repo-Commit", Revision)
		w.Header().Set("X-Linked-Size", strconv.Itoa(len(h.Bytes)))
		if h.SHA256 != "" {
			w.Header().Set("X-Linked-Etag", `"`+h.SHA256+`"`)
		} else {
			w.Header().Set("X-Linked-Etag", `"`+Revision+`"`) // a Git hash
		}
	}
	http.Redirect(w, r, strings.Replace(h.URL, "127.0.0.1", "localhost", 1)+"/storage", http.StatusFound)
}

func (h *Hub) storage(w http.ResponseWriter, r *http.Request, s *Hub) {
	if s.Status != 0 {
		w.WriteHeader(s.Status)
		return
	}
	w.Header().Set("ETag", `"`+Sum(s.Bytes)[:32]+`"`)
	if s.StopAt == 0 {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.Bytes))
		return
	}
	from := 0
	if text, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
		from, _ = strconv.Atoi(strings.TrimSuffix(text, "-"))
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(s.Bytes)-1, len(s.Bytes)))
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(s.Bytes)-from))
	if from > 0 {
		w.WriteHeader(http.StatusPartialContent)
	}
	w.Write(s.Bytes[from:min(from+s.StopAt, len(s.Bytes))])
	w.(http.Flusher).Flush()
	select {
	case <-h.held:
	case <-r.Context().Done():
	}
	panic(http.ErrAbortHandler)
}
