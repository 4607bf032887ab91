package download_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/download"
)

// quick is a downloader that does not wait, but notes for how long it would have.
func quick(t *testing.T, waits *[]time.Duration, change func(*download.Config)) *download.Downloader {
	t.Helper()
	cfg := download.Config{
		Idle: time.Minute, Reserve: 1, // a busy machine must not look like a stalled server
		Sleep: func(ctx context.Context, d time.Duration) error {
			if waits != nil {
				*waits = append(*waits, d)
			}
			return ctx.Err()
		},
	}
	if change != nil {
		change(&cfg)
	}
	d, err := download.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// target is a place for a file, in a folder that is not there yet.
func target(t *testing.T) string { return filepath.Join(t.TempDir(), "owner", "model.gguf") }

// absentOrWhole is the promise that nothing may break.
func absentOrWhole(t *testing.T, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%s holds %d bytes that are not the file", path, len(got))
	}
}

// leftovers are the names beside the target.
func leftovers(t *testing.T, path string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

const size = 3<<20 + 17

// Every fault is met once; afterwards the server behaves, and the file must be
// there, whole. The ranges show whether the download went on or started anew.
func TestFaultsAreSurvived(t *testing.T) {
	file := content(1, size)
	half := size / 2
	atHalf := fmt.Sprintf("bytes=%d-", half)
	wrong := content(2, size)
	tests := []struct {
		name   string
		script []fault
		ranges []string // of every request
		stalls bool
	}{
		{"none", nil, []string{""}, false},
		{"cut twice", []fault{cut(half), cut(1000)}, []string{"", atHalf, fmt.Sprintf("bytes=%d-", half+1000)}, false},
		{"stall", []fault{stall(half)}, []string{"", atHalf}, true},
		{"no answer", []fault{mute}, []string{"", ""}, true},
		{"cut before the first byte", []fault{cut(0)}, []string{"", ""}, false},
		{"range ignored", []fault{cut(half), ignoreRange}, []string{"", atHalf}, false},
		{"206 of another range", []fault{cut(half), partial(fmt.Sprintf("bytes 0-%d/%d", size-1, size), 0, size)}, []string{"", atHalf, ""}, false},
		{"206 claims our range and is shorter", []fault{cut(half), partial(fmt.Sprintf("bytes %d-%d/%d", half, size-1, size), half, size-5)}, []string{"", atHalf, ""}, false},
		{"206 without Content-Range", []fault{cut(half), partial("", half, size)}, []string{"", atHalf, ""}, false},
		{"206 nonsense", []fault{cut(half), partial("bytes x-y/z", half, size)}, []string{"", atHalf, ""}, false},
		{"206 of another total", []fault{cut(half), partial(fmt.Sprintf("bytes %d-%d/%d", half, size-1, size+1), half, size)}, []string{"", atHalf, ""}, false},
		{"206 under another ETag", []fault{cut(half), other(wrong, `"changed"`)}, []string{"", atHalf, ""}, false},
		// The server mixes two files and nothing in the heads tells: the hash does, and the file is fetched again, whole.
		{"206 of another file under our ETag", []fault{cut(half), other(wrong, etagOf(file))}, []string{"", atHalf, ""}, false},
		{"206 that was not asked for", []fault{partial(fmt.Sprintf("bytes 5-%d/%d", size-1, size), 5, size)}, []string{"", ""}, false},
		{"206 of the whole, not asked for", []fault{partial(fmt.Sprintf("bytes 0-%d/%d", size-1, size), 0, size)}, []string{""}, false},
		{"416", []fault{cut(half), status(416, "Content-Range", fmt.Sprintf("bytes */%d", size))}, []string{"", atHalf, ""}, false},
		{"416 of another size", []fault{cut(half), status(416, "Content-Range", fmt.Sprintf("bytes */%d", half))}, []string{"", atHalf, ""}, false},
		{"429", []fault{status(429, "Retry-After", "7")}, []string{"", ""}, false},
		{"503", []fault{cut(half), status(503, "Retry-After", "7")}, []string{"", atHalf, atHalf}, false},
		{"500, 502, 408", []fault{status(500), status(502), status(408)}, []string{"", "", "", ""}, false},
		{"chunked", []fault{chunked(0)}, []string{""}, false},
		{"chunked and too long", []fault{chunked(9)}, []string{"", ""}, false},
		{"slow", []fault{slow(8, 60*time.Millisecond)}, []string{""}, false},
		{"packed", []fault{status(200, "Content-Encoding", "gzip")}, []string{"", ""}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h, path := newHub(t, file, tt.script...), target(t)
			d := quick(t, nil, func(c *download.Config) {
				if tt.stalls {
					c.Idle = 2 * time.Second
				}
			})
			got, err := d.Fetch(t.Context(), download.Request{URL: h.URL, Target: path, Size: size, SHA256: sum(file)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			absentOrWhole(t, path, file)
			if got.SHA256 != sum(file) || got.Size != size {
				t.Errorf("result %+v", got)
			}
			if r := h.ranges(); !slices.Equal(r, tt.ranges) {
				t.Errorf("asked for %q, want %q", r, tt.ranges)
			}
			if names := leftovers(t, path); !slices.Equal(names, []string{"model.gguf"}) {
				t.Errorf("left behind: %v", names)
			}
		})
	}
}

// What cannot be helped is told with its figures, and no file appears.
func TestFaultsThatEndADownload(t *testing.T) {
	file := content(3, size)
	many := func(f fault) []fault { return slices.Repeat([]fault{f}, 20) }
	is := func(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }
	tests := []struct {
		name    string
		script  []fault
		request func(*download.Request)
		want    func(error) bool
		kept    bool // the partial file
		stalls  bool
	}{
		{"wrong hash", nil, func(r *download.Request) { r.SHA256 = strings.Repeat("0", 64) }, func(err error) bool {
			e, ok := errors.AsType[*download.HashError](err)
			return ok && e.Got == sum(file) && e.Want == strings.Repeat("0", 64)
		}, false, false},
		{"wrong hash, in pieces", []fault{cut(1000)}, func(r *download.Request) { r.SHA256 = strings.Repeat("0", 64) }, func(err error) bool {
			_, ok := errors.AsType[*download.HashError](err)
			return ok
		}, false, false},
		{"wrong size", nil, func(r *download.Request) { r.Size++ }, func(err error) bool {
			e, ok := errors.AsType[*download.SizeError](err)
			return ok && e.Want == size+1 && e.Got == size
		}, false, false},
		{"content length too large", many(length(10)), func(r *download.Request) { r.Size = 0 }, is(download.ErrCut), true, false},
		{"always cut at the same byte", many(cut(0)), nil, is(download.ErrCut), false, false},
		{"always stalled", many(stall(0)), nil, is(download.ErrStalled), false, true},
		{"no size", many(chunked(0)), func(r *download.Request) { r.Size = 0 }, is(download.ErrNoSize), false, false},
		{"empty", many(status(200, "Content-Length", "0")), func(r *download.Request) { r.Size = 0 }, is(download.ErrNoSize), false, false},
		{"ranges always lie and the whole is always cut", slices.Repeat([]fault{cut(1000), partial("bytes 0-9/10", 0, 10)}, 20), nil, is(download.ErrLied), true, false},
		{"forbidden", many(status(403)), nil, func(err error) bool {
			e, ok := errors.AsType[*download.StatusError](err)
			return ok && e.Status == 403 && e.Origin
		}, false, false},
		{"gone", many(status(404)), nil, func(err error) bool {
			e, ok := errors.AsType[*download.StatusError](err)
			return ok && e.Status == 404
		}, false, false},
		{"no hash", nil, func(r *download.Request) { r.SHA256 = "" }, is(download.ErrNoHash), false, false},
		{"refused by the check", nil, func(r *download.Request) {
			r.Check = func(io.ReaderAt) error { return io.ErrNoProgress }
		}, is(io.ErrNoProgress), false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h, path := newHub(t, file, tt.script...), target(t)
			req := download.Request{URL: h.URL, Target: path, Size: size, SHA256: sum(file)}
			if tt.request != nil {
				tt.request(&req)
			}
			d := quick(t, nil, func(c *download.Config) {
				if tt.stalls {
					c.Idle = 100 * time.Millisecond
				}
			})
			_, err := d.Fetch(t.Context(), req, nil)
			if !tt.want(err) {
				t.Errorf("error %v", err)
			}
			if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the target is there: %v", err)
			}
			if _, err := os.Lstat(download.PartialName(path)); (err == nil) != tt.kept {
				t.Errorf("partial file kept: %v, want %v", err == nil, tt.kept)
			}
		})
	}
}

