package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/gateway"
)

// start runs g until the test ends and returns its address and a stop
// function that reports what Run returned.
func start(t *testing.T, g *gateway.Gateway) (address string, stop func() error) {
	t.Helper()
	if err := g.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	var err error
	stopped := false
	stop = func() error {
		if !stopped {
			cancel()
			err, stopped = <-ended, true
		}
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return g.Address(), stop
}

func post(ctx context.Context, address, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/v1/embeddings", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	tr := &http.Transport{DisableKeepAlives: true}
	return tr.RoundTrip(req)
}

func TestRunServesBothFamilies(t *testing.T) {
	g := setup(t, newDoor(), nil)
	address, stop := start(t, g)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	addresses := []string{address, net.JoinHostPort("localhost", port)}
	if probe, err := net.Listen("tcp", "[::1]:0"); err == nil {
		_ = probe.Close()
		addresses = append(addresses, net.JoinHostPort("::1", port))
	}
	for _, a := range addresses {
		resp, err := post(t.Context(), a, `{"input":["a","b"]}`)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != 200 || resp.ContentLength != int64(len(body)) {
			t.Errorf("%s: %d, %d of %d bytes, %v", a, resp.StatusCode, len(body), resp.ContentLength, err)
		}
	}
	if err := stop(); err != nil {
		t.Errorf("Run = %v", err)
	}
	if _, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial after Run = %v, want refused", err)
	}
}

func TestPortTaken(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		taken, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if host == "::1" && (errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT)) {
			continue // a machine without IPv6 has nothing to take
		}
		if err != nil {
			t.Fatal(err)
		}
		port := taken.Addr().(*net.TCPAddr).Port
		g := setup(t, newDoor(), func(c *gateway.Config) { c.Listen = fmt.Sprintf("127.0.0.1:%d", port) })
		err = g.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("port %d is taken", port)) || !strings.Contains(err.Error(), "ONDOL_LISTEN") {
			t.Errorf("%s taken: Run = %v", host, err)
		}
		_ = taken.Close()
	}
}

// A client that leaves ends the context of its request.
func TestClientLeaves(t *testing.T) {
	door := newDoor()
	began, left := make(chan struct{}), make(chan error, 1)
	door.embed = func(ctx context.Context, _ embedding.Request) (embedding.Result, error) {
		close(began)
		<-ctx.Done()
		left <- context.Cause(ctx)
		return embedding.Result{}, ctx.Err()
	}
	address, _ := start(t, setup(t, door, nil))
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() {
		_, err := post(ctx, address, `{"input":"x"}`)
		answered <- err
	}()
	<-began
	cancel()
	if err := <-left; err == nil {
		t.Error("the request's context has no cause")
	}
	if err := <-answered; !errors.Is(err, context.Canceled) {
		t.Errorf("client got %v", err)
	}
}

// A handler that returned silently would send an empty 200 to a client that
// is there after all.
func TestGoneClientIsAnsweredNothing(t *testing.T) {
	door := failing(context.Canceled)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/embeddings", strings.NewReader(`{"input":"x"}`))
	r.Host = "localhost"
	w := httptest.NewRecorder()
	defer func() {
		if cause := recover(); cause != http.ErrAbortHandler {
			t.Errorf("handler ended with %v, want the connection dropped", cause)
		}
		if w.Body.Len() != 0 {
			t.Errorf("wrote %q", w.Body)
		}
	}()
	setup(t, door, nil).Handler().ServeHTTP(w, r)
}

func TestStopLetsRequestsFinish(t *testing.T) {
	door := newDoor()
	began, finish := make(chan struct{}), make(chan struct{})
	inner := door.embed
	door.embed = func(ctx context.Context, req embedding.Request) (embedding.Result, error) {
		close(began)
		<-finish
		return inner(ctx, req)
	}
	g := setup(t, door, func(c *gateway.Config) { c.Grace = time.Hour })
	if err := g.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended, status := make(chan error, 1), make(chan int, 1)
	go func() { ended <- g.Run(ctx) }()
	go func() {
		resp, err := post(context.Background(), g.Address(), `{"input":"x"}`)
		if err != nil {
			status <- -1
			return
		}
		_ = resp.Body.Close()
		status <- resp.StatusCode
	}()
	<-began
	cancel()
	close(finish)
	if got := <-status; got != 200 {
		t.Errorf("status = %d, want 200", got)
	}
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
}

