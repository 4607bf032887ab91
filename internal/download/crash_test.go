package download_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/download"
)

// actAsDownload makes this test binary a process that fetches the request in
// the variable, so that it can be killed.
const actAsDownload = "ONDOL_TEST_DOWNLOAD"

func TestMain(m *testing.M) {
	if text := os.Getenv(actAsDownload); text != "" {
		os.Exit(fetchAsked(text))
	}
	os.Exit(m.Run())
}

func fetchAsked(text string) int {
	var req download.Request
	err := json.Unmarshal([]byte(text), &req)
	if err == nil {
		var d *download.Downloader
		if d, err = download.New(download.Config{}); err == nil {
			_, err = d.Fetch(context.Background(), req, nil)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// child is the command of a process that fetches req.
func child(t *testing.T, req download.Request, env ...string) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(map[string]any{"URL": req.URL, "Target": req.Target, "SHA256": req.SHA256, "Size": req.Size})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), env...), actAsDownload+"="+string(text), "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return cmd
}

// A process that is killed in the middle leaves bytes that the next one goes
// on behind: the server sees a range that begins at exactly the byte the file
// had, again and again.
func TestKilledDownloadsGoOnAtTheByte(t *testing.T) {
	file := content(30, 8<<20)
	stops := []int{1 << 20, 3<<20 + 1, 7<<20 + 333}
	var script []fault
	for i, stop := range stops {
		sent := stop
		if i > 0 {
			sent -= stops[i-1]
		}
		script = append(script, stall(sent))
	}
	h, path := newHub(t, file, script...), target(t)
	req := download.Request{URL: h.URL, Target: path, Size: int64(len(file)), SHA256: sum(file)}
	want := []string{""}
	for _, stop := range stops {
		cmd := child(t, req)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		waitSize(t, download.PartialName(path), int64(stop))
		if err := cmd.Process.Kill(); err != nil { // SIGKILL
			t.Fatal(err)
		}
		cmd.Wait()
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("the target is there after %d bytes: %v", stop, err)
		}
		want = append(want, fmt.Sprintf("bytes=%d-", stop))
	}
	if err := child(t, req).Run(); err != nil {
		t.Fatal(err)
	}
	absentOrWhole(t, path, file)
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(h.ranges(), want) {
		t.Errorf("asked for %q, want %q", h.ranges(), want)
	}
}

// waitSize waits until a file has so many bytes.
func waitSize(t *testing.T, name string, size int64) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		if info, err := os.Stat(name); err == nil && info.Size() == size {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s never had %d bytes", name, size)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// The variables that curl and all others obey.
func TestProxyOfTheEnvironment(t *testing.T) {
	file := content(31, 5000)
	proxy, path := newHub(t, file), target(t)
	req := download.Request{URL: "http://hub.invalid/a/model.gguf", Target: path, SHA256: sum(file)}
	if err := child(t, req, "HTTP_PROXY="+proxy.URL, "http_proxy=", "NO_PROXY=", "no_proxy=").Run(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || sum(text) != req.SHA256 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// Whatever happens in whatever order, the target is absent or the file; and as
// soon as the server behaves, it is the file.
func TestAnyFaultsInAnyOrder(t *testing.T) {
	const n = 200_003
	file, wrong := content(32, n), content(33, n)
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 7))
			var script []fault
			for range r.IntN(12) {
				script = append(script, anyFault(r, file, wrong))
			}
			h, path := newHub(t, file, script...), target(t)
			d := quick(t, nil, func(c *download.Config) { c.Idle, c.Every, c.Tries = 50*time.Millisecond, time.Nanosecond, 3 })
			req := download.Request{URL: h.URL, Target: path, SHA256: sum(file)}
			if r.IntN(2) == 0 {
				req.Size = n
			}
			for range 14 {
				ctx, stop := context.WithCancel(t.Context())
				pauseAt := r.Int64N(4 * n) // mostly never
				_, err := d.Fetch(ctx, req, func(p download.Progress) {
					if p.Done >= pauseAt {
						stop()
					}
				})
				stop()
				absentOrWhole(t, path, file)
				if err == nil {
					break
				}
				if _, missing := os.Lstat(path); missing == nil {
					t.Fatalf("an error left a target: %v", err)
				}
			}
			d2 := quick(t, nil, nil)
			h.mu.Lock()
			h.script = nil
			h.mu.Unlock()
			if _, err := d2.Fetch(t.Context(), req, nil); err != nil {
				t.Fatal(err)
			}
			if names := leftovers(t, path); strings.Join(names, " ") != "model.gguf" {
				t.Errorf("left behind: %v", names)
			}
		})
	}
}

// anyFault is one of all that are known, with numbers drawn.
func anyFault(r *rand.Rand, file, wrong []byte) fault {
	n := len(file)
	at := r.IntN(n)
	faults := []fault{
		cut(at), cut(0), cut(n), stall(at), mute, ignoreRange, chunked(0), chunked(1 + r.IntN(70_000)), length(1 + at), length(-at),
		status(500), status(503, "Retry-After", "3"), status(429), status(403), status(404), status(200), status(206),
		status(416, "Content-Range", fmt.Sprintf("bytes */%d", n)), status(416, "Content-Range", fmt.Sprintf("bytes */%d", at)), status(416),
		partial(fmt.Sprintf("bytes %d-%d/%d", at, n-1, n), at, n), partial(fmt.Sprintf("bytes 0-%d/%d", n-1, n), 0, n), partial("", at, n),
		other(wrong, etagOf(file)), other(wrong, etagOf(wrong)), other(wrong[:at+1], etagOf(file)), other(file, `W/"weak"`),
		func(w http.ResponseWriter, r *http.Request, _ []byte) { rest(w, r, wrong, n) },
		func(w http.ResponseWriter, r *http.Request, _ []byte) { ignoreRange(w, r, wrong) },
		func(w http.ResponseWriter, r *http.Request, _ []byte) { ignoreRange(w, r, wrong[:at+1]) },
	}
	return faults[r.IntN(len(faults))]
}
