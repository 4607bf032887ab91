package upstream_test

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
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ondol-app/ondol/internal/upstream"
)

// engine is a listener on a unix socket whose connections speak by script.
type engine struct {
	conns    atomic.Int32 // accepted so far
	requests atomic.Int32 // read so far
	direct   *upstream.Direct
}

// newEngine hands every request to answer, with the number of its connection
// and of the request on it, both from 1; answer says whether the connection goes on.
func newEngine(t *testing.T, limits upstream.Limits, answer func(w io.Writer, conn, request int) bool) *engine {
	t.Helper()
	dir, err := os.MkdirTemp("", "up")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			n := int(e.conns.Add(1))
			serving.Go(func() {
				defer conn.Close()
				reader := bufio.NewReader(conn)
				for i := 1; ; i++ {
					request, err := http.ReadRequest(reader)
					if err != nil {
						return
					}
					io.Copy(io.Discard, request.Body)
					e.requests.Add(1)
					if !answer(conn, n, i) {
						return
					}
				}
			})
		}
	})
	e.direct, err = upstream.NewDirect(upstream.DirectConfig{Limits: limits, Dial: func(ctx context.Context) (net.Conn, error) {
		return upstream.DialUnix(ctx, path)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.direct.Close()
		listener.Close()
		serving.Wait()
	})
	return e
}

const post = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"

// ask makes one exchange and reads the reply to its end.
func (e *engine) ask(ctx context.Context, request string, again bool) (string, error) {
	response, err := e.direct.Exchange(ctx, []byte(request), again)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

func ok(w io.Writer) bool {
	_, err := io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	return err == nil
}

func TestDirectReusesConnections(t *testing.T) {
	replies := map[string]struct {
		text  string
		conns int32 // for ten requests
	}{
		"length":             {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 1},
		"chunks":             {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n", 1},
		"a hint before":      {"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 1},
		"closing":            {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", 10},
		"until the end":      {"HTTP/1.1 200 OK\r\n\r\nok", 10},
		"an old version":     {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 10},
		"more than it said":  {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n", 10},
		"an error of theirs": {"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\nok", 1},
	}
	for name, reply := range replies {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, upstream.Limits{}, func(w io.Writer, _, _ int) bool {
				io.WriteString(w, reply.text)
				return reply.conns == 1
			})
			for range 10 {
				if text, err := e.ask(t.Context(), post, false); text != "ok" || err != nil {
					t.Fatalf("%q, %v", text, err)
				}
			}
			if n := e.conns.Load(); n != reply.conns {
				t.Errorf("%d connections for ten requests, want %d", n, reply.conns)
			}
		})
	}
}

// The engine hangs up on a connection while it is idle: the next request goes
// over another, and reaches the engine once.
func TestDirectLeavesClosedConnections(t *testing.T) {
	closed := make(chan struct{}, 1)
	e := newEngine(t, upstream.Limits{}, func(w io.Writer, _, _ int) bool {
		ok(w)
		w.(net.Conn).Close()
		closed <- struct{}{}
		return false
	})
	for i := range int32(20) {
		if _, err := e.ask(t.Context(), post, false); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		<-closed
		if n := e.requests.Load(); n != i+1 {
			t.Fatalf("%d requests reached the engine, want %d", n, i+1)
		}
	}
}

// A connection that breaks when the request is there already: what may run
// twice is asked again, once; what may not is an error.
func TestDirectAsksAgainOnlyWhatMayRunTwice(t *testing.T) {
	tests := []struct {
		name     string
		again    bool
		always   bool // the other connection breaks as well
		requests int32
		broken   bool
	}{
		{"once only", false, false, 2, true},
		{"again", true, false, 3, false},
		{"again, and no third time", true, true, 3, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newEngine(t, upstream.Limits{}, func(w io.Writer, conn, request int) bool {
				return (conn == 1 && request == 1 || conn == 2 && !tt.always) && ok(w)
			})
			if _, err := e.ask(t.Context(), post, tt.again); err != nil {
				t.Fatal(err)
			}
			_, err := e.ask(t.Context(), post, tt.again)
			if errors.Is(err, upstream.ErrBroken) != tt.broken || (err != nil) != tt.broken {
				t.Errorf("error = %v", err)
			}
			if n := e.requests.Load(); n != tt.requests {
				t.Errorf("%d requests reached the engine, want %d", n, tt.requests)
			}
		})
	}
}

func TestDirectCutReplies(t *testing.T) {
	replies := map[string]string{
		"nothing":       "",
		"header":        "HTTP/1.1 200 OK\r\nContent-Le",
		"body":          "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok",
		"chunk":         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok",
		"last chunk":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
		"no HTTP":       "ok\r\n\r\n",
		"two lengths":   "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
		"endless start": "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2<<20),
	}
	for name, reply := range replies {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, upstream.Limits{}, func(w io.Writer, _, _ int) bool {
				io.WriteString(w, reply)
				return false
			})
			text, err := e.ask(t.Context(), post, true)
			if !errors.Is(err, upstream.ErrBroken) {
				t.Errorf("%q, %v, want ErrBroken", text, err)
			}
			if n := e.requests.Load(); n != 1 {
				t.Errorf("asked %d times on a fresh connection", n)
			}
		})
	}
}

