package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ondol-app/ondol/internal/locations"
)

// app is the built app with a home of its own.
type app struct {
	*child
	address string // host:port of the gateway
	model   string
	control *http.Client
}

// status is the part of the app's status that matters here.
type status struct {
	Engine struct {
		State string `json:"state"`
		Model struct {
			Name      string `json:"name"`
			Dimension int    `json:"dimension"`
		} `json:"model"`
		LastError any `json:"last_error"`
	} `json:"engine"`
	Admission struct {
		Executing int               `json:"executing"`
		Draining  int               `json:"draining"`
		Waiting   int               `json:"waiting"`
		Totals    map[string]uint64 `json:"totals"`
		Service   struct {
			Count uint64  `json:"count"`
			Sum   float64 `json:"sum"`
		} `json:"service_seconds"`
	} `json:"admission"`
}

// startApp runs the app in dir and returns when its engine is ready.
func startApp(ctx context.Context, o options, dir, model, profile string, flags []string) (*app, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	paths, err := locations.Resolve(locations.Environment{Getenv: func(key string) string {
		return map[string]string{"ONDOL_HOME": dir}[key]
	}})
	if err != nil {
		return nil, err
	}
	if len(flags) > 0 {
		list, err := json.Marshal(flags) // TOML writes it the same way
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(paths.Settings, fmt.Appendf(nil, "[engine]\nflags = %s\n", list), 0o600); err != nil {
			return nil, err
		}
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	var files [2]string // the app runs from another folder's point of view
	for i, file := range []string{o.server, model} {
		if files[i], err = filepath.Abs(file); err != nil {
			return nil, err
		}
	}
	a := &app{address: address, control: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", paths.ControlSocket())
		},
	}}}
	if a.child, err = startChild(filepath.Join(dir, "output"), []string{"ONDOL_HOME=" + dir, "ONDOL_LISTEN=" + address,
		"ONDOL_LLAMA_SERVER=" + files[0], "ONDOL_MODEL=" + files[1], "ONDOL_PROFILE=" + profile, "ONDOL_LOG=warn"}, o.app, "serve"); err != nil {
		return nil, err
	}
	err = a.ready(ctx, func(ctx context.Context) error {
		s, err := a.status(ctx)
		if err != nil {
			return err
		}
		a.model = s.Engine.Model.Name
		if s.Engine.State != "ready" {
			return fmt.Errorf("engine is %s (%v)", s.Engine.State, s.Engine.LastError)
		}
		return nil
	})
	if err != nil {
		a.stop()
		return nil, err
	}
	return a, nil
}

func (a *app) status(ctx context.Context) (status, error) {
	var s status
	body, err := get(ctx, a.control, "http://localhost/ondol/v1/status")
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(body, &s)
}

// metrics is the app's Prometheus page by sample, labels included; nil when
// this build has none.
func (a *app) metrics(ctx context.Context, client *http.Client) map[string]float64 {
	body, err := get(ctx, client, "http://"+a.address+"/metrics")
	if err != nil {
		return nil
	}
	values := make(map[string]float64)
	for line := range strings.Lines(string(body)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil && !strings.HasPrefix(name, "#") {
			values[name] = v
		}
	}
	return values
}

func get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	reply, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err == nil && reply.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", url, reply.Status)
	}
	return body, err
}

// resident is the memory of the app's process in bytes, its engine not included.
func (a *app) resident() (int64, error) {
	pid := strconv.Itoa(a.cmd.Process.Pid)
	file, err := os.Open("/proc/" + pid + "/status")
	if err != nil { // macOS
		out, err := exec.Command("ps", "-o", "rss=", "-p", pid).Output()
		if err != nil {
			return 0, fmt.Errorf("read the app's memory: %w", err)
		}
		kb, err := strconv.ParseInt(string(bytes.TrimSpace(out)), 10, 64)
		return kb << 10, err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 && fields[0] == "VmRSS:" {
			kb, err := strconv.ParseInt(fields[1], 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("read the app's memory: no VmRSS in %s", file.Name())
}

// worked is the processor time the app's process has used, to 10 ms; false
// where the system does not tell it the way Linux does.
func (a *app) worked() (time.Duration, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(a.cmd.Process.Pid) + "/stat")
	if err != nil {
		return 0, false
	}
	// The name, in parentheses, may hold anything; user and system time are
	// the 12th and 13th field after it.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, false
	}
	user, err1 := strconv.Atoi(string(fields[11]))
	system, err2 := strconv.Atoi(string(fields[12]))
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux
	return time.Duration(user+system) * tick, err1 == nil && err2 == nil
}

// newHTTPClient keeps up to n connections alive and uses no proxy.
func newHTTPClient(n int) *http.Client {
	return &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: n, IdleConnTimeout: time.Minute, DisableCompression: true,
	}}
}
