package app_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/llamaserver/fakellama"
	"github.com/ondol-app/ondol/internal/sqlite"
	"github.com/ondol-app/ondol/internal/trust"
)

// clinic is the app over an engine with faults on demand. The app is started
// once: whatever happens to its engine, it recovers without another start.
type clinic struct {
	*home
	t    *testing.T
	fake *fakellama.Fake
	app  *running
	base string // http://host:port

	before llamaserver.Status
}

// newClinic starts the app; settings are pairs of key and value.
func newClinic(t *testing.T, faults fakellama.Faults, settings ...string) *clinic {
	t.Helper()
	c := &clinic{home: newHome(t), t: t, fake: fakellama.Install(t, faults)}
	c.env = slices.DeleteFunc(c.env, func(s string) bool {
		return strings.HasPrefix(s, "ONDOL_LLAMA_SERVER=") || strings.HasPrefix(s, "ONDOL_MODEL=")
	})
	c.env = append(c.env, "ONDOL_LLAMA_SERVER="+c.fake.Path, "ONDOL_MODEL="+c.fake.Model)
	for i := 0; i < len(settings); i += 2 {
		if code, out, errOut := c.ondol(t, "config", "set", settings[i], settings[i+1]); code != 0 {
			t.Fatalf("config set %s: exit %d, %s%s", settings[i], code, out, errOut)
		}
	}
	return c
}

func (c *clinic) start() *clinic {
	c.t.Helper()
	c.app = c.serve(c.t)
	c.settle()
	return c
}

// settle notes how the engine stands before the fault.
func (c *clinic) settle() {
	c.t.Helper()
	status := c.status()
	c.base, c.before = strings.TrimSuffix(status.Endpoint, "/v1"), status.Engine
}

