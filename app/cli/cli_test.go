package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ondol-app/ondol/app/cli"
	"github.com/ondol-app/ondol/internal/settings"
	"github.com/ondol-app/ondol/internal/upstream"
)

// run is the command line in a home of its own where nothing runs.
func run(t *testing.T, env map[string]string, args ...string) (code int, out, errOut string) {
	t.Helper()
	if env["ONDOL_HOME"] == "" {
		home := map[string]string{"ONDOL_HOME": t.TempDir()}
		for k, v := range env {
			home[k] = v
		}
		env = home
	}
	var stdout, stderr bytes.Buffer
	code = cli.Run(t.Context(), cli.Config{
		Version: "1.2.3", Args: args, Out: &stdout, Err: &stderr, Getenv: func(k string) string { return env[k] },
		Serve: func(_ context.Context, flags map[string]string, ready func(string)) error {
			if flags["listen"] == "taken" {
				return &cli.RunningError{PID: "42"}
			}
			ready("http://" + flags["listen"] + "/v1")
			return nil
		},
		Accept: func(before, after *settings.Loaded, changed []string) error {
			_, err := settings.Judge(func(*settings.Settings) (settings.Facts, error) {
				engine := settings.EngineFacts{Slots: 4, Context: 4096, Batch: 1024, Ubatch: 1024}
				return settings.Facts{Engines: map[upstream.Role]settings.EngineFacts{upstream.RoleEmbed: engine}, Connections: 100}, nil
			}, before, after, changed)
			return err
		},
	})
	return code, stdout.String(), stderr.String()
}

func TestExitCodes(t *testing.T) {
	tests := []struct {
		args string
		code int
		says string // on standard error, in English
	}{
		{"version", 0, ""},
		{"--help", 0, ""},
		{"search --help", 0, ""},
		{"config path", 0, ""},
		{"serve --listen 127.0.0.1:9", 0, ""},
		{"serve --listen taken", 1, "running already (process 42)"},
		{"serve extra", 2, "ondol serve takes no arguments."},
		{"", 2, `This build has no window. Run "make desktop" for one`},
		{"serach x", 2, `Did you mean "search"?`},
		{"engine sotp", 2, `Did you mean "stop"?`},
		{"folders", 2, "ondol folders takes one of its commands."},
		{"status --lots", 2, "There is no flag --lots."},
		{"search", 2, "ondol search takes the words to search for."},
		{"search x --mode fast", 2, "--mode: fast will not do; wanted: hybrid, lexical, semantic"},
		{"search x --after yesterday", 2, "2026-01-31"},
		{"documents --state lost", 2, "found, embedding, indexed, skipped, failed"},
		{"retry seven", 4, ""},
		{"status", 4, "Ondol is not running. Start it with: ondol serve"},
		{"search budget", 4, "not running"},
		{"folders list", 4, "not running"},
		{"engine status", 4, "not running"},
		{"mcp", 4, "not running"},
		{"mcp extra", 2, "ondol mcp takes no arguments."},
		{"config get nothing", 2, "nothing is no setting."},
		{"config set nope 1", 2, "nope is no setting."},
		{"config set admission.executing -1", 2, "admission.executing = -1: a whole number from 1 to 64 (requests) is needed."},
		{"config set engine.flags -ngl", 0, ""},
		{"config set engine.flags -ngl log warn --json", 0, ""},
		{"config set -- engine.flags -ngl", 0, ""},
		{"config set listen 0.0.0.0:80", 2, "only a loopback address"},
		{"config set -h", 0, ""},
		{"status extra", 2, "ondol status takes no arguments."},
		{"search x --limit 0", 2, "--limit: 0 will not do; wanted: 1 to 100"},
		{"search x --limit -5", 2, "--limit: -5 will not do; wanted: 1 to 100"},
		{"search x --limit 100000", 2, "wanted: 1 to 100"},
		{"search x --limit many", 2, "--limit: many will not do; wanted: a whole number"},
		{"search x --limit", 2, "--limit needs a value."},
		{"search x -q", 2, "There is no flag -q."},
		{"documents --limit -1", 2, "--limit: -1 will not do"},
		{"engine logs -n 0", 2, "--lines: 0 will not do; wanted: 1 to 10000"},
		{"engine logs --follow", 4, "not running"},
		{"models pull", 2, "ondol models pull takes one model"},
		{"models pull bge-m3", 4, "not running"},
		{"models catalog", 4, "not running"},
		{"models pulls", 4, "not running"},
		{"models pulls pause x", 2, "takes one number"},
		{"models pulls resmue", 2, `Did you mean "resume"?`},
		{"config set models.mirror http://hub.example", 2, "models.mirror = http://hub.example: an https address"},
		{"verify", 4, "not running"},
		{"verify now", 2, "ondol verify takes no arguments."},
		{"verify --deadline soon", 2, "--deadline: soon will not do; wanted: a time from 1ms to 1h, such as 240s"},
		{"verify --deadline 2h", 2, "--deadline: 2h will not do"},
		{"verify --deadline -1s", 2, "--deadline: -1s will not do"},
		{"help", 0, ""},
		{"help engine logs", 0, ""},
		{"help serach", 2, `Did you mean "search"?`},
		{"help engine sotp", 2, `Did you mean "stop"?`},
		{"config get engine.modle", 2, "Did you mean engine.model?"},
		{"config set admission.executing 9", 2, "admission.executing (9) must be ≤ -np (4). The engine computes as many requests at once"},
		{"config set admission.executing 9", 2, "Change this with it: engine.flags = -np 9 -c 9216"},
		{"config set admission.executing 9", 2, "or set: admission.executing = 4"},
		{"config set admission.executing 9 log warn", 2, "admission.executing (9) must be ≤ -np (4)"},
		{"config set admission.executing 1 admission.background 0", 0, ""},
		{"config set admission.background 3 admission.executing 4", 0, ""},
		{"config set admission.background 3", 2, "Change this with it: admission.executing = 4"},
		{"config set log", 2, "takes a setting's name and its value, or several such pairs."},
		{"config set log warn listen", 2, "takes a setting's name and its value, or several such pairs."},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			code, out, errOut := run(t, nil, strings.Fields(tt.args)...)
			if code != tt.code {
				t.Errorf("exit %d, want %d\n%s%s", code, tt.code, out, errOut)
			}
			if !strings.Contains(errOut, tt.says) {
				t.Errorf("standard error %q does not say %q", errOut, tt.says)
			}
			if code != 0 && out != "" {
				t.Errorf("a failure wrote to standard output: %q", out)
			}
		})
	}
}

