package app_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/control"
)

// The routes a page tries: every open one, and those of the control API,
// which must not be there at all.
var (
	pageGets = []string{"/", "/v1/models", "/v1/models/any", "/api/version", "/api/tags", "/api/ps", "/healthz", "/readyz",
		"/metrics", "/mcp", "/ui/", "/ondol/v1/status", "/ondol/v1/events", "/ondol/v1/settings"}
	pagePosts = []string{"/v1/embeddings", "/embeddings", "/api/embed", "/api/embeddings", "/api/show", "/v1/rerank", "/rerank",
		"/v1/chat/completions", "/v1/completions", "/infill", "/mcp", "/ondol/v1/search", "/ondol/v1/folders", "/ondol/v1/engine/stop"}
	pageSockets = []string{"/mcp", "/ondol/v1/events"} // a browser takes seconds for each further one that fails
)

// How many ways a page has to ask for one route (testdata/browser.html), and
// how many attempts at one target that makes.
const getWays, postWays = 7, 8

var pageAttempts = getWays*len(pageGets) + postWays*len(pagePosts) + len(pageSockets)

// TestWebPages lets pages in a real browser try to read or change anything:
// one from another port of this machine, and one whose own name was pointed at
// this machine after it was loaded, so that the browser sees one origin.
func TestWebPages(t *testing.T) {
	h := newHome(t)
	h.serve(t)
	status, err := h.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before, target := deeds(status), strings.TrimSuffix(status.Endpoint, "/v1")
	plan := pagePlan{Gets: pageGets, Posts: pagePosts, Sockets: pageSockets, Model: status.Engine.Model.Name}

	t.Run("another port", func(t *testing.T) {
		open := newOpenServer(t)
		s := newSite(t, http.NotFoundHandler())
		plan.Targets = []pageTarget{{"gateway", target}, {"open", open.URL}}
		attempts := s.visit(t, s.URL, plan)
		judge(t, attempts, "gateway", nil)
		open.judge(t, attempts)
		wantRefusals(t, h, "origin_not_allowed", pageAttempts)
	})
	t.Run("rebound name", func(t *testing.T) {
		base, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		// What is not the site's own goes on to the gateway as the browser sent it.
		s := newSite(t, &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(base)
			r.Out.Host = r.In.Host
		}})
		origin := strings.Replace(s.URL, "127.0.0.1", rebound, 1)
		plan.Targets = []pageTarget{{"itself", origin}, {"gateway by name", strings.Replace(target, "127.0.0.1", rebound, 1)}, {"gateway", target}}
		attempts := s.visit(t, origin, plan)
		// The replies of its own origin a page may read: all of them must say no.
		judge(t, attempts, "itself", func(a attempt) bool { return strings.Contains(a.Detail, "basic 421 ") })
		judge(t, attempts, "gateway by name", nil)
		judge(t, attempts, "gateway", nil)
		wantRefusals(t, h, "misdirected_request", 2*pageAttempts)
	})
	if status, err = h.client.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, deeds(status)); diff != "" {
		t.Errorf("web pages made the app do something:\n%s", diff)
	}
}

// deeds is what would have changed, had the app done anything for a page.
func deeds(s control.Status) any {
	return []any{s.Admission.Totals, s.Validity, s.Index.Counts, s.Index.Folders, s.Engine.PID, s.Engine.Restarts, s.Engine.State}
}

// rebound is a name that the browser takes for this machine.
const rebound = "evil.test"

type pageTarget struct {
	Name string `json:"name"`
	Base string `json:"base"`
}

type pagePlan struct {
	Targets []pageTarget `json:"targets"`
	Gets    []string     `json:"gets"`
	Posts   []string     `json:"posts"`
	Sockets []string     `json:"sockets"`
	Model   string       `json:"model"`
}

// attempt is what a page learned from one try.
type attempt struct {
	Target, Route, How, Detail string
	Read                       bool // a status, a body, or that something is there
	Hung                       bool
}

// judge checks that a page tried everything at a target and learned nothing.
func judge(t *testing.T, attempts []attempt, target string, harmless func(attempt) bool) {
	t.Helper()
	n := 0
	for _, a := range attempts {
		if a.Target != target {
			continue
		}
		n++
		if a.Hung {
			t.Errorf("%s %s by %s got no answer", target, a.Route, a.How)
		}
		if a.Read && (harmless == nil || !harmless(a)) {
			t.Errorf("%s %s by %s could be read: %s", target, a.Route, a.How, a.Detail)
		}
	}
	if n != pageAttempts {
		t.Errorf("%d attempts at %s, want %d", n, target, pageAttempts)
	}
}