// An 8 GB file must not be fetched anew because somebody pressed pause.
func TestPauseKeepsAndGoesOn(t *testing.T) {
	file := content(4, size)
	h, path := newHub(t, file, stall(size/3)), target(t)
	d := quick(t, nil, func(c *download.Config) { c.Idle, c.Every = time.Minute, time.Nanosecond })
	req := download.Request{URL: h.URL, Target: path, SHA256: sum(file)}
	ctx, pause := context.WithCancelCause(t.Context())
	paused := errors.New("paused by its owner")
	_, err := d.Fetch(ctx, req, func(p download.Progress) {
		if p.Done >= size/3 {
			pause(paused)
		}
	})
	if !errors.Is(err, paused) {
		t.Fatalf("error %v, want the cause of the pause", err)
	}
	got, err := d.Fetch(t.Context(), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	absentOrWhole(t, path, file)
	if want := []string{"", fmt.Sprintf("bytes=%d-", size/3)}; !slices.Equal(h.ranges(), want) {
		t.Errorf("asked for %q, want %q", h.ranges(), want)
	}
	if h.asked[1].Get("If-Range") != etagOf(file) {
		t.Errorf("If-Range %q", h.asked[1].Get("If-Range"))
	}
	if got.Fetched != size-size/3 {
		t.Errorf("fetched %d bytes", got.Fetched)
	}
	again, err := d.Fetch(t.Context(), req, nil)
	if err != nil || again.Fetched != 0 || len(h.ranges()) != 2 {
		t.Errorf("a file that is there was asked for again: %+v, %v", again, err)
	}
}

// begun leaves the first third of file as a partial file.
func begun(t *testing.T, d *download.Downloader, path string, file []byte, req download.Request) {
	t.Helper()
	h := newHub(t, file, cut(len(file)/3), status(404))
	if req.URL == "" {
		req.URL = h.URL
	}
	if _, err := d.Fetch(t.Context(), req, nil); err == nil {
		t.Fatal("the download was not cut")
	}
	info, err := os.Stat(download.PartialName(path))
	if err != nil || info.Size() != int64(len(file)/3) {
		t.Fatalf("partial file: %v, %v", info, err)
	}
}

// With a hash, a mirror may go on with what another address began.
func TestAnotherAddressGoesOn(t *testing.T) {
	file := content(5, size)
	d, path := quick(t, nil, nil), target(t)
	req := download.Request{Target: path, SHA256: sum(file)}
	begun(t, d, path, file, req)
	mirror := newHub(t, file)
	req.URL = mirror.URL
	if _, err := d.Fetch(t.Context(), req, nil); err != nil {
		t.Fatal(err)
	}
	absentOrWhole(t, path, file)
	if want := []string{fmt.Sprintf("bytes=%d-", size/3)}; !slices.Equal(mirror.ranges(), want) || mirror.asked[0].Get("If-Range") != "" {
		t.Errorf("asked the mirror for %q, If-Range %q", mirror.ranges(), mirror.asked[0].Get("If-Range"))
	}
}

// The file on the server is replaced between two calls, and another hash is wanted.
func TestAnotherHashStartsAnew(t *testing.T) {
	file, next := content(6, size), content(7, size+5)
	d, path := quick(t, nil, nil), target(t)
	begun(t, d, path, file, download.Request{Target: path, SHA256: sum(file)})
	h := newHub(t, next)
	if _, err := d.Fetch(t.Context(), download.Request{URL: h.URL, Target: path, SHA256: sum(next)}, nil); err != nil {
		t.Fatal(err)
	}
	absentOrWhole(t, path, next)
	if want := []string{""}; !slices.Equal(h.ranges(), want) {
		t.Errorf("asked for %q", h.ranges())
	}
}

// Without a hash only the validators tell: a file that changed is fetched whole.
func TestUnverifiedFileIsNeverMixed(t *testing.T) {
	file, next := content(8, size), content(9, size)
	d, path := quick(t, nil, nil), target(t)
	h := newHub(t, file, cut(size/3), status(404))
	req := download.Request{URL: h.URL, Target: path, Unverified: true}
	if _, err := d.Fetch(t.Context(), req, nil); err == nil {
		t.Fatal("the download was not cut")
	}
	h.become(next)
	got, err := d.Fetch(t.Context(), req, nil)
	if err != nil || got.SHA256 != sum(next) {
		t.Fatalf("%+v, %v", got, err)
	}
	absentOrWhole(t, path, next)
	// Without a validator nothing could tell, so nothing is continued.
	bare := newHub(t, file, func(w http.ResponseWriter, r *http.Request, b []byte) {
		w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		w.Write(b[:1000])
		panic(http.ErrAbortHandler)
	}, status(404))
	path = target(t)
	req = download.Request{URL: bare.URL, Target: path, Unverified: true}
	if _, err := d.Fetch(t.Context(), req, nil); err == nil {
		t.Fatal("the download was not cut")
	}
	bare.mu.Lock()
	bare.asked = nil
	bare.mu.Unlock()
	if _, err := d.Fetch(t.Context(), req, nil); err != nil || !slices.Equal(bare.ranges(), []string{""}) {
		t.Errorf("asked for %q, %v", bare.ranges(), err)
	}
}

// A crash may leave a state that is cut, or bytes that belong to nothing.
func TestStrangeLeftovers(t *testing.T) {
	file := content(10, size)
	state := func(change func(map[string]any)) string {
		s := map[string]any{"size": size, "sha256": sum(file), "etag": etagOf(file)}
		change(s)
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	tests := []struct {
		name, state string
		bytes       []byte
		ranges      []string
	}{
		{"no state", "", file[:1000], []string{""}},
		{"cut state", `{"size":3`, file[:1000], []string{""}},
		{"state of another file", state(func(s map[string]any) { s["sha256"] = strings.Repeat("1", 64) }), file[:1000], []string{""}},
		{"more bytes than the file has", state(func(map[string]any) {}), append(slices.Clone(file), 1, 2, 3), []string{""}},
		{"whole but not named yet", state(func(map[string]any) {}), file, nil},
		// After a power cut: the length was written, the bytes were not.
		{"zeros where bytes should be", state(func(map[string]any) {}), make([]byte, 1000), []string{"bytes=1000-", ""}},
		{"state without bytes", state(func(map[string]any) {}), nil, []string{""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, path := newHub(t, file), target(t)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(download.PartialName(path), tt.bytes, 0o600); err != nil {
				t.Fatal(err)
			}
			if tt.state != "" {
				if err := os.WriteFile(download.PartialName(path)+".json", []byte(tt.state), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := quick(t, nil, nil).Fetch(t.Context(), download.Request{URL: h.URL, Target: path, SHA256: sum(file)}, nil); err != nil {
				t.Fatal(err)
			}
			absentOrWhole(t, path, file)
			if !slices.Equal(h.ranges(), tt.ranges) {
				t.Errorf("asked for %q, want %q", h.ranges(), tt.ranges)
			}
			if names := leftovers(t, path); !slices.Equal(names, []string{"model.gguf"}) {
				t.Errorf("left behind: %v", names)
			}
		})
	}
}

// Somebody's file of the same name is never replaced.
func TestTargetOfOthersStays(t *testing.T) {
	file := content(11, 5000)
	h, path := newHub(t, file), target(t)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, req := range []download.Request{{SHA256: sum(file)}, {Unverified: true}, {SHA256: sum(file), Size: 5000}} {
		req.URL, req.Target = h.URL, path
		_, err := quick(t, nil, nil).Fetch(t.Context(), req, nil)
		if e, ok := errors.AsType[*download.ExistsError](err); !ok || e.Path != path {
			t.Errorf("error %v", err)
		}
	}
	if text, _ := os.ReadFile(path); string(text) != "mine" || len(h.ranges()) != 0 {
		t.Errorf("the file is %q after %d requests", text, len(h.ranges()))
	}
}

func TestOneDownloadOfATarget(t *testing.T) {
	file := content(12, size)
	h, path := newHub(t, file, stall(100)), target(t)
	d := quick(t, nil, func(c *download.Config) { c.Idle, c.Every = time.Minute, time.Nanosecond })
	req := download.Request{URL: h.URL, Target: path, SHA256: sum(file)}
	began := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		told := false
		_, err := d.Fetch(ctx, req, func(p download.Progress) {
			if !told && p.Done == 100 {
				told = true
				close(began)
			}
		})
		done <- err
	}()
	<-began
	if _, err := d.Fetch(t.Context(), req, nil); !errors.Is(err, download.ErrBusy) {
		t.Errorf("second download: %v", err)
	}
	if err := d.Discard(path); !errors.Is(err, download.ErrBusy) {
		t.Errorf("discard while downloading: %v", err)
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("first download: %v", err)
	}
	if err := d.Discard(path); err != nil {
		t.Fatal(err)
	}
	if names := leftovers(t, path); len(names) != 0 {
		t.Errorf("left behind: %v", names)
	}
}

func TestSpace(t *testing.T) {
	file := content(13, size)
	free := int64(size)
	h, path := newHub(t, file, cut(size/2)), target(t)
	d := quick(t, nil, func(c *download.Config) {
		c.Reserve = 1000
		c.Free = func(string) (int64, error) { return free, nil }
	})
	req := download.Request{URL: h.URL, Target: path, Size: size, SHA256: sum(file)}
	_, err := d.Fetch(t.Context(), req, nil)
	e, ok := errors.AsType[*download.SpaceError](err)
	if !ok || e.Need != size+1000 || e.Free != size || e.Dir != filepath.Dir(path) || len(h.ranges()) != 0 {
		t.Fatalf("error %v after %d requests", err, len(h.ranges()))
	}
	// What is there already needs no room a second time.
	free = size + 1000
	begun(t, d, path, file, download.Request{Target: path, SHA256: sum(file)})
	free = size - size/3 + 1000
	h = newHub(t, file)
	req.URL = h.URL
	if _, err := d.Fetch(t.Context(), req, nil); err != nil {
		t.Fatal(err)
	}
	absentOrWhole(t, path, file)
}

// The disk fills up in the middle: what came stays, and goes on when there is room.
func TestDiskFullInTheMiddle(t *testing.T) {
	file := content(14, size)
	h, path := newHub(t, file), target(t)
	d := quick(t, nil, nil)
	d.FillDisk(size / 2)
	req := download.Request{URL: h.URL, Target: path, Size: size, SHA256: sum(file)}
	_, err := d.Fetch(t.Context(), req, nil)
	if e, ok := errors.AsType[*download.SpaceError](err); !ok || e.Need != size-size/2 || e.Err == nil {
		t.Fatalf("error %v", err)
	}
	if _, err := quick(t, nil, nil).Fetch(t.Context(), req, nil); err != nil {
		t.Fatal(err)
	}
	absentOrWhole(t, path, file)
	if want := []string{"", fmt.Sprintf("bytes=%d-", size/2)}; !slices.Equal(h.ranges(), want) {
		t.Errorf("asked for %q, want %q", h.ranges(), want)
	}
}

func TestRealFreeSpace(t *testing.T) {
	file := content(15, 5000)
	h, path := newHub(t, file), target(t)
	d := quick(t, nil, func(c *download.Config) { c.Reserve = 1 << 60 })
	_, err := d.Fetch(t.Context(), download.Request{URL: h.URL, Target: path, SHA256: sum(file)}, nil)
	if e, ok := errors.AsType[*download.SpaceError](err); !ok || e.Free <= 0 || e.Free >= 1<<60 {
		t.Errorf("error %v", err)
	}
}

func TestWaits(t *testing.T) {
	file := content(16, 5000)
	var waits []time.Duration
	h := newHub(t, file, status(500), status(429, "Retry-After", "90"), status(500), status(503, "Retry-After", "86400"), status(500), status(500))
	d := quick(t, &waits, nil)
	if _, err := d.Fetch(t.Context(), download.Request{URL: h.URL, Target: target(t), SHA256: sum(file)}, nil); err != nil {
		t.Fatal(err)
	}
	low := []time.Duration{500 * time.Millisecond, 90 * time.Second, 2 * time.Second, 10 * time.Minute, 8 * time.Second, 16 * time.Second}
	high := []time.Duration{time.Second, 90 * time.Second, 4 * time.Second, 10 * time.Minute, 16 * time.Second, 32 * time.Second}
	if len(waits) != len(low) {
		t.Fatalf("waited %v", waits)
	}
	for i, w := range waits {
		if w < low[i] || w > high[i] {
			t.Errorf("wait %d was %v, want %v to %v", i, w, low[i], high[i])
		}
	}
}

func TestIPv6(t *testing.T) {
	file := content(17, 5000)
	h, path := newHubAt(t, "[::1]:0", file, cut(1000)), target(t)
	if !strings.Contains(h.URL, "[::1]") {
		t.Fatal(h.URL)
	}
	if _, err := quick(t, nil, nil).Fetch(t.Context(), download.Request{URL: h.URL, Target: path, SHA256: sum(file)}, nil); err != nil {
		t.Fatal(err)
	}
	absentOrWhole(t, path, file)
}

func TestProxy(t *testing.T) {
	file := content(18, 5000)
	proxy, path := newHub(t, file), target(t) // asked for an absolute address, it serves the file
	d := quick(t, nil, func(c *download.Config) {
		c.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(proxy.URL) }
	})
	if _, err := d.Fetch(t.Context(), download.Request{URL: "http://hub.invalid/a/model.gguf", Target: path, SHA256: sum(file)}, nil); err != nil {
		t.Fatal(err)
	}
	absentOrWhole(t, path, file)
}

// trusting is a downloader that knows the test's own certificate.
func trusting(t *testing.T, s *httptest.Server) *download.Downloader {
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return quick(t, nil, func(c *download.Config) { c.TLS = &tls.Config{RootCAs: pool} })
}

func TestRedirects(t *testing.T) {
	file := content(19, size)
	storage := newHub(t, file, cut(size/2), status(403))
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer hf_secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, storage.URL+"/signed", http.StatusFound)
	}))
	defer origin.Close()
	path := target(t)
	// The storage's 403 means that its address ran out, so the origin is asked again.
	if _, err := quick(t, nil, nil).Fetch(t.Context(), download.Request{URL: origin.URL, Target: path, SHA256: sum(file), Token: "hf_secret"}, nil); err != nil {
		t.Fatal(err)
	}
	absentOrWhole(t, path, file)
	at := fmt.Sprintf("bytes=%d-", size/2)
	if want := []string{"", at, at}; !slices.Equal(storage.ranges(), want) {
		t.Errorf("asked for %q, want %q", storage.ranges(), want)
	}
	for _, h := range storage.asked {
		if h.Get("Authorization") != "" || h.Get("Referer") != "" {
			t.Errorf("the storage was told %v", h)
		}
	}
}