func TestProgramsReadFailuresAsJSON(t *testing.T) {
	for args, code := range map[string]string{
		"status --json": "not_running", "config get nothing --json": "settings", "serach --json": "usage",
		"serve --listen taken --json": "running", "--json": "no_window", "status --lots --json": "usage",
		"config set admission.executing -1 --json": "settings", "search --json --limit 0 x": "usage",
	} {
		_, out, errOut := run(t, nil, strings.Fields(args)...)
		var refused struct {
			Error struct{ Code, Message string }
		}
		if err := json.Unmarshal([]byte(out), &refused); err != nil {
			t.Errorf("%s: %v in %q (standard error %q)", args, err, out, errOut)
			continue
		}
		if refused.Error.Code != code || refused.Error.Message == "" {
			t.Errorf("%s: %+v, want code %s", args, refused.Error, code)
		}
	}
}

func TestItSpeaksKorean(t *testing.T) {
	env := map[string]string{"LANG": "ko_KR.UTF-8"}
	_, _, errOut := run(t, env, "status")
	if !strings.Contains(errOut, "온돌이 실행되고 있지 않습니다") {
		t.Errorf("got %q", errOut)
	}
	_, help, _ := run(t, env, "--help")
	for _, want := range []string{"사용법:", "명령:", "폴더를 낱말과 뜻으로 찾습니다", "JSON으로 출력합니다"} {
		if !strings.Contains(help, want) {
			t.Errorf("help has no %q:\n%s", want, help)
		}
	}
	for _, english := range []string{"Usage", "Available", "Flags", "help for"} {
		if strings.Contains(help, english) {
			t.Errorf("help says %q:\n%s", english, help)
		}
	}
}

func TestConfig(t *testing.T) {
	home := t.TempDir()
	env := map[string]string{"ONDOL_HOME": home, "ONDOL_LOG": "debug"}
	code, out, errOut := run(t, env, "config", "set", "engine.model", "/models/가.gguf")
	if code != 0 || !strings.Contains(out, "engine.model = /models/가.gguf") {
		t.Fatalf("exit %d, %q, %q", code, out, errOut)
	}
	if _, out, _ = run(t, env, "config", "get", "engine.model"); out != "/models/가.gguf\n" {
		t.Errorf("get: %q", out)
	}
	// What the environment holds above the file is said, or the change would seem lost.
	if _, out, _ = run(t, env, "config", "set", "log", "warn"); !strings.Contains(out, "log is set by the environment") {
		t.Errorf("set below the environment: %q", out)
	}
	_, out, _ = run(t, env, "config", "get", "--json")
	var all struct {
		Settings []struct{ Key, Value, Source string }
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{}
	for _, s := range all.Settings {
		sources[s.Key] = s.Value + " " + s.Source
	}
	for key, want := range map[string]string{"log": "debug environment", "engine.model": "/models/가.gguf file", "listen": "127.0.0.1:7434 default"} {
		if sources[key] != want {
			t.Errorf("%s: %q, want %q", key, sources[key], want)
		}
	}
	if _, out, _ = run(t, env, "config", "path"); out != filepath.Join(home, "settings.toml")+"\n" {
		// The home may be named through a link (macOS: /var is /private/var).
		if _, err := os.Stat(strings.TrimSpace(out)); err != nil {
			t.Errorf("path: %q", out)
		}
	}
}