func (c *clinic) status() control.Status {
	c.t.Helper()
	status, err := c.client.Status(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return status
}

// embed asks for vectors as an editor does.
func (c *clinic) embed(inputs ...string) (status int, header http.Header, body string) {
	c.t.Helper()
	raw, err := json.Marshal(map[string]any{"model": "fake-model", "input": inputs})
	if err != nil {
		c.t.Fatal(err)
	}
	response, err := http.Post(c.base+"/v1/embeddings", "application/json", bytes.NewReader(raw))
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(text)
}

// served is an embed that must succeed, as soon as there is an engine.
func (c *clinic) served(inputs ...string) {
	c.t.Helper()
	within(c.t, patience, "a vector", func() error {
		status, _, body := c.embed(inputs...)
		if status == http.StatusServiceUnavailable {
			return errors.New(body)
		}
		if status != http.StatusOK {
			c.t.Fatalf("%q: status %d, %s", inputs, status, body)
		}
		return nil
	})
}

// refused is an embed that must be 502, with no retry, and name what is at fault.
func (c *clinic) refused(want string, inputs ...string) {
	c.t.Helper()
	status, header, body := c.embed(inputs...)
	if status != http.StatusBadGateway || header.Get("x-should-retry") != "false" || !strings.Contains(body, `"invalid_vector"`) || !strings.Contains(body, want) {
		c.t.Errorf("%q: status %d, x-should-retry %q, %s; want 502 and %q", inputs, status, header.Get("x-should-retry"), body, want)
	}
}

// recovered waits for a ready engine after the one before the fault, which is
// the restarts-th start after it, and returns its status.
func (c *clinic) recovered(restarts uint64, code llamaserver.Code) llamaserver.Status {
	c.t.Helper()
	var now llamaserver.Status
	within(c.t, patience, "recovery", func() error {
		now = c.status().Engine
		if now.State != llamaserver.Ready || now.Generation <= c.before.Generation {
			return fmt.Errorf("%s, start %d, %v", now.State, now.Generation, now.LastError)
		}
		return nil
	})
	if now.Generation != c.before.Generation+restarts || now.LastError == nil || now.LastError.Code != code || now.PID == c.before.PID {
		c.t.Errorf("recovered after %d starts with %v, want %d and %s", now.Generation-c.before.Generation, now.LastError, restarts, code)
	}
	select {
	case <-c.app.done:
		c.t.Error("the app has ended")
	default:
	}
	return now
}

// told waits until the journal holds events of all the kinds.
func (c *clinic) told(kinds ...string) {
	c.t.Helper()
	db, err := sqlite.Open(filepath.Join(c.dir, "data", "ondol.db"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer db.Close()
	within(c.t, patience, "events "+strings.Join(kinds, ", "), func() error {
		events, _, err := db.Events(c.t.Context(), 0, 10000)
		if err != nil {
			return err
		}
		var have []string
		for _, e := range events {
			have = append(have, e.Kind.String())
		}
		for _, kind := range kinds {
			if !slices.Contains(have, kind) {
				return fmt.Errorf("no %s in %v", kind, have)
			}
		}
		return nil
	})
}

// evidence waits for a piece of it with the code, and checks that nobody's
// text is in the report.
func (c *clinic) evidence(code string, texts ...string) trust.Evidence {
	c.t.Helper()
	var found trust.Evidence
	within(c.t, patience, "evidence of "+code, func() error {
		report, err := c.client.EngineReport(c.t.Context())
		if err != nil {
			return err
		}
		for _, e := range report.Evidence {
			if e.Code == code {
				found = e
				return nil
			}
		}
		return fmt.Errorf("none in %+v", report.Evidence)
	})
	for _, flag := range []string{"", "--json"} {
		code, out, errOut := c.ondol(c.t, strings.Fields("engine report "+flag)...)
		if code != 0 || !strings.Contains(out, found.Message) {
			c.t.Errorf("engine report %s: exit %d, %s%s", flag, code, out, errOut)
		}
		for _, text := range texts {
			if strings.Contains(out, text) {
				c.t.Errorf("engine report %s shows %q", flag, text)
			}
		}
	}
	if len(found.Flags) == 0 || found.Build == "" || found.Generation == 0 || found.Began.IsZero() {
		c.t.Errorf("evidence = %+v", found)
	}
	return found
}

func (c *clinic) problem(code string) (control.Problem, bool) {
	c.t.Helper()
	problems := c.status().Problems
	i := slices.IndexFunc(problems, func(p control.Problem) bool { return p.Code == code })
	if i < 0 {
		return control.Problem{}, false
	}
	return problems[i], true
}

// One input after which every vector is NaN: one 502 for it, one restart, and
// the next time it does not come to the engine.
func TestFaultStickyNaN(t *testing.T) {
	c := newClinic(t, fakellama.Faults{StickyOn: "venom"}).start()
	c.served("before")
	c.refused("input[1] (not_finite)", "good", "some venom")
	c.served("after")
	c.recovered(2, llamaserver.CodePoisoned) // with another input in the call nobody knows: it had a trial
	c.settle()
	c.refused("input[0] (not_finite)", "more venom")
	c.served("after that")
	c.recovered(1, llamaserver.CodePoisoned)
	c.settle()

	c.refused("quarantine clear", "some venom")
	c.refused("input[1] (quarantined)", "good", "more venom")
	if now := c.status(); now.Engine.Generation != c.before.Generation || now.Validity.Quarantined != 2 {
		t.Errorf("start %d → %d, %+v", c.before.Generation, now.Engine.Generation, now.Validity)
	}
	if p, ok := c.problem("quarantine"); !ok || p.Args["count"] != "2" {
		t.Errorf("problem %+v, %v", p, ok)
	}
	c.told("engine.poisoned", "input.quarantined", "vector.invalid")
	e := c.evidence("poisoned", "venom")
	if len(e.Inputs) == 0 || e.Inputs[0].SHA256 != trust.HashOf("more venom").String() {
		t.Errorf("inputs %+v", e.Inputs)
	}
	hash := trust.HashOf("some venom").String()
	if code, out, errOut := c.ondol(t, "engine", "quarantine", "list"); code != 0 || !strings.Contains(out, hash) || strings.Contains(out, "venom") {
		t.Errorf("quarantine list: exit %d, %s%s", code, out, errOut)
	}
	// It outlives the app, and ends when a person wants it to.
	if err := c.app.stop(); err != nil {
		t.Fatal(err)
	}
	c.start()
	c.refused("quarantined", "some venom")
	if code, out, errOut := c.ondol(t, "engine", "quarantine", "clear", hash); code != 0 {
		t.Errorf("quarantine clear: exit %d, %s%s", code, out, errOut)
	}
	c.fake.Set(t, fakellama.Faults{})
	c.served("some venom")
	c.refused("quarantined", "more venom")
	if code, _, _ := c.ondol(t, "engine", "quarantine", "clear"); code != 0 {
		t.Error("quarantine clear fails")
	}
	c.served("more venom")
	if _, ok := c.problem("quarantine"); ok {
		t.Error("the problem outlives the quarantine")
	}
}

// Vectors are NaN only when two run at once: nobody is refused, and the engine
// computes one at a time until one passes.
func TestFaultOnlyTogether(t *testing.T) {
	c := newClinic(t, fakellama.Faults{Overlap: true, DelayMS: 20}).start()
	now := c.status()
	one := now.Validity.OneAtATime
	if now.Engine.Restarts != 0 || one == nil || one.Detail != "not_finite" || now.Engine.Canary.Code.String() != "canary_together" {
		t.Fatalf("engine %+v, one at a time %+v", now.Engine, one)
	}
	if p, ok := c.problem("one_at_a_time"); !ok || p.Since == nil {
		t.Errorf("problem %+v, %v", p, ok)
	}
	within(t, patience, "a limit of one", func() error {
		if n := c.status().Admission.Limits.Executing; n != 1 {
			return fmt.Errorf("limit %d", n)
		}
		return nil
	})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() { c.served(fmt.Sprint("one ", i), fmt.Sprint("two ", i)) })
	}
	wg.Wait()
	if v := c.status().Validity; v.Rejected != 0 || v.Quarantined != 0 {
		t.Errorf("%+v", v)
	}
	c.told("canary.failed", "engine.one_at_a_time")
	c.evidence("canary_together")

	c.fake.Set(t, fakellama.Faults{})
	if code, out, errOut := c.ondol(t, "engine", "restart"); code != 0 {
		t.Fatalf("engine restart: exit %d, %s%s", code, out, errOut)
	}
	within(t, patience, "the limit of the settings", func() error {
		if now := c.status(); now.Admission.Limits.Executing != 2 || now.Validity.OneAtATime != nil {
			return fmt.Errorf("limit %d, %+v", now.Admission.Limits.Executing, now.Validity.OneAtATime)
		}
		return nil
	})
	c.told("engine.together", "canary.passed")
}

// The fault begins while the engine runs, under load: the canaries, due after
// so many vectors, find out.
func TestFaultTogetherLater(t *testing.T) {
	c := newClinic(t, fakellama.Faults{}, "engine.check_every", "10").start()
	c.fake.Set(t, fakellama.Faults{Overlap: true, DelayMS: 5})
	within(t, patience, "one at a time", func() error {
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() { c.served(fmt.Sprint(c.fresh(), " ", i)) })
		}
		wg.Wait()
		if c.status().Validity.OneAtATime == nil {
			return errors.New("not yet")
		}
		return nil
	})
	if v := c.status(); v.Engine.Generation != c.before.Generation || v.Validity.Quarantined != 0 {
		t.Errorf("start %d, %+v", v.Engine.Generation, v.Validity)
	}
}

