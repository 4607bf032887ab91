package cli_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ondol-app/ondol/app/cli"
	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/locations"
)

// answering is a home in which an app gives the same answer to everything.
func answering(t *testing.T, status int, answer any) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cli") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	paths, err := locations.Resolve(locations.Environment{GOOS: "linux", UID: os.Getuid(), Getenv: func(k string) string {
		return map[string]string{"ONDOL_HOME": dir}[k]
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := paths.Make(); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", paths.ControlSocket())
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer) // the other side may have gone
	})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l) // ends with Close
	}()
	t.Cleanup(func() {
		server.Close()
		<-ended
	})
	return dir
}

func TestRefusalsOfTheApp(t *testing.T) {
	refuse := func(status int, code string, pairs ...string) (int, control.Error) {
		e := control.Error{Code: code, Message: "PROSE of the app", Remedy: "REMEDY of the app"}
		for i := 0; i+1 < len(pairs); i += 2 {
			if e.Args == nil {
				e.Args = map[string]string{}
			}
			e.Args[pairs[i]] = pairs[i+1]
		}
		if e.Args["inside"] == "true" {
			e.Remedy = "" // nothing is to be done, and the app says none
		}
		return status, e
	}
	type answer struct {
		status int
		error  control.Error
	}
	of := func(status int, e control.Error) answer { return answer{status, e} }
	tests := []struct {
		args   string
		answer answer
		code   int
		en, ko string
	}{
		{"folders add /a", of(refuse(400, "not_a_folder", "path", "/a")), 2, "/a is not a folder.", "폴더가 아닙니다"},
		{"folders add /a", of(refuse(409, "folder_exists", "path", "/a")), 1, "/a is already watched.", "이미 지켜보는 폴더"},
		{"folders add /a/b", of(refuse(409, "folder_overlaps", "path", "/a/b", "existing", "/a", "inside", "true")), 1, "/a/b lies inside /a", "/a 폴더 안에"},
		{"folders add /", of(refuse(409, "folder_overlaps", "path", "/", "existing", "/a", "inside", "false")), 1, "/ contains /a", "/a 폴더를 담고"},
		{"folders add /a", of(refuse(400, "path_not_found", "path", "/a")), 2, "/a does not exist.", "없는 경로"},
		{"folders add /a", of(refuse(400, "link_loop", "path", "/a")), 2, "links that never end", "링크가 끝없이"},
		{"folders add /a", of(refuse(403, "permission_denied", "path", "/a")), 1, "/a may not be read.", "권한이 없습니다"},
		{"retry 99", of(refuse(404, "not_found", "kind", "document", "id", "99")), 1, "No document has the number 99.", "번호가 99인 문서"},
		{"engine stop", of(refuse(409, "engine_remote", "role", "embed")), 1, "run by others", "다른 곳에서"},
		{"search x", of(refuse(503, "engine_unavailable", "state", "loading")), 1, "not available (loading the model)", "모델을 읽는 중"},
		{"engine candidate", of(refuse(409, "candidate_busy", "phase", "checking")), 1, "under way with another engine (on trial)", "아직 끝나지 않았습니다 (시험하는 중)"},
		{"engine candidate stop", of(refuse(409, "candidate_none", "phase", "idle")), 1, "There is no candidate", "후보 엔진이 없습니다"},
		{"engine candidate", of(refuse(409, "candidate_memory", "need", "44.0 GiB", "have", "12.0 GiB")), 1, "44.0 GiB are needed", "메모리가 없습니다"},
		{"engine candidate", of(refuse(400, "candidate_impossible", "problem", "flag", "flag", "--host", "message", "of the app")), 2, "--host is set by Ondol itself", "--host 플래그는"},
		{"engine candidate", of(refuse(400, "candidate_impossible", "problem", "missing", "path", "/a.gguf", "message", "of the app")), 2, "/a.gguf does not exist", "/a.gguf 파일이 없거나"},
		{"engine candidate", of(refuse(400, "candidate_impossible", "problem", "bad_value", "key", "engine.profile", "value", "x", "need", "one_of", "choices", "small", "message", "of the app")),
			2, "engine.profile = x: one of small is needed", "small"},
		{"engine rollback", of(refuse(409, "rollback_none", "kept", "168h0m0s")), 1, "one is kept for 7 days", "7일 동안만"},
		{"engine restart", of(refuse(409, "engine_held", "phase", "checking")), 1, "stopped for a trial in its place", "엔진을 멈추어 두었습니다"},
		{"engine promote", of(refuse(409, "candidate_checks", "failed", "2", "fatal", "false")), 1, "did not pass 2 of its checks", "2가지를 통과하지"},
		{"engine promote", of(refuse(409, "candidate_checks", "failed", "1", "fatal", "true")), 1, "force does not help", "강제로도"},
		// What has no sentence is shown as the app said it.
		{"search x", of(refuse(400, "invalid_value")), 2, "PROSE of the app\nWhat helps: REMEDY", "PROSE of the app"},
		{"search x", of(refuse(409, "of_a_newer_app", "a", "b")), 1, "PROSE of the app", "PROSE of the app"},
	}
	for _, tt := range tests {
		home := answering(t, tt.answer.status, map[string]control.Error{"error": tt.answer.error})
		code, _, errOut := run(t, map[string]string{"ONDOL_HOME": home}, strings.Fields(tt.args)...)
		if code != tt.code || !strings.Contains(errOut, tt.en) {
			t.Errorf("%s, %s: exit %d, want %d; %q has no %q", tt.args, tt.answer.error.Code, code, tt.code, errOut, tt.en)
		}
		_, _, errOut = run(t, map[string]string{"ONDOL_HOME": home, "ONDOL_LANG": "ko"}, strings.Fields(tt.args)...)
		if !strings.Contains(errOut, tt.ko) || strings.Contains(errOut, "{") {
			t.Errorf("%s, %s: %q has no %q", tt.args, tt.answer.error.Code, errOut, tt.ko)
		}
		if !strings.Contains(tt.ko, "PROSE") && strings.Contains(errOut, "of the app") {
			t.Errorf("%s, %s: English in %q", tt.args, tt.answer.error.Code, errOut)
		}
	}
}

