package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/enginetest"
	"github.com/ondol-app/ondol/internal/llamaserver"
)

// lab is the app with a small queue and, beside it, the engine by itself.
type lab struct {
	home   *home
	base   string // http://host:port
	model  string
	engine engine

	mu     sync.Mutex // guards what follows
	held   *held      // nil while the queue is as it is
	fresh  int        // texts made so far
	lookup map[string][]float64
}

func newLab(t *testing.T) *lab {
	h := newHome(t)
	for _, pair := range []string{"admission.background 0", "admission.executing 1", "admission.waiting 1"} {
		if code, out, errOut := h.ondol(t, append([]string{"config", "set"}, strings.Fields(pair)...)...); code != 0 {
			t.Fatalf("config set %s: exit %d, %s%s", pair, code, out, errOut)
		}
	}
	h.serve(t)
	status, err := h.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	profile, err := llamaserver.ProfileByName("starter")
	if err != nil {
		t.Fatal(err)
	}
	return &lab{home: h, base: strings.TrimSuffix(status.Endpoint, "/v1"), model: status.Engine.Model.Name,
		engine: startEngine(t, enginetest.StarterModel(t), profile.Flags), lookup: make(map[string][]float64)}
}

// reference is the engine's own vector of each text.
func (l *lab) reference(ctx context.Context, texts []string) ([][]float64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	vectors := make([][]float64, len(texts))
	for i, text := range texts {
		if l.lookup[text] == nil {
			fresh, err := l.engine.embed(ctx, text)
			if err != nil {
				return nil, fmt.Errorf("ask the engine itself: %w", err)
			}
			l.lookup[text] = fresh
		}
		vectors[i] = l.lookup[text]
	}
	return vectors, nil
}

// held is a full queue: the engine is stopped, one request executes, one waits.
type held struct {
	before  uint64 // refusals when the queue had become full
	release context.CancelFunc
	done    chan error // the end of the three
}

// readable is the shortest estimate a refusal must give before a client may
// meet the full queue: it comes back after it, and by then the engine runs.
const readable = 400 * time.Millisecond

// hold fills the queue. The engine goes on as soon as somebody was refused.
func (l *lab) hold(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil {
		return errors.New("the queue is held already")
	}
	status, err := l.home.client.Status(ctx)
	if err != nil {
		return err
	}
	pid := status.Engine.PID
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop the engine: %w", err)
	}
	watch, release := context.WithTimeout(context.Background(), patience)
	h := &held{release: release, done: make(chan error, 1)}
	served := make(chan error, 2)
	for range cap(served) {
		l.fresh++
		text := "held request number " + strconv.Itoa(l.fresh)
		go func() {
			status, _, err := l.post(context.Background(), text)
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("a held request ended with status %d", status)
			}
			served <- err
		}()
	}
	err = l.fill(watch, h)
	if err != nil {
		release()
	}
	go func() {
		defer release()
		_ = poll(watch, func() error { // whoever waits gives up when somebody was refused, or by release
			if n, err := l.refusals(watch); err != nil || n > h.before {
				return err
			}
			return errors.New("nobody was refused")
		})
		err := syscall.Kill(pid, syscall.SIGCONT)
		for range cap(served) {
			err = errors.Join(err, <-served)
		}
		h.done <- err
	}()
	if err != nil {
		return errors.Join(err, <-h.done)
	}
	l.held = h
	return nil
}

