package llamaclient_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/vector"
)

// long is a limit that no test may reach.
const long = time.Minute

func longLimits() llamaclient.Limits {
	return llamaclient.Limits{Connect: long, PoolWait: long, Write: long, Read: long, MaxConns: 100, MaxIdle: 20}
}

// socketPath is short enough for a unix socket on every system (104 bytes).
func socketPath(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "llc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// listen hands each connection to handle; stop is closed when the test ends.
func listen(t testing.TB, handle func(conn net.Conn, stop <-chan struct{})) (path string) {
	t.Helper()
	path = socketPath(t)
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			wg.Go(func() { handle(conn, stop) })
		}
	})
	t.Cleanup(func() {
		close(stop)
		listener.Close()
		mu.Lock()
		for _, conn := range conns {
			conn.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return path
}

// serve answers HTTP.
func serve(t testing.TB, handler http.HandlerFunc) (path string) {
	t.Helper()
	path = socketPath(t)
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
	return path
}

func newClient(t testing.TB, config llamaclient.Config) *llamaclient.Client {
	t.Helper()
	client, err := llamaclient.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

var transportErrors = []error{
	llamaclient.ErrConnect, llamaclient.ErrPoolWait, llamaclient.ErrWrite, llamaclient.ErrRead, llamaclient.ErrBroken,
}

// wantOnly checks that err wraps want and none of the other transport errors.
func wantOnly(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error = %v, want %v", err, want)
	}
	for _, other := range transportErrors {
		if other != want && errors.Is(err, other) {
			t.Errorf("error = %v, is also %v", err, other)
		}
	}
}

func TestConnectLimit(t *testing.T) {
	t.Run("a dialer that never connects", func(t *testing.T) {
		limits := longLimits()
		limits.Connect = 20 * time.Millisecond
		client := newClient(t, llamaclient.Config{Limits: limits, Dial: func(ctx context.Context) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		err := client.Health(t.Context())
		wantOnly(t, err, llamaclient.ErrConnect)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v, want the deadline named", err)
		}
	})
	t.Run("nobody listens", func(t *testing.T) {
		client := newClient(t, llamaclient.Config{Socket: socketPath(t), Limits: longLimits()})
		err := client.Health(t.Context())
		wantOnly(t, err, llamaclient.ErrConnect)
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("error = %v, want the missing file named", err)
		}
	})
}

func TestPoolWaitLimit(t *testing.T) {
	const conns = 100
	limits := longLimits()
	release := make(chan struct{})
	busy := make(chan struct{}, conns)
	path := serve(t, func(w http.ResponseWriter, r *http.Request) {
		busy <- struct{}{}
		<-release
	})
	limits.PoolWait = 20 * time.Millisecond
	client := newClient(t, llamaclient.Config{Socket: path, Limits: limits})
	results := make(chan error, conns)
	for range conns {
		go func() { results <- client.Health(t.Context()) }()
	}
	for range conns {
		<-busy
	}
	wantOnly(t, client.Health(t.Context()), llamaclient.ErrPoolWait)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("caller gone")
	cancel(gone)
	if err := client.Health(ctx); !errors.Is(err, gone) {
		t.Errorf("cancelled while waiting: %v, want its cause", err)
	}
	close(release)
	for range conns {
		if err := <-results; err != nil {
			t.Errorf("one of the %d: %v", conns, err)
		}
	}
	if err := client.Health(t.Context()); err != nil {
		t.Errorf("after the pool emptied: %v", err)
	}
}

func TestWriteLimit(t *testing.T) {
	path := listen(t, func(_ net.Conn, stop <-chan struct{}) { <-stop }) // never reads
	limits := longLimits()
	limits.Write = 20 * time.Millisecond
	client := newClient(t, llamaclient.Config{Socket: path, Limits: limits})
	_, err := client.Embed(t.Context(), []string{strings.Repeat("x", 2<<20)}, vector.Expect{})
	wantOnly(t, err, llamaclient.ErrWrite)
}

// A request that takes long in all but makes progress is within the limit of
// each write: the peer reads for longer than one limit, never pausing for one.
func TestWriteLimitIsForEachWrite(t *testing.T) {
	path := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, &slowReader{r.Body, 10 * time.Millisecond})
		io.WriteString(w, `{"tokens":[1]}`)
	})
	limits := longLimits()
	limits.Write = time.Second
	client := newClient(t, llamaclient.Config{Socket: path, Limits: limits})
	start := time.Now()
	if _, err := client.Tokenize(t.Context(), strings.Repeat("x", 6<<20)); err != nil {
		t.Fatalf("after %v: %v", time.Since(start), err)
	}
	if took := time.Since(start); took < limits.Write {
		t.Fatalf("the request took %v, less than one limit: it proves nothing", took)
	}
}