// wantRefusals checks in the log that the gateway itself refused that many requests at least.
func wantRefusals(t *testing.T, h *home, code string, least int) {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(h.dir, "logs", "ondol.log"))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(log, []byte(code)); n < least {
		t.Errorf("the gateway refused %d requests with %s, want at least %d", n, code, least)
	}
}

// site is where a page comes from: it hands out the page and its plan, and takes the report.
type site struct {
	*httptest.Server
	plan   atomic.Pointer[pagePlan]
	report chan []attempt
}

func newSite(t *testing.T, rest http.Handler) *site {
	t.Helper()
	s := &site{report: make(chan []attempt, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /page.html", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, filepath.Join("testdata", "browser.html"))
	})
	mux.HandleFunc("GET /plan.json", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(s.plan.Load()) // the browser may have gone
	})
	mux.HandleFunc("POST /report", func(_ http.ResponseWriter, r *http.Request) {
		var attempts []attempt
		if err := json.NewDecoder(r.Body).Decode(&attempts); err != nil {
			attempts = []attempt{{Target: "page", How: err.Error()}}
		}
		s.report <- attempts
	})
	mux.Handle("/", rest)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// visit opens the page in a browser and returns what it reports.
func (s *site) visit(t *testing.T, origin string, plan pagePlan) []attempt {
	t.Helper()
	s.plan.Store(&plan)
	dir, err := os.MkdirTemp("", "ondol") // t.TempDir fails when a process of the browser still writes there
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-dev-shm-usage", "--mute-audio", "--no-proxy-server",
		"--user-data-dir=" + dir, "--host-resolver-rules=MAP " + rebound + " 127.0.0.1", "--remote-debugging-port=0"}
	if os.Getuid() == 0 {
		args = append(args, "--no-sandbox") // it refuses to run as root otherwise
	}
	var out lockedBuffer
	cmd := exec.Command(browser(t), append(args, origin+"/page.html")...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "HOME="+dir), &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is killed
		close(ended)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the group: a browser is many processes
		<-ended
		_ = os.RemoveAll(dir)
	})
	select {
	case attempts := <-s.report:
		return attempts
	case <-ended:
		t.Fatalf("the browser ended:\n%s", tail(out.String(), 4000))
	case <-time.After(patience):
		t.Fatalf("the page reports nothing:\n%s", tail(out.String(), 4000))
	}
	return nil
}

// browser is the path of a browser of Chromium's family.
func browser(t *testing.T) string {
	t.Helper()
	names := []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}
	if runtime.GOOS == "darwin" {
		for _, root := range []string{"/Applications", filepath.Join(os.Getenv("HOME"), "Applications")} {
			for _, name := range []string{"Chromium", "Google Chrome"} {
				names = append(names, filepath.Join(root, name+".app", "Contents", "MacOS", name))
			}
		}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatalf("no browser (%s); run: make setup", strings.Join(names, ", "))
	return ""
}

// openServer lets every page do everything. It shows that the page's attempts
// can succeed and reach a server at all.
type openServer struct {
	*httptest.Server
	requests atomic.Int64
}

func newOpenServer(t *testing.T) *openServer {
	o := new(openServer)
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
		h.Set("Access-Control-Allow-Credentials", "true")
		h.Set("Access-Control-Allow-Headers", "authorization, content-type")
		h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
		if r.Method == http.MethodOptions {
			return
		}
		o.requests.Add(1)
		switch {
		case r.Header.Get("Sec-Fetch-Dest") == "image":
			h.Set("Content-Type", "image/svg+xml")
			_, _ = io.WriteString(w, `<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>`)
		case r.Header.Get("Sec-Fetch-Dest") == "script":
			h.Set("Content-Type", "text/javascript")
		case r.Header.Get("Accept") == "text/event-stream":
			h.Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {}\n\n")
		default:
			_, _ = io.WriteString(w, "open")
		}
	}))
	t.Cleanup(o.Close)
	return o
}

// judge checks that the page could read what a server lets it read, and that
// every attempt was a request.
func (o *openServer) judge(t *testing.T, attempts []attempt) {
	t.Helper()
	readable := map[string]bool{"fetch": true, "fetch with credentials": true, "img": true, "script": true, "EventSource": true,
		"fetch text/plain": true, "fetch JSON": true, "fetch DELETE": true}
	n := 0
	for _, a := range attempts {
		if a.Target != "open" {
			continue
		}
		n++
		if a.Read != readable[a.How] {
			t.Errorf("open %s by %s: read %v, want %v (%s)", a.Route, a.How, a.Read, readable[a.How], a.Detail)
		}
	}
	if made := int(o.requests.Load()); n != pageAttempts || made < n {
		t.Errorf("%d attempts made %d requests, want %d", n, made, pageAttempts)
	}
}