func TestKoreanMistakesAreSaidInKorean(t *testing.T) {
	env := map[string]string{"ONDOL_LANG": "ko"}
	for _, tt := range []struct{ args, says string }{
		{"status extra", "ondol status 뒤에는 아무것도 붙이지 않습니다."},
		{"config set listen 0.0.0.0:80", "루프백 주소"},
		{"config set admission.executing 9", "admission.executing (9) ≤ -np (4) 이어야 합니다. 엔진은 슬롯 수만큼만"},
		{"config set admission.executing 9", "함께 바꿀 설정: engine.flags = -np 9 -c 9216"},
		{"config set index.readers 3 index.chunk_max 2000", "엔진이 받는 가장 긴 입력 (1024)"},
		{"config set log loud", "다음 가운데 하나여야 합니다: debug, info, warn, error"},
		{"config set admission.executing -1", "1부터 64까지의 정수"},
		{"config set admission.wait soon", "1s부터 1h까지의 시간"},
		{"config set roles.chat.kind local", "GGUF 파일의 경로가 필요합니다"},
		{"search x --limit 0", "1부터 100까지"},
		{"status --lots", "--lots 옵션은 없습니다."},
	} {
		code, _, errOut := run(t, env, strings.Fields(tt.args)...)
		if code != 2 || !strings.Contains(errOut, tt.says) || strings.Contains(errOut, "needed") {
			t.Errorf("%s: exit %d, %q; want %q", tt.args, code, errOut, tt.says)
		}
	}
}

func TestHelpCommandIsHelp(t *testing.T) {
	for _, language := range []string{"en", "ko"} {
		env := map[string]string{"ONDOL_LANG": language}
		for _, name := range []string{"", "search", "engine", "engine logs", "config set"} {
			_, want, _ := run(t, env, append(strings.Fields(name), "--help")...)
			code, got, errOut := run(t, env, append([]string{"help"}, strings.Fields(name)...)...)
			if code != 0 || got != want || len(got) < 100 {
				t.Errorf("%s: help %s: exit %d, %q\n%s\nwant\n%s", language, name, code, errOut, got, want)
			}
			if language == "ko" && strings.Contains(got, "(default") {
				t.Errorf("help %s says default:\n%s", name, got)
			}
		}
	}
	if _, out, _ := run(t, nil, "help", "search"); !strings.Contains(out, "(default 10)") || !strings.Contains(out, "(default hybrid)") {
		t.Errorf("no defaults:\n%s", out)
	}
}

