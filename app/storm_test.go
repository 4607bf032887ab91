package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/enginetest"
)

const (
	stormClients  = 20
	stormInputs   = 10
	stormAttempts = 6   // the first and five retries
	stormLength   = 240 // bytes, which are tokens here: some tenths of a second of work each
)

// TestRetryStorm has impatient clients ask for the same texts again and again,
// in different order, each time leaving before the work is done. The engine
// does it once.
func TestRetryStorm(t *testing.T) {
	h := newHome(t)
	h.env = append(h.env, "ONDOL_MODEL="+enginetest.Qwen3Shaped(t), "ONDOL_PROFILE=small")
	h.serve(t)
	before, err := h.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := storm{url: before.Endpoint + "/embeddings", model: before.Engine.Model.Name}
	var one time.Duration // the second time: the first reads the model from disk
	for _, name := range []string{"a warm start", "one by itself"} {
		began := time.Now()
		if err := s.ask(t.Context(), []string{stormText(name)}); err != nil {
			t.Fatal(err)
		}
		one = time.Since(began)
	}
	for i := range stormInputs {
		s.inputs = append(s.inputs, stormText(fmt.Sprintf("number %d of the storm", i)))
	}
	if before, err = h.client.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	tasks := h.tasks(t)

	deadline := 2 * one
	gaveUp, served := s.run(t, deadline)
	t.Logf("one input takes %v; with %v a try, %d tries were given up, %d served", one.Round(time.Millisecond), deadline.Round(time.Millisecond), gaveUp, served)
	if gaveUp < stormClients {
		t.Errorf("only %d tries were given up: the deadline is not shorter than the work", gaveUp)
	}
	within(t, patience, "the end of what was left behind", func() error {
		status, err := h.client.Status(t.Context())
		if a := status.Admission; err == nil && a.Executing+a.Draining+a.Waiting > 0 {
			err = fmt.Errorf("executing %d, draining %d, waiting %d", a.Executing, a.Draining, a.Waiting)
		}
		return err
	})
	// Whoever comes back once more is served, and costs nothing.
	for i := range stormClients {
		if err := s.ask(t.Context(), s.order(i)); err != nil {
			t.Errorf("client %d afterwards: %v", i, err)
		}
	}
	after, err := h.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := h.tasks(t) - tasks; n != stormInputs {
		t.Errorf("the engine's log has %d tasks, want %d", n, stormInputs)
	}
	if n := after.Cache.Misses - before.Cache.Misses; n != stormInputs {
		t.Errorf("%d misses, want %d", n, stormInputs)
	}
	hits, joins := after.Cache.Hits-before.Cache.Hits, after.Cache.Joins-before.Cache.Joins
	if hits < stormClients*stormInputs || joins == 0 {
		t.Errorf("%d hits and %d joins", hits, joins)
	}
}

// stormText is a text of stormLength bytes that begins with its name.
func stormText(name string) string {
	return (name + strings.Repeat(", and words and words", stormLength/20))[:stormLength]
}

// storm is many clients that want the same.
type storm struct {
	url, model string
	inputs     []string
}

// order is the inputs as client i sends them.
func (s *storm) order(i int) []string {
	i %= len(s.inputs)
	return append(append([]string{}, s.inputs[i:]...), s.inputs[:i]...)
}

// run lets every client try until it is served or has no tries left, each try
// no longer than deadline. Nothing but that deadline may end one.
func (s *storm) run(t *testing.T, deadline time.Duration) (gaveUp, served int64) {
	var up, ok atomic.Int64
	var clients sync.WaitGroup
	for i := range stormClients {
		clients.Go(func() {
			for range stormAttempts {
				ctx, cancel := context.WithTimeout(t.Context(), deadline)
				err := s.ask(ctx, s.order(i))
				cancel()
				switch {
				case err == nil:
					ok.Add(1)
					return
				case errors.Is(err, context.DeadlineExceeded):
					up.Add(1)
				default:
					t.Errorf("client %d: %v", i, err)
					return
				}
			}
		})
	}
	clients.Wait()
	return up.Load(), ok.Load()
}

func (s *storm) ask(ctx context.Context, inputs []string) error {
	body, err := json.Marshal(map[string]any{"model": s.model, "input": inputs, "encoding_format": "base64"})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, reply)
	}
	if n := bytes.Count(reply, []byte(`"index"`)); n != len(inputs) {
		return fmt.Errorf("%d vectors for %d inputs", n, len(inputs))
	}
	return nil
}