func TestRedirectsThatAreRefused(t *testing.T) {
	file := content(20, 5000)
	plain := newHub(t, file)
	var loop string
	to := map[string]string{"/plain": plain.URL, "/file": "file:///etc/passwd"}
	origin := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to[r.URL.Path] == "" {
			http.Redirect(w, r, loop, http.StatusFound)
			return
		}
		http.Redirect(w, r, to[r.URL.Path], http.StatusFound)
	}))
	defer origin.Close()
	loop = origin.URL + "/loop"
	for _, place := range []string{"/plain", "/file", "/loop"} {
		path := target(t)
		_, err := trusting(t, origin).Fetch(t.Context(), download.Request{URL: origin.URL + place, Target: path, SHA256: sum(file)}, nil)
		if !errors.Is(err, download.ErrRedirect) {
			t.Errorf("%s: %v", place, err)
		}
		absentOrWhole(t, path, nil)
	}
	if len(plain.ranges()) != 0 {
		t.Error("http was asked after https")
	}
	var waits []time.Duration
	_, err := quick(t, &waits, nil).Fetch(t.Context(), download.Request{URL: origin.URL, Target: target(t), SHA256: sum(file)}, nil)
	if _, bad := errors.AsType[*tls.CertificateVerificationError](err); !bad || len(waits) != 0 {
		t.Errorf("a certificate that nobody vouches for: %v after %d waits", err, len(waits))
	}
}

