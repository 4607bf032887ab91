package gateway_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Requests whose end, or whose meaning, two parsers may see differently: each
// connection gets exactly these statuses and then ends.
func TestNoSmuggling(t *testing.T) {
	const (
		body   = `{"input":"x"}`
		start1 = "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\n"
		keep   = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
		get    = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" // the last that is answered
	)
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	length := fmt.Sprintf("Content-Length: %d\r\n", len(body))
	tests := []struct {
		name, request string
		statuses      []int
	}{
		{"pipelined", keep + start1 + length + "\r\n" + body + get, []int{200, 200, 200}},
		{"length beside chunks", start1 + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked + get, []int{200}},
		{"chunks beside length", start1 + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" + chunked + get, []int{200}},
		{"chunks twice", start1 + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked + get, []int{501}},
		{"chunked, identity", start1 + "Transfer-Encoding: chunked, identity\r\n\r\n" + chunked + get, []int{501}},
		{"hidden chunked", start1 + "Transfer-Encoding: \x0bchunked\r\n" + length + "\r\n" + body + get, []int{400}},
		{"blank before the colon", start1 + "Transfer-Encoding : chunked\r\n" + length + "\r\n" + body + get, []int{400}},
		{"same length twice", start1 + length + length + "\r\n" + body + get, []int{200, 200}},
		{"two lengths", start1 + length + "Content-Length: 5\r\n\r\n" + body + get, []int{400}},
		{"length in a list", start1 + "Content-Length: 13, 13\r\n\r\n" + body + get, []int{400}},
		{"length with a sign", start1 + "Content-Length: +13\r\n\r\n" + body + get, []int{400}},
		{"negative length", start1 + "Content-Length: -1\r\n\r\n" + body + get, []int{400}},
		{"hexadecimal length", start1 + "Content-Length: 0xd\r\n\r\n" + body + get, []int{400}},
		{"folded length", start1 + "Content-Length: 1\r\n 3\r\n\r\n" + body + get, []int{400}},
		{"folded host", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n x: y\r\n\r\n" + get, []int{400}},
		{"header without colon", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nnonsense\r\n\r\n" + get, []int{400}},
		{"NUL in a value", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n" + get, []int{400}},
		{"chunk size too large", start1 + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n" + body + get, []int{400}},
		{"chunk size with a sign", start1 + "Transfer-Encoding: chunked\r\n\r\n+d\r\n" + body + "\r\n0\r\n\r\n" + get, []int{400}},
		{"chunked in HTTP/1.0", "POST /v1/embeddings HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked, []int{400}},
		{"HTTP/1.0 closes", "GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n" + get, []int{200}},
		{"HTTP/0.9", "GET /healthz\r\n\r\n" + get, []int{400}},
		{"HTTP/1.2", "GET /healthz HTTP/1.2\r\nHost: localhost\r\n\r\n" + get, []int{200, 200}},
		{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + get, []int{421}},
		{"upgrade to h2c", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n" + get, []int{200, 200}},
		{"upgrade to a socket", "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n" + get, []int{200, 200}},
		{"tunnel", "CONNECT localhost:7434 HTTP/1.1\r\nHost: localhost\r\n\r\n" + get, []int{404, 200}},
		{"unknown expectation", start1 + "Expect: 200-ok\r\n" + length + "\r\n" + body + get, []int{417}},
		{"refused with a body", "POST /nowhere HTTP/1.1\r\nHost: localhost\r\n" + length + "\r\n" + body + get, []int{404, 200}},
		{"bare line feeds", "GET /healthz HTTP/1.1\nHost: localhost\n\n" + get, []int{200, 200}},
	}
	address, _ := start(t, setup(t, newDoor(), nil))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			answer := bufio.NewReader(strings.NewReader(talk(t, address, tt.request)))
			statuses := []int{}
			for {
				resp, err := http.ReadResponse(answer, nil)
				if err != nil {
					break
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				statuses = append(statuses, resp.StatusCode)
			}
			if fmt.Sprint(statuses) != fmt.Sprint(tt.statuses) {
				t.Errorf("statuses %v, want %v", statuses, tt.statuses)
			}
		})
	}
}

// A header that never ends holds no connection.
func TestSlowHeaderIsTimedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		overPipe(setup(t, newDoor(), nil), func(client net.Conn) {
			began, ended := time.Now(), make(chan struct{})
			defer func() { _ = client.Close(); <-ended }()
			go func() {
				defer close(ended)
				for range 20 { // a byte every second, as such clients do
					if _, err := io.WriteString(client, "G"); err != nil {
						return
					}
					time.Sleep(time.Second)
				}
			}()
			_, _ = io.Copy(io.Discard, client)
			if took := time.Since(began); took != 10*time.Second {
				t.Errorf("the connection lived %v, want 10s", took)
			}
		})
	})
}

// A client that sends its body byte by byte has bodyTime in all, and another
// time for the next request on the connection.
func TestDrippingBodyIsTimedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		overPipe(setup(t, newDoor(), nil), func(client net.Conn) {
			began, ended := time.Now(), make(chan struct{})
			defer func() { _ = client.Close(); <-ended }()
			go func() {
				defer close(ended)
				_, _ = io.WriteString(client, "POST /api/embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n")
				for range 100 {
					if _, err := io.WriteString(client, " "); err != nil {
						return
					}
					time.Sleep(time.Second)
				}
			}()
			resp, err := http.ReadResponse(bufio.NewReader(client), nil)
			if err != nil {
				t.Error(err)
				return
			}
			if took := time.Since(began); resp.StatusCode != 408 || took != 30*time.Second || !resp.Close {
				t.Errorf("status %d after %v", resp.StatusCode, took)
			}
		})
	})
}

// The time for reading one reply does not count for the next request, whose
// client asks before it sends its body.
func TestOldWriteDeadlineIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		overPipe(setup(t, newDoor(), nil), func(client net.Conn) {
			answers := bufio.NewReader(client)
			ask := func(request string, status int) {
				if _, err := io.WriteString(client, request); err != nil {
					t.Error(err)
					return
				}
				resp, err := http.ReadResponse(answers, nil)
				if err != nil || resp.StatusCode != status {
					t.Errorf("%v, %v; want %d", resp, err, status)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
			}
			ask("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 200)
			time.Sleep(100 * time.Second)
			ask("POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: 13\r\nExpect: 100-continue\r\n\r\n", 100)
			ask(`{"input":"x"}`, 200)
		})
	})
}

// talk sends raw bytes and returns everything that comes back until the
// server closes. The client keeps its side open: one that closed it would
// count as gone.
func talk(t *testing.T, address, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn) // a reset after an early refusal ends it too
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the server keeps the connection open after %q", got)
	}
	return string(got)
}