// The caller leaves in the middle: its cause is the error, and the connection,
// on which the rest of the reply may come, is not used again.
func TestDirectCallerLeaves(t *testing.T) {
	for name, start := range map[string]string{
		"before the reply": "",
		"in the reply":     "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no",
	} {
		t.Run(name, func(t *testing.T) {
			there, rest := make(chan struct{}), make(chan struct{})
			e := newEngine(t, upstream.Limits{}, func(w io.Writer, conn, _ int) bool {
				if conn == 1 {
					io.WriteString(w, start)
					close(there)
					<-rest
					return true
				}
				return ok(w)
			})
			gone := errors.New("gone")
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				<-there
				cancel(gone)
			}()
			if _, err := e.ask(ctx, post, true); err != gone {
				t.Errorf("error = %v, want the cause", err)
			}
			close(rest)
			if text, err := e.ask(t.Context(), post, false); text != "ok" || err != nil {
				t.Errorf("the next: %q, %v", text, err)
			}
			if n := e.conns.Load(); n != 2 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// A reply that is not read to its end costs its connection, and a body is
// closed once.
func TestDirectUnreadReply(t *testing.T) {
	limits := upstream.DefaultLimits()
	limits.MaxConns, limits.MaxIdle = 1, 1
	e := newEngine(t, limits, func(w io.Writer, _, _ int) bool { return ok(w) })
	for i := range int32(3) {
		response, err := e.direct.Exchange(t.Context(), []byte(post), false)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(response.Body.Close(), response.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := response.Body.Read(make([]byte, 1)); err == nil {
			t.Error("read after Close")
		}
		if n := e.conns.Load(); n != i+1 {
			t.Errorf("%d connections after %d replies that nobody read", n, i+1)
		}
	}
}

// An engine that refuses a request before it has read it is understood.
func TestDirectEarlyRefusal(t *testing.T) {
	e := newEngine(t, upstream.Limits{}, nil)
	e.direct, _ = upstream.NewDirect(upstream.DirectConfig{Dial: func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			io.ReadFull(far, make([]byte, 100))
			io.WriteString(far, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
			far.Close()
		}()
		return unwritable{near}, nil
	}})
	response, err := e.direct.Exchange(t.Context(), []byte(post+strings.Repeat(" ", 1000)), false)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); response.StatusCode != 413 || string(text) != "no" || err != nil {
		t.Errorf("%d %q, %v", response.StatusCode, text, err)
	}
}

// unwritable breaks after 100 bytes, as a socket does whose peer has closed it.
type unwritable struct{ net.Conn }

func (u unwritable) Write(b []byte) (int, error) {
	n, err := u.Conn.Write(b[:min(len(b), 100)])
	return n, errors.Join(err, net.ErrClosed)
}

// Idle connections are closed when they are old, even if nobody asks again.
func TestDirectIdleConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int32
		direct, err := upstream.NewDirect(upstream.DirectConfig{Dial: func(context.Context) (net.Conn, error) {
			near, far := net.Pipe()
			open.Add(1)
			go func() {
				defer open.Add(-1)
				defer far.Close()
				for reader := bufio.NewReader(far); ; {
					request, err := http.ReadRequest(reader)
					if err != nil {
						return
					}
					io.Copy(io.Discard, request.Body)
					time.Sleep(100 * time.Millisecond)
					ok(far)
				}
			}()
			return near, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		burst := func(n int) {
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() {
					response, err := direct.Exchange(t.Context(), []byte(post), false)
					if err != nil {
						t.Error(err)
						return
					}
					io.Copy(io.Discard, response.Body)
					response.Body.Close()
				})
			}
			wg.Wait()
			synctest.Wait()
		}
		at := func(when string, want int32) {
			t.Helper()
			synctest.Wait()
			if n := open.Load(); n != want {
				t.Errorf("%s: %d connections, want %d", when, n, want)
			}
		}
		burst(30)
		at("after 30 at once", 20)
		time.Sleep(3 * time.Second)
		burst(5)
		at("five were used again", 20)
		time.Sleep(time.Second)
		at("the others have been idle for long", 5)
		time.Sleep(4 * time.Second)
		at("all have", 0)
		burst(2)
		direct.Close()
		at("after Close", 0)
	})
}

func BenchmarkExchange(b *testing.B) {
	dir := b.TempDir()
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "ok") })}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	defer func() { server.Close(); <-done }()
	dial := func(ctx context.Context) (net.Conn, error) { return upstream.DialUnix(ctx, filepath.Join(dir, "s")) }
	b.Run("direct", func(b *testing.B) {
		direct, err := upstream.NewDirect(upstream.DirectConfig{Dial: dial})
		if err != nil {
			b.Fatal(err)
		}
		defer direct.Close()
		b.ReportAllocs()
		for b.Loop() {
			response, err := direct.Exchange(b.Context(), []byte(post), false)
			if err != nil {
				b.Fatal(err)
			}
			io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	})
	b.Run("transport", func(b *testing.B) {
		transport, err := upstream.NewTransport(upstream.Config{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }})
		if err != nil {
			b.Fatal(err)
		}
		defer transport.Close()
		b.ReportAllocs()
		for b.Loop() {
			request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://x/", strings.NewReader("hi"))
			if err != nil {
				b.Fatal(err)
			}
			response, err := transport.RoundTrip(request)
			if err != nil {
				b.Fatal(err)
			}
			io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	})
}