func TestProgress(t *testing.T) {
	file := content(21, size)
	h := newHub(t, file, cut(size/2))
	var seen []download.Progress
	_, err := quick(t, nil, func(c *download.Config) { c.Every = time.Nanosecond }).Fetch(t.Context(),
		download.Request{URL: h.URL, Target: target(t), SHA256: sum(file)}, func(p download.Progress) { seen = append(seen, p) })
	if err != nil {
		t.Fatal(err)
	}
	var phases []download.Phase
	for _, p := range seen {
		if len(phases) == 0 || phases[len(phases)-1] != p.Phase {
			phases = append(phases, p.Phase)
		}
		if p.Total != size || p.Done > size || (p.Phase == download.Waiting) != (p.Err != nil) {
			t.Fatalf("%+v", p)
		}
	}
	if want := []download.Phase{download.Downloading, download.Waiting, download.Downloading, download.Verifying}; !slices.Equal(phases, want) {
		t.Errorf("phases %v, want %v", phases, want)
	}
	if last := seen[len(seen)-1]; last.Done != size {
		t.Errorf("last report %+v", last)
	}
}

func TestBadRequests(t *testing.T) {
	for _, req := range []download.Request{
		{URL: "ftp://127.0.0.1/x", Target: "/a", Unverified: true}, {URL: "http://127.0.0.1/x", Target: "a", Unverified: true},
		{URL: "http://127.0.0.1/x", Target: "/a", SHA256: "abc"}, {URL: "http://127.0.0.1/x", Target: "/a", Size: -1, Unverified: true},
	} {
		if _, err := quick(t, nil, nil).Fetch(t.Context(), req, nil); err == nil {
			t.Errorf("%+v was taken", req)
		}
	}
	if _, err := download.New(download.Config{Tries: -1}); err == nil {
		t.Error("a negative limit was taken")
	}
}
