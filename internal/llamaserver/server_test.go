package llamaserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/enginetest"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/llamaserver/fakellama"
	"github.com/ondol-app/ondol/internal/process"
	"github.com/ondol-app/ondol/internal/trust"
	"github.com/ondol-app/ondol/internal/vector"
)

// patience is how long a test waits for what must come; it is no limit of the product.
const patience = 90 * time.Second

// runFolder is a folder whose path leaves room for a socket's name.
func runFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "ondol")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "run")
}

// fakeConfig runs the fake, quick to restart.
func fakeConfig(t *testing.T, fake *fakellama.Fake) llamaserver.Config {
	return llamaserver.Config{
		Binary: fake.Path, Model: fake.Model,
		Profile: llamaserver.Profile{Name: "test", Flags: []string{"--embeddings", "-ngl", "34"}},
		RunDir:  runFolder(t), LogDir: t.TempDir(), Autostart: true,
		StopGrace: 200 * time.Millisecond,
		Restart:   llamaserver.RestartPolicy{First: time.Millisecond, Max: 4 * time.Millisecond, Budget: 2, Window: time.Hour},
	}
}

// run runs a server until the test ends and checks that it leaves nothing behind.
func run(t *testing.T, config llamaserver.Config) *llamaserver.Server {
	t.Helper()
	s, err := llamaserver.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		pid := s.Snapshot().PID
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("Run does not return")
		}
		if pid != 0 && process.Identify(pid).Alive() {
			t.Errorf("llama-server %d outlived Run", pid)
		}
		if t.Failed() {
			lines, err := s.LogTail(50)
			t.Logf("engine log (%v):\n%s", err, strings.Join(lines, "\n"))
		}
	})
	return s
}

// await waits until the status is as wanted.
func await(t *testing.T, s *llamaserver.Server, what string, is func(llamaserver.Status) bool) llamaserver.Status {
	t.Helper()
	changed, stop := s.Changed()
	defer stop()
	deadline := time.After(patience)
	for {
		if status := s.Snapshot(); is(status) {
			return status
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("waited for %s in vain: %+v (last error %v)", what, s.Snapshot(), s.Snapshot().LastError)
		}
	}
}

func in(states ...llamaserver.State) func(llamaserver.Status) bool {
	return func(s llamaserver.Status) bool {
		for _, state := range states {
			if s.State == state {
				return true
			}
		}
		return false
	}
}

// failed is a final failure: no retry is planned.
func failed(s llamaserver.Status) bool {
	return s.State == llamaserver.Failed && s.RetryAt == nil
}