var freshTexts struct {
	sync.Mutex
	n int
}

// fresh is a number nobody had before, for texts that no cache knows.
func (c *clinic) fresh() int {
	freshTexts.Lock()
	defer freshTexts.Unlock()
	freshTexts.n++
	return freshTexts.n
}

// Zero vectors for everything: the engine is replaced, again and again, and
// then given up with the reason shown; a person's start finds it well again.
func TestFaultZeroVectors(t *testing.T) {
	c := newClinic(t, fakellama.Faults{}).start()
	c.fake.Set(t, fakellama.Faults{Vectors: fakellama.Zero})
	status, _, body := c.embed("anything")
	if status != http.StatusBadGateway && status != http.StatusServiceUnavailable {
		t.Errorf("status %d, %s", status, body)
	}
	within(t, patience, "the end of the budget", func() error {
		if now := c.status().Engine; now.State != llamaserver.Failed || now.RetryAt != nil {
			return fmt.Errorf("%s, %v", now.State, now.LastError)
		}
		return nil
	})
	now := c.status().Engine
	if now.Cause != llamaserver.CauseBudget || now.LastError.Code != llamaserver.CodeProbe {
		t.Errorf("%s: %v", now.Cause, now.LastError)
	}
	if _, ok := c.problem("engine_failed"); !ok {
		t.Error("no problem is shown")
	}
	if status, _, body := c.embed("anything else"); status != http.StatusServiceUnavailable {
		t.Errorf("without an engine: status %d, %s", status, body)
	}
	c.told("engine.poisoned", "engine.state")
	c.evidence("probe_invalid", "anything")
	c.fake.Set(t, fakellama.Faults{})
	if code, out, errOut := c.ondol(t, "engine", "start"); code != 0 {
		t.Fatalf("engine start: exit %d, %s%s", code, out, errOut)
	}
	if code, _, _ := c.ondol(t, "engine", "quarantine", "clear"); code != 0 {
		t.Error("quarantine clear fails")
	}
	c.served("anything")
}