// When the grace time is over, what is left is told so, and Run waits for it to end.
func TestStopCutsAfterGrace(t *testing.T) {
	door := newDoor()
	began, returned := make(chan struct{}), make(chan struct{})
	door.embed = func(ctx context.Context, _ embedding.Request) (embedding.Result, error) {
		close(began)
		<-ctx.Done()
		close(returned)
		return embedding.Result{}, ctx.Err()
	}
	g := setup(t, door, func(c *gateway.Config) { c.Grace = time.Millisecond })
	address, stop := start(t, g)
	type answer struct {
		status int
		retry  string
		err    error
	}
	answered := make(chan answer, 1)
	go func() {
		resp, err := post(context.Background(), address, `{"input":"x"}`)
		if err != nil {
			answered <- answer{err: err}
			return
		}
		_ = resp.Body.Close()
		answered <- answer{resp.StatusCode, resp.Header.Get("Retry-After"), nil}
	}()
	<-began
	if err := stop(); err != nil {
		t.Errorf("Run = %v", err)
	}
	select {
	case <-returned:
	default:
		t.Error("Run returned before its handler")
	}
	if got := <-answered; got != (answer{503, "5", nil}) {
		t.Errorf("the cut client got %+v, want 503 with Retry-After", got)
	}
}

// pipeListener hands out one connection, so that time can be the test's.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { close(l.closed); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// overPipe serves g to one connection inside a synctest bubble.
func overPipe(g *gateway.Gateway, talk func(client net.Conn)) {
	l := &pipeListener{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
	srv := g.Server()
	ended := make(chan struct{})
	go func() { defer close(ended); _ = srv.Serve(l) }()
	client, server := net.Pipe()
	l.conns <- server
	talk(client)
	_ = client.Close()
	_ = srv.Close()
	<-ended
}

// A body that never comes holds neither a served nor a refused request.
func TestSlowBodyIsTimedOut(t *testing.T) {
	tests := []struct {
		name, target, host string
		status             int
	}{
		{"read", "/v1/embeddings", "localhost", 408},
		{"no such path", "/nowhere", "localhost", 404},
		{"foreign host", "/v1/embeddings", "example.com", 421},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				overPipe(setup(t, newDoor(), nil), func(client net.Conn) {
					began := time.Now()
					_, err := fmt.Fprintf(client, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"input\":", tt.target, tt.host)
					if err != nil {
						t.Error(err)
						return
					}
					resp, err := http.ReadResponse(bufio.NewReader(client), nil)
					if err != nil {
						t.Error(err)
						return
					}
					if resp.StatusCode != tt.status || !resp.Close {
						t.Errorf("status = %d, close = %v, want %d and close", resp.StatusCode, resp.Close, tt.status)
					}
					if waited := time.Since(began); waited != 30*time.Second {
						t.Errorf("answered after %s, want 30s", waited)
					}
				})
			})
		})
	}
}

// The time for the body does not run while the request waits for its turn.
func TestLongWaitIsNotCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		door := newDoor()
		inner := door.embed
		door.embed = func(ctx context.Context, req embedding.Request) (embedding.Result, error) {
			select {
			case <-ctx.Done():
				return embedding.Result{}, ctx.Err()
			case <-time.After(420 * time.Second):
				return inner(ctx, req)
			}
		}
		overPipe(setup(t, door, nil), func(client net.Conn) {
			body := `{"input":"x"}`
			for range 2 { // twice: the connection stays usable
				_, err := fmt.Fprintf(client, "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := http.ReadResponse(bufio.NewReader(client), nil)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
					t.Errorf("status = %d, %v", resp.StatusCode, err)
				}
			}
		})
	})
}

func BenchmarkEmbeddings(b *testing.B) {
	for _, size := range []int{128, 2560} {
		for _, format := range []string{"float", "base64"} {
			v := make([]float32, size)
			for i := range v {
				v[i] = 1 / float32(i+3)
			}
			v = scaled(v)
			door := newDoor()
			door.info.Dim = size
			door.embed = func(context.Context, embedding.Request) (embedding.Result, error) {
				return embedding.Result{Model: "starter", Dim: size, Tokens: 9, Vectors: [][]float32{v}}, nil
			}
			h := setup(b, door, nil).Handler()
			body := `{"model":"starter","input":"how warm is the floor","encoding_format":"` + format + `"}`
			b.Run(fmt.Sprintf("dim=%d/%s", size, format), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					door.seen = door.seen[:0]
					r := httptest.NewRequest(http.MethodPost, "/v1/embeddings", strings.NewReader(body))
					r.Host = "localhost:7434"
					h.ServeHTTP(discard{header: http.Header{}}, r)
				}
			})
		}
	}
}

// discard is a ResponseWriter that keeps nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}