func TestLifeOfAFake(t *testing.T) {
	fake := fakellama.Install(t, fakellama.Faults{LoadMS: 50})
	config := fakeConfig(t, fake)
	config.Autostart = false
	s := run(t, config)

	var notReady *llamaserver.NotReadyError
	if _, err := s.Current(); !errors.As(err, &notReady) || notReady.State != llamaserver.Stopped || notReady.RetryAfter < time.Second {
		t.Errorf("before the start: %v", err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	status := await(t, s, "ready", in(llamaserver.Ready))
	instance, err := s.Current()
	if err != nil {
		t.Fatal(err)
	}
	if instance.Dim != fakellama.Dim || instance.ModelName != "fake-model" || instance.MaxTokens != 1024 || instance.Fingerprint != status.Fingerprint || len(status.Fingerprint) != 32 {
		t.Errorf("instance = %+v", instance)
	}
	if !status.Probe.OK || status.Probe.At == nil || status.Version != "0.0.0 (build 1, commit fake)" || len(status.Model.SHA256) != 64 || status.PID == 0 {
		t.Errorf("status = %+v", status)
	}
	counts, err := instance.Client.CountTokens(t.Context(), []string{"abc"})
	if err != nil || counts[0] != 4 {
		t.Errorf("tokens = %v, %v", counts, err)
	}

	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if process.Identify(status.PID).Alive() {
		t.Error("Restart returned before the old engine was gone")
	}
	second := await(t, s, "ready again", in(llamaserver.Ready))
	if second.Generation != 2 || second.Restarts != 0 || second.Fingerprint != status.Fingerprint {
		t.Errorf("after a restart: %+v", second)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.Snapshot(); got.State != llamaserver.Stopped || got.PID != 0 || process.Identify(second.PID).Alive() {
		t.Errorf("after Stop: %+v", got)
	}
	if left, err := os.ReadDir(config.RunDir); err != nil || len(left) != 0 {
		t.Errorf("left in the run folder: %v, %v", left, err)
	}
	if fake.Starts(t) != 2 {
		t.Errorf("%d starts, want 2", fake.Starts(t))
	}
}

func TestStatusOnTheWire(t *testing.T) {
	s := run(t, fakeConfig(t, fakellama.Install(t, fakellama.Faults{})))
	await(t, s, "ready", in(llamaserver.Ready))
	raw, err := json.Marshal(s.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"state", "cause", "since", "pid", "restarts", "version", "flags", "model", "fingerprint", "probe", "generation", "binary", "profile"} {
		if _, ok := fields[name]; !ok {
			t.Errorf("%s is missing in %s", name, raw)
		}
	}
	if fields["state"] != "ready" {
		t.Errorf("state = %v", fields["state"])
	}
}

func TestKeyIsNotSeen(t *testing.T) {
	config := fakeConfig(t, fakellama.Install(t, fakellama.Faults{LoadMS: 200}))
	s := run(t, config)
	await(t, s, "loading", in(llamaserver.Loading))
	key, err := os.ReadFile(filepath.Join(config.RunDir, "llama.key"))
	if err != nil {
		t.Fatal(err)
	}
	status := await(t, s, "ready", in(llamaserver.Ready))
	ps, err := exec.Command("ps", "-ww", "-o", "args=", "-p", fmt.Sprint(status.PID)).Output()
	if err != nil || !strings.Contains(string(ps), "--api-key-file") {
		t.Fatalf("ps says %q, %v", ps, err)
	}
	lines, err := s.LogTail(100)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"ps": string(ps), "flags": strings.Join(status.Flags, " "), "log": strings.Join(lines, "\n")} {
		if strings.Contains(text, strings.TrimSpace(string(key))) {
			t.Errorf("%s shows the key", name)
		}
	}
	if _, err := os.Stat(filepath.Join(config.RunDir, "llama.key")); !os.IsNotExist(err) {
		t.Errorf("key file of a ready engine: %v, want none", err)
	}
}

func TestCrashWhileReady(t *testing.T) {
	fake := fakellama.Install(t, fakellama.Faults{})
	s := run(t, fakeConfig(t, fake))
	first := await(t, s, "ready", in(llamaserver.Ready))
	if err := syscall.Kill(first.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second := await(t, s, "another ready engine", func(s llamaserver.Status) bool {
		return s.State == llamaserver.Ready && s.Generation == 2
	})
	if second.Restarts != 1 || second.PID == first.PID || second.LastError == nil || second.LastError.Code != llamaserver.CodeCrash ||
		!strings.Contains(second.LastError.Message, "killed") {
		t.Errorf("after kill -9: %+v, %v", second, second.LastError)
	}
}

func TestBudget(t *testing.T) {
	fake := fakellama.Install(t, fakellama.Faults{ExitAtLoad: true})
	s := run(t, fakeConfig(t, fake))
	status := await(t, s, "final failure", failed)
	if status.Cause != llamaserver.CauseBudget || status.LastError.Code != llamaserver.CodeLoadExit || status.Restarts != 2 || fake.Starts(t) != 3 {
		t.Errorf("%+v, %v after %d starts", status, status.LastError, fake.Starts(t))
	}
	if log := strings.Join(status.LastError.Log, "\n"); !strings.Contains(log, "failed to load model") || !strings.Contains(status.LastError.Message, "failed to load model") {
		t.Errorf("last error %q with log %q", status.LastError.Message, log)
	}
	fake.Set(t, fakellama.Faults{})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, s, "ready after a person's start", in(llamaserver.Ready))
}

func TestFailsAtOnce(t *testing.T) {
	for _, test := range []struct {
		name   string
		faults fakellama.Faults
		change func(*llamaserver.Config)
		code   llamaserver.Code
		starts int
		says   string
	}{
		{"flag refused", fakellama.Faults{RefuseFlag: "-ngl"}, func(*llamaserver.Config) {}, llamaserver.CodeFlagsRejected, 0, "invalid argument: -ngl"},
		{"model missing", fakellama.Faults{}, func(c *llamaserver.Config) { c.Model += ".none" }, llamaserver.CodeModelMissing, 0, "engine.model"},
		{"no model", fakellama.Faults{}, func(c *llamaserver.Config) { c.Model = "" }, llamaserver.CodeModelMissing, 0, "engine.model"},
		{"model is no model", fakellama.Faults{}, func(c *llamaserver.Config) { c.Model = c.Binary }, llamaserver.CodeModelInvalid, 0, "not a GGUF file"},
		{"model cut off", fakellama.Faults{}, func(c *llamaserver.Config) { c.Model = cutOff(t) }, llamaserver.CodeModelInvalid, 0, "is cut off"},
		{"too little memory", fakellama.Faults{}, func(c *llamaserver.Config) { c.CheckMemory = tooLittle }, llamaserver.CodeMemory, 0, "8 of 4"},
		{"program missing", fakellama.Faults{}, func(c *llamaserver.Config) { c.Binary += ".none" }, llamaserver.CodeBinaryMissing, 0, "engine.server"},
		{"socket path too long", fakellama.Faults{}, func(c *llamaserver.Config) { c.RunDir += strings.Repeat("x", 100) }, llamaserver.CodeSocketTooLong, 0, "ONDOL_HOME"},
	} {
		t.Run(test.name, func(t *testing.T) {
			fake := fakellama.Install(t, test.faults)
			config := fakeConfig(t, fake)
			test.change(&config)
			s := run(t, config)
			status := await(t, s, "failed", in(llamaserver.Failed))
			if status.RetryAt != nil || status.LastError.Code != test.code || status.LastError.Remedy == "" || !strings.Contains(status.LastError.Message, test.says) {
				t.Errorf("%+v: %v", status, status.LastError)
			}
			if got := fake.Starts(t); got != test.starts {
				t.Errorf("%d starts, want %d", got, test.starts)
			}
		})
	}
}

// cutOff is a model whose last byte is missing.
func cutOff(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(enginetest.StarterModel(t))
	path := filepath.Join(t.TempDir(), "cut.gguf")
	if err = errors.Join(err, os.WriteFile(path, raw[:len(raw)-32], 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// tooLittle is a CheckMemory that refuses.
func tooLittle(model string, flags []string, version string) (llamaserver.Memory, *llamaserver.Problem) {
	return llamaserver.Memory{Need: 8, Budget: 4}, &llamaserver.Problem{Code: llamaserver.CodeMemory, Remedy: llamaserver.RemedySmaller, Message: "8 of 4"}
}

// The figures are told whether it may start or not.
func TestMemoryIsTold(t *testing.T) {
	fake := fakellama.Install(t, fakellama.Faults{})
	config := fakeConfig(t, fake)
	var asked []string
	config.CheckMemory = func(model string, flags []string, version string) (llamaserver.Memory, *llamaserver.Problem) {
		asked = append([]string{model, version}, flags...)
		return llamaserver.Memory{Need: 3, GPU: 2, Budget: 4}, nil
	}
	s := run(t, config)
	status := await(t, s, "ready", in(llamaserver.Ready))
	if status.Memory == nil || *status.Memory != (llamaserver.Memory{Need: 3, GPU: 2, Budget: 4}) {
		t.Errorf("memory %+v", status.Memory)
	}
	if len(asked) != 5 || asked[0] != fake.Model || asked[1] == "" || asked[3] != "-ngl" {
		t.Errorf("asked about %q", asked)
	}
}

func TestInvalidProbeIsNotReady(t *testing.T) {
	for _, mode := range []fakellama.Mode{fakellama.Null, fakellama.NaN, fakellama.Zero, fakellama.Count} {
		t.Run(string(mode), func(t *testing.T) {
			fake := fakellama.Install(t, fakellama.Faults{Vectors: mode})
			s := run(t, fakeConfig(t, fake))
			status := await(t, s, "final failure", failed)
			if status.LastError.Code != llamaserver.CodeProbe || status.Probe.OK || status.Probe.At == nil {
				t.Errorf("%+v: %v", status, status.LastError)
			}
			if _, err := s.Current(); err == nil {
				t.Error("an engine with invalid vectors may be used")
			}
		})
	}
}

func TestProbeWithoutAnAnswer(t *testing.T) {
	for _, test := range []struct {
		faults fakellama.Faults
		code   llamaserver.Code
	}{
		{fakellama.Faults{Vectors: fakellama.Hang}, llamaserver.CodeProbeFailed},
		{fakellama.Faults{Vectors: fakellama.Error}, llamaserver.CodeProbeFailed},
		{fakellama.Faults{Crash: true}, llamaserver.CodeLoadExit},
	} {
		t.Run(string(test.code)+string(test.faults.Vectors), func(t *testing.T) {
			config := fakeConfig(t, fakellama.Install(t, test.faults))
			config.ProbeTimeout, config.Restart.Budget = 300*time.Millisecond, 0
			s := run(t, config)
			if status := await(t, s, "final failure", failed); status.LastError.Code != test.code {
				t.Errorf("last error = %v, want %s", status.LastError, test.code)
			}
		})
	}
}

func TestLoadTimeLimit(t *testing.T) {
	for name, faults := range map[string]fakellama.Faults{"never loaded": {LoadMS: 1e6}, "never listens": {NoListen: true}} {
		t.Run(name, func(t *testing.T) {
			config := fakeConfig(t, fakellama.Install(t, faults))
			config.LoadTimeout, config.Restart.Budget = 300*time.Millisecond, 0
			s := run(t, config)
			if status := await(t, s, "final failure", failed); status.LastError.Code != llamaserver.CodeLoadTimeout {
				t.Errorf("last error = %v", status.LastError)
			}
		})
	}
}

func TestSlowLoadIsNotReady(t *testing.T) {
	s := run(t, fakeConfig(t, fakellama.Install(t, fakellama.Faults{LoadMS: 300})))
	await(t, s, "loading", in(llamaserver.Loading))
	var notReady *llamaserver.NotReadyError
	if _, err := s.Current(); !errors.As(err, &notReady) || notReady.State != llamaserver.Loading {
		t.Errorf("while loading: %v", err)
	}
	await(t, s, "ready", in(llamaserver.Ready))
}

func TestStopWhileLoading(t *testing.T) {
	s := run(t, fakeConfig(t, fakellama.Install(t, fakellama.Faults{LoadMS: 1e6})))
	status := await(t, s, "loading", in(llamaserver.Loading))
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.Snapshot(); got.State != llamaserver.Stopped || got.LastError != nil || process.Identify(status.PID).Alive() {
		t.Errorf("after Stop: %+v, %v", got, got.LastError)
	}
}

func TestStopOfTheStubborn(t *testing.T) {
	s := run(t, fakeConfig(t, fakellama.Install(t, fakellama.Faults{IgnoreTerm: true})))
	status := await(t, s, "ready", in(llamaserver.Ready))
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if process.Identify(status.PID).Alive() {
		t.Error("Stop returned before the engine was gone")
	}
}

func TestReplace(t *testing.T) {
	s := run(t, fakeConfig(t, fakellama.Install(t, fakellama.Faults{IgnoreTerm: true})))
	first := await(t, s, "ready", in(llamaserver.Ready))
	if err := s.Replace(t.Context(), first.Generation, "upstream time limit passed"); err != nil {
		t.Fatal(err)
	}
	if process.Identify(first.PID).Alive() {
		t.Error("Replace returned before the old engine was gone")
	}
	second := await(t, s, "another ready engine", func(s llamaserver.Status) bool {
		return s.State == llamaserver.Ready && s.Generation == 2
	})
	if second.LastError.Code != llamaserver.CodeReplaced || !strings.Contains(second.LastError.Message, "time limit") {
		t.Errorf("last error = %v", second.LastError)
	}
	if err := s.Replace(t.Context(), first.Generation, "late"); err != nil {
		t.Fatal(err)
	}
	if got := s.Snapshot(); got.State != llamaserver.Ready || got.PID != second.PID {
		t.Errorf("a late Replace hit the new engine: %+v", got)
	}
}

func TestHealthChecks(t *testing.T) {
	fake := fakellama.Install(t, fakellama.Faults{})
	config := fakeConfig(t, fake)
	config.HealthEvery = 20 * time.Millisecond
	config.HealthTimeout = 10 * time.Second
	s := run(t, config)
	first := await(t, s, "ready", in(llamaserver.Ready))
	fake.Set(t, fakellama.Faults{SickHealth: true})
	await(t, s, "a replacement for the sick one", func(s llamaserver.Status) bool {
		return s.LastError != nil && s.LastError.Code == llamaserver.CodeUnresponsive && s.Generation > first.Generation
	})
	fake.Set(t, fakellama.Faults{})
	if process.Identify(first.PID).Alive() {
		t.Error("the sick engine is still there")
	}
}

// An engine that has a request and gives no sign of work is replaced, though
// its health check is fine; one that computes is left alone however long.
func TestSilenceReplacesTheEngine(t *testing.T) {
	config := fakeConfig(t, fakellama.Install(t, fakellama.Faults{HangOn: "abyss", BusyOn: "toil"}))
	config.Silence = 400 * time.Millisecond
	s := run(t, config)
	first := await(t, s, "ready", in(llamaserver.Ready))
	embed := func(text string) error {
		now, err := s.Current()
		if err != nil {
			t.Fatal(err)
		}
		_, err = now.Client.Embed(t.Context(), []string{text}, vector.Expect{})
		return err
	}
	if err := embed("toil for two seconds"); err != nil || s.Snapshot().Generation != first.Generation {
		t.Errorf("an engine at work: %v, %+v", err, s.Snapshot())
	}
	if err := embed("the abyss"); !errors.Is(err, llamaclient.ErrBroken) {
		t.Errorf("a silent engine: %v", err)
	}
	second := await(t, s, "another ready engine", func(s llamaserver.Status) bool {
		return s.State == llamaserver.Ready && s.Generation == first.Generation+1
	})
	if second.LastError.Code != llamaserver.CodeHang || s.End(first.Generation) != trust.EndHang || s.End(second.Generation) != trust.EndNone {
		t.Errorf("%v, ends %q and %q", second.LastError, s.End(first.Generation), s.End(second.Generation))
	}
}

// An engine that nobody used is unloaded: no process, no refusal. Whoever
// wakes it, and however many, starts it once.
func TestUnloadAndWake(t *testing.T) {
	fake := fakellama.Install(t, fakellama.Faults{LoadMS: 100})
	s := run(t, fakeConfig(t, fake))
	first := await(t, s, "ready", in(llamaserver.Ready))
	ready, err := s.Current()
	if err != nil {
		t.Fatal(err)
	}
	since, ok := s.Unused()
	if !ok {
		t.Error("in use, though nobody uses it")
	}
	if _, err := ready.Client.CountTokens(t.Context(), []string{"x"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Unload(t.Context(), since); !errors.Is(err, llamaserver.ErrInUse) {
		t.Errorf("unloaded though it was used meanwhile: %v", err)
	}
	if since, ok = s.Unused(); !ok {
		t.Error("in use for ever")
	}
	if err := s.Unload(t.Context(), since); err != nil {
		t.Fatal(err)
	}
	if process.Identify(first.PID).Alive() {
		t.Error("Unload returned before the engine was gone")
	}
	now := s.Snapshot()
	var away *llamaserver.NotReadyError
	_, err = s.Current()
	if now.State != llamaserver.Unloaded || now.Cause != llamaserver.CauseIdle || now.PID != 0 || now.Fingerprint != first.Fingerprint ||
		!errors.As(err, &away) || away.Final || away.Asleep == nil || away.Asleep.Fingerprint != ready.Fingerprint || s.End(1) != trust.EndUnloaded {
		t.Errorf("unloaded: %+v, %+v", now, err)
	}
	if _, ok := s.Unused(); ok {
		t.Error("what is unloaded can be unloaded")
	}

	woken := make(chan error)
	for range 8 {
		go func() { woken <- s.Awaken(t.Context()) }()
	}
	await(t, s, "a start", func(now llamaserver.Status) bool { return now.State == llamaserver.Loading })
	if _, err := s.Current(); !errors.As(err, &away) || away.Asleep == nil || s.Snapshot().Fingerprint != first.Fingerprint {
		t.Errorf("while it starts: %v", err)
	}
	for range 8 {
		if err := <-woken; err != nil {
			t.Error(err)
		}
	}
	if now := s.Snapshot(); now.State != llamaserver.Ready || now.Generation != 2 || now.Restarts != 0 || fake.Starts(t) != 2 {
		t.Errorf("woken: %+v after %d starts", now, fake.Starts(t))
	}
	if err := s.Awaken(t.Context()); err != nil {
		t.Errorf("what is awake: %v", err)
	}

	// One that does not come back is no longer asleep: who waits is told why.
	since, _ = s.Unused()
	if err := s.Unload(t.Context(), since); err != nil {
		t.Fatal(err)
	}
	fake.Set(t, fakellama.Faults{ExitAtLoad: true})
	if err := s.Awaken(t.Context()); !errors.As(err, &away) || away.Asleep != nil || away.State != llamaserver.Failed {
		t.Errorf("Awaken = %v", err)
	}
}

func TestAfterRun(t *testing.T) {
	s, err := llamaserver.New(fakeConfig(t, fakellama.Install(t, fakellama.Faults{})))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); !errors.Is(err, llamaserver.ErrClosed) {
		t.Errorf("Start after Run = %v", err)
	}
	if got := s.Snapshot(); got.State != llamaserver.Stopped || got.Cause != llamaserver.CauseShutdown {
		t.Errorf("status = %+v", got)
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := fakeConfig(t, &fakellama.Fake{})
	for name, change := range map[string]func(*llamaserver.Config){
		"run folder": func(c *llamaserver.Config) { c.RunDir = "" },
		"flags":      func(c *llamaserver.Config) { c.Profile.Flags = nil },
		"our flag":   func(c *llamaserver.Config) { c.Profile.Flags = []string{"--host", "0.0.0.0"} },
	} {
		config := good
		change(&config)
		if _, err := llamaserver.New(config); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// appVariable makes the test binary run a server by the configuration in it,
// as the app would, and wait to be killed.
const appVariable = "ONDOL_TEST_APP"

func playApp() {
	var config llamaserver.Config
	if err := json.Unmarshal([]byte(os.Getenv(appVariable)), &config); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s, err := llamaserver.New(config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go func() {
		changed, _ := s.Changed()
		for range changed {
			if status := s.Snapshot(); status.State == llamaserver.Ready {
				fmt.Println(status.PID)
			}
		}
	}()
	if err := s.Run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(1)
}

// startApp starts the test binary as the app and returns it with the process
// id of its ready engine.
func startApp(t *testing.T, config llamaserver.Config) (app *exec.Cmd, engine process.Identity) {
	t.Helper()
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	app = exec.Command(os.Args[0])
	app.Env = append(os.Environ(), appVariable+"="+string(raw))
	app.Stderr = os.Stderr
	out, err := app.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = app.Process.Kill() // most tests did
		_ = app.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	var pid int
	if _, scan := fmt.Sscan(line, &pid); err != nil || scan != nil {
		t.Fatalf("the app said %q: %v", line, err)
	}
	return app, process.Identify(pid)
}

// gone polls until the process has ended, for as long as within.
func gone(id process.Identity, within time.Duration) bool {
	deadline := time.Now().Add(within)
	for id.Alive() {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(5 * time.Millisecond)
	}
	return true
}

func TestKilledAppLeavesNoEngine(t *testing.T) {
	config := fakeConfig(t, fakellama.Install(t, fakellama.Faults{IgnoreTerm: true}))
	app, engine := startApp(t, config)
	if !engine.Alive() {
		t.Fatal("no engine runs")
	}
	if err := app.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if !gone(engine, time.Second) {
		t.Error("the engine was there 1 s after kill -9 of the app")
	}
	_ = app.Wait() // killed

	// The next app starts over what the dead one left behind: socket, record, key.
	s := run(t, config)
	await(t, s, "ready", in(llamaserver.Ready))
}

func TestSecondAppLeavesTheFirstAlone(t *testing.T) {
	config := fakeConfig(t, fakellama.Install(t, fakellama.Faults{}))
	_, engine := startApp(t, config)
	s := run(t, config)
	status := await(t, s, "failed", in(llamaserver.Failed))
	if status.LastError.Code != llamaserver.CodeOtherInstance || status.RetryAt != nil {
		t.Errorf("%+v: %v", status, status.LastError)
	}
	if !engine.Alive() {
		t.Error("the other app's engine was killed")
	}
}

func TestOrphanIsSweptAtTheStart(t *testing.T) {
	config := fakeConfig(t, fakellama.Install(t, fakellama.Faults{}))
	orphan := exec.Command("/bin/sleep", "1000")
	if err := orphan.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = orphan.Process.Kill() // the sweep did
		_ = orphan.Wait()
	})
	record := process.Record{Child: process.Identify(orphan.Process.Pid), Owner: process.Identity{PID: 1 << 30, Start: "long ago"}}
	raw, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(config.RunDir, 0o700), os.WriteFile(filepath.Join(config.RunDir, "llama.json"), raw, 0o600)); err != nil {
		t.Fatal(err)
	}
	s := run(t, config)
	await(t, s, "ready", in(llamaserver.Ready))
	if record.Child.Alive() {
		t.Error("the orphan is still there")
	}
}