// Vectors that turn away slowly are valid each by itself. The reference tells.
func TestFaultSlowDrift(t *testing.T) {
	c := newClinic(t, fakellama.Faults{}, "engine.check_every", "10").start()
	if r := c.before.Canary; r == nil || r.MinReference == nil || *r.MinReference < 0.9999 || r.Reference == trust.ReferenceNone {
		t.Fatalf("at the start: %+v", r)
	}
	c.fake.Set(t, fakellama.Faults{Drift: 0.99})
	within(t, patience, "detection", func() error {
		c.embed(fmt.Sprint("text ", c.fresh()))
		if now := c.status().Engine; now.Generation == c.before.Generation {
			return errors.New("not yet")
		}
		return nil
	})
	c.fake.Set(t, fakellama.Faults{})
	now := c.recoveredFrom(llamaserver.CodeCanaryDrift)
	if !now.Canary.OK() {
		t.Errorf("canary %+v", now.Canary)
	}
	c.served("after")
	c.told("canary.failed", "canary.passed", "engine.poisoned")
	e := c.evidence("canary_drift")
	if !strings.Contains(e.Message, "cosine") && e.Canary == nil {
		t.Errorf("evidence %+v", e)
	}
}

// recoveredFrom waits for a ready engine after faults of which one had the code.
func (c *clinic) recoveredFrom(code llamaserver.Code) llamaserver.Status {
	c.t.Helper()
	var now llamaserver.Status
	within(c.t, patience, "recovery", func() error {
		now = c.status().Engine
		if now.State == llamaserver.Failed && now.RetryAt == nil {
			return c.startAgain()
		}
		if now.State != llamaserver.Ready || now.Generation <= c.before.Generation {
			return fmt.Errorf("%s, start %d, %v", now.State, now.Generation, now.LastError)
		}
		return nil
	})
	if now.LastError == nil || now.LastError.Code != code {
		c.t.Errorf("recovered from %v, want %s", now.LastError, code)
	}
	return now
}

func (c *clinic) startAgain() error {
	_, err := c.client.StartEngine(c.t.Context())
	return errors.Join(err, errors.New("started by hand"))
}