// fill waits until the queue is full and a refusal says so with a wait that can be told from none.
func (l *lab) fill(ctx context.Context, h *held) error {
	err := poll(ctx, func() error {
		status, err := l.home.client.Status(ctx)
		if a := status.Admission; err == nil && (a.Executing != 1 || a.Waiting != 1) {
			err = fmt.Errorf("executing %d, waiting %d", a.Executing, a.Waiting)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("fill the queue: %w", err)
	}
	err = poll(ctx, func() error {
		status, header, err := l.post(ctx, "one request too many")
		if err != nil {
			return err
		}
		ms, err := strconv.Atoi(header.Get("retry-after-ms"))
		if status != http.StatusTooManyRequests || err != nil || time.Duration(ms)*time.Millisecond < readable {
			return fmt.Errorf("status %d, retry-after-ms %q", status, header.Get("retry-after-ms"))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("be refused: %w", err)
	}
	h.before, err = l.refusals(ctx)
	return err
}

// release lets the engine go on if it does not yet, waits until the queue is
// empty, and returns how many requests were refused since hold.
func (l *lab) release(ctx context.Context) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		return 0, errors.New("the queue is not held")
	}
	h := l.held
	l.held = nil
	now, err := l.refusals(ctx)
	h.release()
	if err := errors.Join(err, <-h.done); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return now - h.before, poll(ctx, func() error {
		status, err := l.home.client.Status(ctx)
		if a := status.Admission; err == nil && a.Executing+a.Draining+a.Waiting > 0 {
			err = errors.New("the queue is not empty")
		}
		return err
	})
}

func (l *lab) refusals(ctx context.Context) (uint64, error) {
	status, err := l.home.client.Status(ctx)
	return status.Admission.Totals[admission.QueueFull], err
}

// post asks for the vector of a text without any client library.
func (l *lab) post(ctx context.Context, text string) (int, http.Header, error) {
	body, err := json.Marshal(map[string]any{"model": l.model, "input": text})
	if err != nil {
		return 0, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.base+"/v1/embeddings", bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Header, err
}

// poll tries until it succeeds or ctx ends; the error is then the last one.
func poll(ctx context.Context, try func() error) error {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}

// handler is the lab for a client in another process.
func (l *lab) handler() http.Handler {
	answer := func(w http.ResponseWriter, v any, err error) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(v) // the other side may have gone
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /reference", func(w http.ResponseWriter, r *http.Request) {
		var texts []string
		if err := json.NewDecoder(r.Body).Decode(&texts); err != nil {
			answer(w, nil, err)
			return
		}
		vectors, err := l.reference(r.Context(), texts)
		answer(w, vectors, err)
	})
	mux.HandleFunc("POST /hold", func(w http.ResponseWriter, r *http.Request) {
		answer(w, struct{}{}, l.hold(r.Context()))
	})
	mux.HandleFunc("POST /release", func(w http.ResponseWriter, r *http.Request) {
		refused, err := l.release(r.Context())
		answer(w, map[string]uint64{"refused": refused}, err)
	})
	return mux
}

// engine is a llama-server of the test's own.
type engine struct {
	http *http.Client
}

// startEngine runs llama-server with the model and flags and returns when it
// is ready; it ends with the test.
func startEngine(t *testing.T, model string, flags []string) engine {
	t.Helper()
	dir, err := os.MkdirTemp("", "ondol") // t.TempDir may be too long for the name of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "e.sock")
	var out lockedBuffer
	cmd := exec.Command(enginetest.LlamaServer(t), append([]string{"-m", model, "--host", socket}, flags...)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended already
		_ = cmd.Wait()
	})
	e := engine{http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
	t.Cleanup(e.http.CloseIdleConnections)
	within(t, patience, "an engine by itself", func() error {
		resp, err := e.http.Get("http://engine/health")
		if err != nil {
			return fmt.Errorf("%w\n%s", err, tail(out.String(), 2000))
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
	return e
}

// embed returns the vector of a text as the engine gives it.
func (e engine) embed(ctx context.Context, text string) ([]float64, error) {
	body, err := json.Marshal(map[string]string{"input": text})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://engine/v1/embeddings", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := e.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var reply struct {
		Data []struct{ Embedding []*float64 } // null must not become 0
	}
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil || len(reply.Data) != 1 {
		return nil, fmt.Errorf("%s, %d vectors: %w", resp.Status, len(reply.Data), err)
	}
	vector := make([]float64, len(reply.Data[0].Embedding))
	for i, x := range reply.Data[0].Embedding {
		if x == nil {
			return nil, fmt.Errorf("component %d is null", i)
		}
		vector[i] = *x
	}
	return vector, nil
}
