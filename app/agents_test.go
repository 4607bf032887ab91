package app_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ondol-app/ondol/internal/admission"
)

const (
	ledgerLine  = "The ledger has a line for each day of the year.\n"
	ledgerLines = 220_000 // of ledgerLine: 10 MB
	oneLine     = "This line goes on and on. "
)

// TestAgents runs the clients that agents use against the app, its real engine
// and watched folders with a document of 10 MB among many.
func TestAgents(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	docs, secret, way := filepath.Join(base, "docs"), filepath.Join(base, "secret"), filepath.Join(base, "way")
	for name, text := range map[string]string{
		"docs/garage.md":    "# Garage\n\nThe automobile repair manual explains the brakes, the clutch and the gearbox.\n",
		"docs/의회.txt":       "시의회는 내년 예산안을 심의했다. 예산은 크게 늘어난다.\n",
		"docs/ledger.txt":   strings.Repeat(ledgerLine, ledgerLines-1) + "This is the last line of the ledger.",
		"docs/one line.txt": strings.Repeat(oneLine, 5000),
		"secret/key.txt":    "The treasure lies under the old oak.\n",
	} {
		write(t, filepath.Join(base, name), text)
	}
	for i := range 200 {
		write(t, filepath.Join(docs, "many", fmt.Sprintf("note %d.md", i)), fmt.Sprintf("# Note %d\n\nNothing of interest was noted on day %d.\n", i, i))
	}
	if err := errors.Join(os.Symlink(secret, filepath.Join(docs, "hole")), os.Symlink(docs, way)); err != nil {
		t.Fatal(err)
	}
	h := newHome(t)
	h.serve(t)
	if code, out, errOut := h.ondol(t, "folders", "add", docs, "--wait"); code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, errOut)
	}
	status, err := h.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(h.dir, "data", "token"))
	if err != nil {
		t.Fatal(err)
	}
	endpoint := strings.TrimSuffix(status.Endpoint, "/v1")
	still := &stillness{home: h, endpoint: endpoint}
	lab := httptest.NewServer(still.handler())
	defer lab.Close()
	cmd := nodeCommand(t, "mcp-stdio", "mcp-http", "mcp-2026", "mcp-inspector")
	cmd.Env = h.env // of `ondol mcp`, which the clients start
	planned := report(t, cmd, map[string]any{
		"base": endpoint, "control": lab.URL, "token": strings.TrimSpace(string(token)), "command": []string{os.Args[0], "mcp"},
		"docs": docs, "secret": secret, "way": way, "ledgerLines": ledgerLines, "oneLine": oneLine,
	})
	for _, client := range []string{"mcp-stdio", "mcp-http", "mcp-2026"} {
		for _, check := range []string{"unknown argument", "outside the folders", "a document of 10 MB", "a cancelled call", "six searches at once"} {
			if !planned[client+"/"+check] {
				t.Errorf("%s: no check %q", client, check)
			}
		}
	}
}

// stillness stops the engine while all its places are taken, so that a search
// waits for as long as it is willing to.
type stillness struct {
	home     *home
	endpoint string

	mu     sync.Mutex // guards what follows
	pid    int        // of the stopped engine; 0 while it runs
	served chan error // the ends of the requests that take the places
	fresh  int        // texts made so far
}

func (s *stillness) handler() http.Handler {
	answer := func(w http.ResponseWriter, err error) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /freeze", func(w http.ResponseWriter, r *http.Request) { answer(w, s.freeze(r)) })
	mux.HandleFunc("POST /thaw", func(w http.ResponseWriter, r *http.Request) { answer(w, s.thaw()) })
	mux.HandleFunc("POST /waiting", func(w http.ResponseWriter, r *http.Request) {
		var want struct{ Waiting int }
		if err := json.NewDecoder(r.Body).Decode(&want); err != nil {
			answer(w, err)
			return
		}
		answer(w, s.until(r, func(a admission.Stats) bool { return a.Waiting == want.Waiting }))
	})
	return mux
}

// until asks for the queue until it is as wanted.
func (s *stillness) until(r *http.Request, good func(admission.Stats) bool) error {
	return poll(r.Context(), func() error {
		status, err := s.home.client.Status(r.Context())
		if a := status.Admission; err == nil && !good(a) {
			err = fmt.Errorf("executing %d, draining %d, waiting %d", a.Executing, a.Draining, a.Waiting)
		}
		return err
	})
}

func (s *stillness) freeze(r *http.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.until(r, func(a admission.Stats) bool { return a.Executing+a.Draining+a.Waiting == 0 }); err != nil {
		return err
	}
	status, err := s.home.client.Status(r.Context())
	if err != nil {
		return err
	}
	if err := syscall.Kill(status.Engine.PID, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop the engine: %w", err)
	}
	s.pid, s.served = status.Engine.PID, make(chan error, status.Admission.Limits.Executing)
	for range cap(s.served) {
		s.fresh++
		body := fmt.Sprintf(`{"input":"held request number %d"}`, s.fresh)
		go func() {
			resp, err := http.Post(s.endpoint+"/v1/embeddings", "application/json", strings.NewReader(body))
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			s.served <- err
		}()
	}
	return s.until(r, func(a admission.Stats) bool { return a.Executing == cap(s.served) })
}

func (s *stillness) thaw() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pid == 0 {
		return errors.New("the engine is not stopped")
	}
	err := syscall.Kill(s.pid, syscall.SIGCONT)
	for range cap(s.served) {
		err = errors.Join(err, <-s.served)
	}
	s.pid = 0
	return err
}