// A request that the engine never answers: 504 at the end of its time, a fresh
// engine, and who came after it is served.
func TestFaultHang(t *testing.T) {
	c := newClinic(t, fakellama.Faults{HangOn: "abyss"}, "admission.total", "2s").start()
	status, _, body := c.embed("the abyss")
	if status != http.StatusGatewayTimeout || !strings.Contains(body, "upstream_timeout") {
		t.Errorf("status %d, %s", status, body)
	}
	c.served("after")
	c.recovered(1, llamaserver.CodeHang)
	c.told("engine.hang")
	if e := c.evidence("hang", "abyss"); len(e.Inputs) != 1 || e.Inputs[0].SHA256 != trust.HashOf("the abyss").String() {
		t.Errorf("inputs %+v", e.Inputs)
	}
	if status, _, _ := c.embed("the abyss"); status != http.StatusGatewayTimeout {
		t.Errorf("the second time: status %d", status)
	}
	c.served("after that")
	c.refused("quarantined", "the abyss")
}

// An engine that hangs over a request while its health check is fine is known
// by giving no sign of work, long before the request's time is over. The
// request goes on with the next one.
func TestFaultSilence(t *testing.T) {
	c := newClinic(t, fakellama.Faults{HangOn: "abyss", FirstLife: true}, "engine.silence", "2s").start()
	if status, _, body := c.embed("good", "the abyss"); status != http.StatusOK {
		t.Errorf("status %d, %s", status, body)
	}
	now := c.recovered(1, llamaserver.CodeHang)
	if !strings.Contains(now.LastError.Message, "no sign of work") {
		t.Errorf("last error %v", now.LastError)
	}
	c.told("engine.state")
	c.evidence("hang", "abyss")
	if v := c.status().Validity; v.Quarantined != 0 {
		t.Errorf("%+v", v)
	}
}

// One input by which the engine hangs whenever it gets it: one 502, two
// restarts, and then it does not come to the engine again.
func TestFaultSilenceAgain(t *testing.T) {
	c := newClinic(t, fakellama.Faults{HangOn: "abyss"}, "engine.silence", "2s").start()
	c.refused("input[0] (fatal)", "the abyss")
	c.served("after")
	c.recovered(2, llamaserver.CodeHang)
	c.refused("quarantined", "the abyss")
	c.told("input.quarantined", "vector.invalid", "engine.state")
}

// One input by which the engine ends: whoever was there with it is served, it
// is refused, and it does not come to the engine again, over a restart of the
// app too.
func TestFaultKillerInput(t *testing.T) {
	c := newClinic(t, fakellama.Faults{CrashOn: "bomb"}).start()
	c.refused("input[1] (fatal)", "good", "a bomb")
	c.served("good", "after")
	c.recovered(2, llamaserver.CodeCrash)
	c.told("input.quarantined", "vector.invalid", "engine.state")
	c.evidence("crash", "bomb")
	if p, ok := c.problem("quarantine"); !ok || p.Args["count"] != "1" {
		t.Errorf("problem %+v, %v", p, ok)
	}
	hash := trust.HashOf("a bomb").String()
	if code, out, errOut := c.ondol(t, "engine", "quarantine", "list"); code != 0 || !strings.Contains(out, hash) || !strings.Contains(out, "twice") {
		t.Errorf("quarantine list: exit %d, %s%s", code, out, errOut)
	}
	if err := c.app.stop(); err != nil {
		t.Fatal(err)
	}
	c.start()
	c.refused("quarantined", "a bomb")
	if now := c.status().Engine; now.Restarts != 0 {
		t.Errorf("%+v", now)
	}
}

// The GPU's watchdog is only a line in the log. The engine is replaced at once
// and the request goes on with the next one.
func TestFaultWatchdog(t *testing.T) {
	c := newClinic(t, fakellama.Faults{AlarmOn: "overload", FirstLife: true}).start()
	if status, _, body := c.embed("an overload"); status != http.StatusOK {
		t.Errorf("status %d, %s", status, body)
	}
	c.recovered(1, llamaserver.CodeWatchdog)
	c.told("engine.state")
	if e := c.evidence("watchdog", "overload"); !strings.Contains(strings.Join(e.Log, "\n"), "command buffer 0 failed") {
		t.Errorf("log %q", e.Log)
	}
}

