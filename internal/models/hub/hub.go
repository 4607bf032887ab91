package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ondol-app/ondol/internal/upstream"
)

// Config of a Hub.
type Config struct {
	Mirror  string                                    // base address, such as https://huggingface.co; required
	Token   func(ctx context.Context) (string, error) // of the person; "" = none is set. nil = none
	Proxy   func(*http.Request) (*url.URL, error)     // nil = by HTTP_PROXY, HTTPS_PROXY and NO_PROXY
	Agent   string                                    // User-Agent
	Timeout time.Duration                             // of one question; 0 = 20 s
}

// File is what the hub says of a file. Where it does not say something, that is empty.
type File struct {
	Revision   string // commit; what was asked about stays what is downloaded
	URL        string
	Size       int64  // bytes
	SHA256     string // lower-case hex; empty where the hub has none
	Licence    string // as the repository gives it, such as apache-2.0; LicenceUnknown
	LicenceURL string
}

// LicenceUnknown is the licence of a repository that names none.
const LicenceUnknown = "unknown"

// AccessError says that the hub gives the file only to those who accepted its
// terms, or who show a token.
type AccessError struct {
	Repo  string
	Page  string // where the terms are
	Token bool   // one was shown
}

func (e *AccessError) Error() string {
	if e.Token {
		return fmt.Sprintf("%s is not open to this token; accept its terms at %s", e.Repo, e.Page)
	}
	return fmt.Sprintf("%s needs a token; accept its terms at %s and set HF_TOKEN", e.Repo, e.Page)
}

// NotFoundError says that there is no such repository (File is empty) or file.
// A private repository looks the same to others.
type NotFoundError struct{ Repo, File string }

func (e *NotFoundError) Error() string {
	if e.File == "" {
		return "the hub has no " + e.Repo + ", or it is private"
	}
	return "the hub has no " + e.File + " in " + e.Repo
}

// UnreachableError says that the hub did not answer, or nothing that helps.
type UnreachableError struct {
	Host string
	Err  error
}

func (e *UnreachableError) Error() string { return "ask " + e.Host + ": " + e.Err.Error() }

func (e *UnreachableError) Unwrap() error { return e.Err }

// Hub asks one hub.
type Hub struct {
	base   *url.URL
	cfg    Config
	client *http.Client
}

// New checks cfg; it asks nothing.
func New(cfg Config) (*Hub, error) {
	base, err := url.Parse(strings.TrimRight(cfg.Mirror, "/"))
	if err != nil || base.Host == "" || (base.Scheme != "https" && base.Scheme != "http") {
		return nil, errors.New("the hub's address must be an http or https address")
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 20 * time.Second
	}
	if cfg.Proxy == nil {
		cfg.Proxy = http.ProxyFromEnvironment
	}
	transport := &http.Transport{Proxy: cfg.Proxy, ForceAttemptHTTP2: true, IdleConnTimeout: 30 * time.Second}
	return &Hub{base: base, cfg: cfg, client: &http.Client{Transport: transport, CheckRedirect: stay}}, nil
}

// stay follows a redirect on the hub itself (a repository that was renamed);
// one that leads to the storage is the answer: its head tells the hash.
func stay(next *http.Request, via []*http.Request) error {
	first := via[0].URL
	if next.URL.Host != first.Host || next.URL.Scheme != first.Scheme || len(via) >= 5 {
		return http.ErrUseLastResponse
	}
	return nil
}

// Close drops idle connections.
func (h *Hub) Close() { h.client.CloseIdleConnections() }

// Page is where a person reads about a repository.
func (h *Hub) Page(repo string) string { return h.base.String() + "/" + repo }

// URL is where a file of a revision is downloaded.
func (h *Hub) URL(repo, revision, file string) string {
	return h.base.String() + "/" + repo + "/resolve/" + url.PathEscape(revision) + "/" + escape(file)
}