func TestEmptyNamesAreMistakes(t *testing.T) {
	home := answering(t, 200, control.Folders{})
	for _, args := range [][]string{
		{"folders", "add", ""}, {"folders", "add", "  "}, {"folders", "remove", ""}, {"folders", "rescan", ""}, {"search", ""}, {"search", "x", "--folder", ""},
	} {
		if code, _, errOut := run(t, map[string]string{"ONDOL_HOME": home}, args...); code != 2 || errOut == "" {
			t.Errorf("%q: exit %d, %q", args, code, errOut)
		}
	}
}

// An answer that could not be written is no success.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil { // only Linux has one
		full, err = os.Open(os.DevNull) // for reading: every write fails too
	}
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	home := answering(t, 200, control.Status{})
	for _, args := range []string{"status", "status --json", "version", "--help"} {
		var errOut strings.Builder
		code := cli.Run(context.Background(), cli.Config{
			Version: "1", Args: strings.Fields(args), Out: full, Err: &errOut,
			Getenv: func(k string) string { return map[string]string{"ONDOL_HOME": home}[k] },
		})
		if code != 1 || strings.Count(errOut.String(), "could not be written") != 1 || strings.Contains(errOut.String(), "Failed") {
			t.Errorf("%s: exit %d, %q", args, code, errOut.String())
		}
	}
}

func TestLogOfAnEngineThatIsGone(t *testing.T) {
	home := t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, "logs"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "logs", "llama-server.log"), []byte("one\ntwo\nthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"ONDOL_HOME": home}
	code, out, errOut := run(t, env, "engine", "logs", "-n", "2")
	if code != 0 || out != "two\nthree\n" || !strings.Contains(errOut, "llama-server.log") {
		t.Errorf("exit %d, %q, %q", code, out, errOut)
	}
	if code, out, _ = run(t, env, "engine", "logs", "--json"); code != 0 {
		t.Errorf("exit %d", code)
	}
	var all struct{ Lines []string }
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all.Lines) != 3 {
		t.Errorf("%q: %v", out, err)
	}
	// No log at all is an empty one.
	if code, out, _ := run(t, nil, "engine", "logs", "--json"); code != 0 || !strings.Contains(out, `"lines": []`) {
		t.Errorf("exit %d, %q", code, out)
	}
}

// A long path must not push every other row's columns away.
func TestDocumentsEndInTheirPath(t *testing.T) {
	long := strings.Repeat("folder/", 30) + "a.md"
	home := answering(t, 200, control.Documents{Documents: []control.Document{
		{Document: document.Document{ID: 1, Path: long, State: document.Indexed}, Folder: "/f"},
		{Document: document.Document{ID: 2, Path: "b.md", State: document.Skipped, Reason: document.ReasonBinary}, Folder: "/f"},
	}})
	code, out, errOut := run(t, map[string]string{"ONDOL_HOME": home}, "documents")
	if code != 0 || !strings.Contains(out, "/f/"+long+"\n") || !strings.Contains(out, "not text  /f/b.md\n") {
		t.Errorf("exit %d, %q\n%s", code, errOut, out)
	}
	for _, line := range strings.Split(out, "\n") {
		if !strings.Contains(line, long) && len(line) > 70 {
			t.Errorf("padded: %q", line)
		}
	}
}

func TestConfigShowsUnits(t *testing.T) {
	for language, want := range map[string]string{"en": "2 requests", "ko": "2 요청"} {
		if _, out, _ := run(t, map[string]string{"ONDOL_LANG": language}, "config", "get"); !strings.Contains(out, want) {
			t.Errorf("%s: no %q in\n%s", language, want, out)
		}
	}
	if _, out, _ := run(t, nil, "config", "get", "admission.executing"); out != "2\n" { // a script reads it
		t.Errorf("one setting: %q", out)
	}
}