// slowReader pauses before every read of up to 32 KiB.
type slowReader struct {
	io.Reader
	pause time.Duration
}

func (r *slowReader) Read(b []byte) (int, error) {
	<-time.After(r.pause)
	return r.Reader.Read(b[:min(len(b), 32<<10)])
}

func TestReadLimit(t *testing.T) {
	limits := longLimits()
	limits.Read = 30 * time.Millisecond
	t.Run("no answer", func(t *testing.T) {
		path := listen(t, func(conn net.Conn, stop <-chan struct{}) {
			http.ReadRequest(bufio.NewReader(conn))
			<-stop
		})
		client := newClient(t, llamaclient.Config{Socket: path, Limits: limits})
		wantOnly(t, client.Health(t.Context()), llamaclient.ErrRead)
	})
	t.Run("half an answer", func(t *testing.T) {
		path := listen(t, func(conn net.Conn, stop <-chan struct{}) {
			http.ReadRequest(bufio.NewReader(conn))
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"da")
			<-stop
		})
		client := newClient(t, llamaclient.Config{Socket: path, Limits: limits})
		wantOnly(t, client.Health(t.Context()), llamaclient.ErrRead)
	})
	t.Run("slow but coming", func(t *testing.T) {
		// Each piece arrives within the limit, the whole does not.
		path := serve(t, func(w http.ResponseWriter, r *http.Request) {
			for range 12 {
				io.WriteString(w, " ")
				w.(http.Flusher).Flush()
				<-time.After(50 * time.Millisecond)
			}
		})
		generous := limits
		generous.Read = 500 * time.Millisecond
		client := newClient(t, llamaclient.Config{Socket: path, Limits: generous})
		if err := client.Health(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("an idle connection starts anew", func(t *testing.T) {
		// The second request comes on a connection that has been idle for
		// most of the limit; its answer has the whole limit again.
		answers := make(chan time.Duration, 2)
		path := serve(t, func(w http.ResponseWriter, r *http.Request) { <-time.After(<-answers) })
		generous := limits
		generous.Read = 1500 * time.Millisecond
		client := newClient(t, llamaclient.Config{Socket: path, Limits: generous})
		answers <- 0
		if err := client.Health(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		answers <- 900 * time.Millisecond
		if err := client.Health(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestTotalIsTheCallersContext(t *testing.T) {
	path := listen(t, func(_ net.Conn, stop <-chan struct{}) { <-stop })
	client := newClient(t, llamaclient.Config{Socket: path, Limits: longLimits()})
	total := errors.New("total passed")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Millisecond, total)
	defer cancel()
	_, err := client.Embed(ctx, []string{"a"}, vector.Expect{})
	if !errors.Is(err, total) {
		t.Errorf("error = %v, want the context's cause", err)
	}
	for _, other := range transportErrors {
		if errors.Is(err, other) {
			t.Errorf("error = %v, is also %v", err, other)
		}
	}
}

func TestBrokenConnection(t *testing.T) {
	tests := map[string]string{
		"before an answer":  "",
		"within the header": "HTTP/1.1 200 OK\r\nContent-Le",
		"within the body":   "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"da",
		"not HTTP":          "hello\r\n\r\n",
	}
	for name, answer := range tests {
		t.Run(name, func(t *testing.T) {
			path := listen(t, func(conn net.Conn, _ <-chan struct{}) {
				http.ReadRequest(bufio.NewReader(conn))
				io.WriteString(conn, answer)
				conn.Close()
			})
			client := newClient(t, llamaclient.Config{Socket: path, Limits: longLimits()})
			_, err := client.Embed(t.Context(), []string{"a"}, vector.Expect{})
			wantOnly(t, err, llamaclient.ErrBroken)
		})
	}
}

func TestLimitsAreChecked(t *testing.T) {
	limits := longLimits()
	limits.MaxConns = 0
	if _, err := llamaclient.New(llamaclient.Config{Socket: "s", Limits: limits}); err == nil {
		t.Error("no connections: accepted")
	}
	limits = longLimits()
	limits.Read = 0
	if _, err := llamaclient.New(llamaclient.Config{Socket: "s", Limits: limits}); err == nil {
		t.Error("no read limit: accepted")
	}
	if _, err := llamaclient.New(llamaclient.Config{}); err == nil {
		t.Error("no socket: accepted")
	}
	want := "{5s 5s 30s 5m0s 100 20}"
	if got := fmt.Sprint(llamaclient.DefaultLimits()); got != want {
		t.Errorf("DefaultLimits = %s, want the contract's %s", got, want)
	}
}
