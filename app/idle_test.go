package app_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/llamaserver/fakellama"
	"github.com/ondol-app/ondol/internal/process"
)

// unloaded waits until the engine was unloaded because nobody used it.
func (c *clinic) unloaded() llamaserver.Status {
	c.t.Helper()
	var now llamaserver.Status
	within(c.t, patience, "an unloaded engine", func() error {
		now = c.status().Engine
		if now.State != llamaserver.Unloaded {
			return errors.New(now.State.String())
		}
		return nil
	})
	return now
}

func (c *clinic) get(path string) (status int, body string) {
	c.t.Helper()
	response, err := http.Get(c.base + path)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// An engine that nobody uses is unloaded, and everything that needs no vector
// goes on without it. The next requests wait for it, and start it once.
func TestIdleEngineIsUnloaded(t *testing.T) {
	c := newClinic(t, fakellama.Faults{LoadMS: 300}, "engine.unload_on_power", "1s").start()
	now := c.unloaded()
	if now.Cause != llamaserver.CauseIdle || now.PID != 0 || process.Identify(c.before.PID).Alive() || now.Fingerprint == "" {
		t.Errorf("engine %+v", now)
	}
	for _, path := range []string{"/v1/models", "/readyz", "/api/tags", "/healthz"} {
		if status, body := c.get(path); status != http.StatusOK {
			t.Errorf("%s: status %d, %s", path, status, body)
		}
	}
	if status := c.status(); len(status.Problems) != 0 {
		t.Errorf("problems %+v", status.Problems)
	}
	if code, out, errOut := c.ondol(t, "engine", "status"); code != 0 || !strings.Contains(out, "unloaded (idle)") {
		t.Errorf("engine status: exit %d, %s%s", code, out, errOut)
	}

	starts := c.fake.Starts(t)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if status, _, body := c.embed(fmt.Sprint("wakes it ", i)); status != http.StatusOK {
				t.Errorf("status %d, %s", status, body)
			}
		})
	}
	wg.Wait()
	if after := c.fake.Starts(t) - starts; after != 1 {
		t.Errorf("20 requests started it %d times", after)
	}
	c.unloaded()
	c.told("engine.state")
	if now := c.status().Engine; now.Restarts != 0 || now.LastError != nil {
		t.Errorf("engine %+v", now)
	}
	if code, out, errOut := c.ondol(t, "engine", "start"); code != 0 {
		t.Errorf("engine start: exit %d, %s%s", code, out, errOut)
	}
	c.unloaded()
	if code, _, errOut := c.ondol(t, "engine", "stop"); code != 0 {
		t.Errorf("engine stop: exit %d, %s", code, errOut)
	}
	if status, _, body := c.embed("nobody wakes what a person stopped"); status != http.StatusServiceUnavailable {
		t.Errorf("status %d, %s", status, body)
	}
}

// Looking after folders does not keep the engine awake; a new text does wake it.
func TestIndexingWakesTheEngineForWorkAlone(t *testing.T) {
	c := newClinic(t, fakellama.Faults{}, "engine.unload_on_power", "1s").start()
	folder := t.TempDir()
	write(t, filepath.Join(folder, "one.txt"), "The warm floor of a Korean house.")
	if code, out, errOut := c.ondol(t, "folders", "add", folder); code != 0 {
		t.Fatalf("folders add: exit %d, %s%s", code, out, errOut)
	}
	indexed := func(n int64) {
		t.Helper()
		within(t, patience, "an index", func() error {
			if counts := c.status().Index.Counts; counts.Indexed != n {
				return fmt.Errorf("%+v", counts)
			}
			return nil
		})
	}
	indexed(1)
	c.unloaded()
	starts, before := c.fake.Starts(t), c.status().Index.LastScan
	touched := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(folder, "one.txt"), touched, touched); err != nil { // to be read again, and found to be the same
		t.Fatal(err)
	}
	if code, out, errOut := c.ondol(t, "folders", "rescan", folder); code != 0 {
		t.Fatalf("folders rescan: exit %d, %s%s", code, out, errOut)
	}
	within(t, patience, "a scan", func() error {
		if now := c.status().Index.LastScan; now == nil || !now.After(*before) {
			return errors.New("not yet")
		}
		return nil
	})
	indexed(1)
	if after := c.fake.Starts(t); after != starts || c.status().Engine.State != llamaserver.Unloaded {
		t.Errorf("woken for nothing: %d starts after %d, %s", after, starts, c.status().Engine.State)
	}
	write(t, filepath.Join(folder, "two.txt"), "Beans, rice and a recipe for soup.")
	indexed(2)
	if after := c.fake.Starts(t); after != starts+1 {
		t.Errorf("%d starts after %d", after, starts)
	}
	c.unloaded()
}
