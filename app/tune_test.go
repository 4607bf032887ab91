package app_test

import (
	"encoding/json"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/ondol-app/ondol/internal/engines"
	"github.com/ondol-app/ondol/internal/llamaserver/fakellama"
)

// tuning is what `engine tune --json` says.
type tuning struct {
	Start engines.Point
	Tried []struct {
		Point  engines.Point
		Quick  bool
		Result string
		Time   *float64
		Why    string
	}
	Best  *engines.Point
	Order *engines.Order
}

func (h *home) tune(t *testing.T, args ...string) tuning {
	t.Helper()
	code, out, errOut := h.ondol(t, append([]string{"engine", "tune", "--json"}, args...)...)
	var r tuning
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, errOut)
	}
	return r
}

// Tuning tries settings one after the other, finds the fastest that passes
// every check, and changes nothing: here 34 layers on the GPU are slow, 99 do
// not start, and fewer slots than permits are not allowed.
func TestTune(t *testing.T) {
	c := newClinic(t, fakellama.Faults{DelayMS: 60, With: "-ngl 34", RefuseFlag: "99"}).start()
	c.shows(t, 2, "wanted: 1 to 64", "engine", "tune", "--np", "0")
	r := c.tune(t, "--ngl", "99,34,10", "--ub", "512", "--np", "1")
	if r.Start.NGL != 34 || r.Start.Slots != 4 || r.Best == nil || r.Best.NGL != 10 || r.Order == nil || *r.Order.NGL != 10 {
		t.Errorf("%+v", r)
	}
	results := map[string]int{}
	for i, tried := range r.Tried {
		results[tried.Result]++
		switch {
		case i == 0 && (tried.Point.NGL != 99 || tried.Result != "failed"):
			t.Errorf("99 layers: %+v", tried)
		case i > 0 && tried.Point.NGL != 10:
			t.Errorf("not from the fastest so far: %+v", tried)
		case tried.Result == "passed" && (tried.Time == nil || *tried.Time > 0.5):
			t.Errorf("a time of %v: %+v", tried.Time, tried)
		}
	}
	last := r.Tried[len(r.Tried)-1]
	if results["failed"] != 1 || results["impossible"] != 1 || results["passed"] < 3 || last.Quick || last.Point != *r.Best {
		t.Errorf("%v; the last is %+v", results, last)
	}
	if now := c.status().Engine; now.PID != c.before.PID || now.Generation != c.before.Generation {
		t.Errorf("the engine in service was touched: %+v", now)
	}
	if s, err := c.client.Candidate(t.Context()); err != nil || s.Phase != engines.Idle {
		t.Errorf("left behind: %+v, %v", s, err)
	}
	// Interrupted, it takes its candidate with it.
	waits := c.home.start(t, "engine", "tune", "--ngl", "10")
	within(t, patience, "a candidate", func() error {
		s, err := c.client.Candidate(t.Context())
		if err == nil && s.Phase == engines.Idle {
			err = errors.New("none yet")
		}
		return err
	})
	if err := waits.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-waits.done
	if s, err := c.client.Candidate(t.Context()); err != nil || s.Phase != engines.Idle || s.Candidate.Outcome != engines.Dropped || waits.cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("interrupted with %d: %+v, %+v, %v", waits.cmd.ProcessState.ExitCode(), s, s.Candidate, err)
	}
	text := c.shows(t, 0, "To put it into service: ondol engine candidate --ngl 10", "engine", "tune", "--ngl", "10", "--ub", "8192", "--np", "4", "--quick")
	for _, want := range []string{"FLAGS", "in service", "1.00 ×", "-ngl 10 -ub 8192 -np 4", "Nothing was changed"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// The real engine takes every flag that tuning sets.
func TestTuneTheRealEngine(t *testing.T) {
	h := newHome(t)
	h.shows(t, 0, "", "config", "set", "engine.candidate_slower_limit", "1000")
	r := h.serve(t)
	before := h.waitReady(t, r)
	got := h.tune(t, "--ngl", "13", "--ub", "16384", "--np", "2", "--quick")
	if len(got.Tried) != 4 || got.Tried[0].Point.NGL != 13 || !got.Tried[1].Point.NoOpOffload {
		t.Errorf("%+v", got)
	}
	for _, tried := range got.Tried {
		if tried.Result != "passed" || tried.Time == nil || *tried.Time <= 0 {
			t.Errorf("%+v", tried)
		}
	}
	if now := h.waitReady(t, r); now.PID != before.PID || now.Fingerprint != before.Fingerprint {
		t.Errorf("the engine in service was touched: %+v", now)
	}
}