// An engine that does not hear SIGTERM is killed after its grace.
func TestFaultIgnoresTerm(t *testing.T) {
	c := newClinic(t, fakellama.Faults{IgnoreTerm: true}).start()
	if code, out, errOut := c.ondol(t, "engine", "restart"); code != 0 {
		t.Fatalf("engine restart: exit %d, %s%s", code, out, errOut)
	}
	if now := c.waitReady(t, c.app); now.PID == c.before.PID || now.Generation != c.before.Generation+1 {
		t.Errorf("after a restart: %+v", now)
	}
	if err := syscall.Kill(c.before.PID, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the old engine: %v", err)
	}
	c.served("after")
	c.told("engine.state")
}

// An engine that ends while it loads: tried again, then given up with its own
// words, and found well when a person starts it.
func TestFaultExitAtLoad(t *testing.T) {
	c := newClinic(t, fakellama.Faults{}).start()
	c.fake.Set(t, fakellama.Faults{ExitAtLoad: true})
	if err := syscall.Kill(c.before.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "the end of the budget", func() error {
		if now := c.status().Engine; now.State != llamaserver.Failed || now.RetryAt != nil {
			return fmt.Errorf("%s, %v", now.State, now.LastError)
		}
		return nil
	})
	if p, ok := c.problem("engine_failed"); !ok || p.Args["problem"] != "exit_at_load" || !strings.Contains(p.Args["detail"], "failed to load model") {
		t.Errorf("problem %+v, %v", p, ok)
	}
	c.evidence("crash")
	c.evidence("exit_at_load")
	c.fake.Set(t, fakellama.Faults{})
	if code, out, errOut := c.ondol(t, "engine", "start"); code != 0 {
		t.Fatalf("engine start: exit %d, %s%s", code, out, errOut)
	}
	c.served("after")
}

// Somebody listens where the engine should: said, not fought, and over when he leaves.
func TestFaultSocketTaken(t *testing.T) {
	c := newClinic(t, fakellama.Faults{}).start()
	if code, _, errOut := c.ondol(t, "engine", "stop"); code != 0 {
		t.Fatal(errOut)
	}
	socket := c.before.Flags[slices.Index(c.before.Flags, "--host")+1]
	squatter, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	if code, out, _ := c.ondol(t, "engine", "start"); code != 1 || !strings.Contains(out, socket) {
		t.Errorf("engine start: exit %d, %s", code, out)
	}
	if p, ok := c.problem("engine_failed"); !ok || p.Args["problem"] != "socket_taken" {
		t.Errorf("problem %+v, %v", p, ok)
	}
	c.told("engine.state")
	squatter.Close()
	if code, out, errOut := c.ondol(t, "engine", "start"); code != 0 {
		t.Fatalf("engine start: exit %d, %s%s", code, out, errOut)
	}
	c.served("after")
}

// The disk is full when the engine writes its log: said once, and the engine
// goes on; the log goes on too when there is room again.
func TestFaultDiskFullWhileLogging(t *testing.T) {
	c := newClinic(t, fakellama.Faults{Noise: 20})
	log := filepath.Join(c.dir, "logs", "llama-server.log")
	if err := os.MkdirAll(filepath.Dir(log), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/full", log); err != nil {
		t.Fatal(err)
	}
	c.start()
	c.served("with a full disk")
	c.told("engine.log_lost")
	if now := c.status().Engine; now.State != llamaserver.Ready || now.Restarts != 0 {
		t.Errorf("engine %+v", now)
	}
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	c.served("with room again")
	c.told("engine.log_back")
	within(t, patience, "a log", func() error {
		text, err := os.ReadFile(log)
		if err == nil && !strings.Contains(string(text), "noise") {
			err = errors.New("nothing is in it")
		}
		return err
	})
}