func escape(file string) string {
	parts := strings.Split(file, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}

// Token is the person's token for this hub; empty when there is none, and for
// a hub that would be told it unencrypted over a network.
func (h *Hub) Token(ctx context.Context) (string, error) {
	if h.cfg.Token == nil || (h.base.Scheme == "http" && !upstream.Loopback(h.base)) {
		return "", nil
	}
	return h.cfg.Token(ctx)
}

// Ask finds out about the newest revision of a file. Errors: *AccessError,
// *NotFoundError, *UnreachableError, that of Config.Token.
func (h *Hub) Ask(ctx context.Context, repo, file string) (File, error) {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.Timeout)
	defer cancel()
	about, err := h.repository(ctx, repo)
	if err != nil {
		return File{}, err
	}
	f := File{Revision: about.SHA, URL: h.URL(repo, about.SHA, file)}
	f.Licence, f.LicenceURL = about.licence(h.Page(repo))
	if f.Size, f.SHA256, err = h.head(ctx, repo, file, f.URL); err != nil {
		return File{}, err
	}
	if f.SHA256 == "" {
		if err := h.tree(ctx, repo, file, &f); err != nil {
			return File{}, err
		}
	}
	return f, nil
}

var sha256Hex = regexp.MustCompile(`^[0-9a-f]{64}$`)

// head asks for the file without its bytes. X-Linked-Etag is the SHA-256 of a
// file in large-file storage; that of any other is a Git hash, which is shorter.
func (h *Hub) head(ctx context.Context, repo, file, address string) (size int64, hash string, err error) {
	resp, err := h.do(ctx, http.MethodHead, address)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 400 {
		return 0, "", h.refused(ctx, resp, repo, file)
	}
	hash = strings.Trim(strings.TrimPrefix(resp.Header.Get("X-Linked-Etag"), "W/"), `"`)
	if !sha256Hex.MatchString(hash) {
		hash = ""
	}
	size, err = strconv.ParseInt(resp.Header.Get("X-Linked-Size"), 10, 64)
	if (err != nil || size < 0) && resp.StatusCode < 300 {
		size = max(resp.ContentLength, 0)
	}
	return size, hash, nil
}

// tree looks the file up in the listing of its folder, which a mirror may have
// where it does not pass the headers on.
func (h *Hub) tree(ctx context.Context, repo, file string, f *File) error {
	address := h.base.String() + "/api/models/" + repo + "/tree/" + url.PathEscape(f.Revision)
	if dir := path.Dir(file); dir != "." {
		address += "/" + escape(dir)
	}
	var list []struct {
		Path string `json:"path"`
		Size int64  `json:"size"`
		LFS  struct {
			OID  string `json:"oid"`
			Size int64  `json:"size"`
		} `json:"lfs"`
	}
	if err := h.json(ctx, repo, address, &list); err != nil {
		if _, none := errors.AsType[*NotFoundError](err); none {
			return nil // a mirror without listings: then nobody knows the hash
		}
		return err
	}
	for _, entry := range list {
		if entry.Path == file && sha256Hex.MatchString(entry.LFS.OID) {
			f.SHA256, f.Size = entry.LFS.OID, entry.LFS.Size
		}
	}
	return nil
}

// largest is the largest answer that is read, bytes; a listing of a thousand files is below it.
const largest = 4 << 20

func (h *Hub) json(ctx context.Context, repo, address string, into any) error {
	resp, err := h.do(ctx, http.MethodGet, address)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return h.refused(ctx, resp, repo, "")
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, largest)).Decode(into); err != nil {
		return &UnreachableError{Host: h.base.Host, Err: fmt.Errorf("read its answer: %w", err)}
	}
	return nil
}

func (h *Hub) do(ctx context.Context, method, address string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if h.cfg.Agent != "" {
		request.Header.Set("User-Agent", h.cfg.Agent)
	}
	if method == http.MethodHead {
		request.Header.Set("Accept-Encoding", "identity") // or the length is that of a packing
	}
	token, err := h.Token(ctx)
	if err != nil {
		return nil, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := h.client.Do(request)
	if err != nil {
		return nil, &UnreachableError{Host: h.base.Host, Err: err}
	}
	return resp, nil
}

// refused is the error of an answer that is none.
func (h *Hub) refused(ctx context.Context, resp *http.Response, repo, file string) error {
	switch code := resp.Header.Get("X-Error-Code"); {
	case code == "RepoNotFound":
		return &NotFoundError{Repo: repo}
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
		token, _ := h.Token(ctx) // the request had it, or it would not have been made
		return &AccessError{Repo: repo, Page: h.Page(repo), Token: token != ""}
	case resp.StatusCode == http.StatusNotFound:
		return &NotFoundError{Repo: repo, File: file}
	}
	return &UnreachableError{Host: h.base.Host, Err: fmt.Errorf("it answered with status %d", resp.StatusCode)}
}
