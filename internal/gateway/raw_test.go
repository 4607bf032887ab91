package gateway_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// What reaches the gate through net/http's own parser: the forms in which a
// request can name a host, and those that two parsers may read differently.
func TestRawRequests(t *testing.T) {
	const body = `{"input":"x"}`
	tests := []struct {
		name, request, method string
		status                int
		body                  bool
	}{
		{"plain", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET", 200, true},
		{"head", "HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "HEAD", 200, false},
		{"foreign host in the target", "GET http://example.com/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET", 421, true},
		{"two hosts", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: example.com\r\n\r\n", "GET", 400, true},
		{"no host", "GET /healthz HTTP/1.0\r\n\r\n", "GET", 421, true},
		{"the server itself", "OPTIONS * HTTP/1.1\r\nHost: example.com\r\n\r\n", "OPTIONS", 421, true},
		{"tunnel", "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n", "CONNECT", 421, true},
		{"large header", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Big: " + strings.Repeat("x", 80<<10) + "\r\n\r\n", "GET", 431, true},
		{"two lengths", "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: 13\r\nContent-Length: 3\r\n\r\n" + body, "POST", 400, true},
		{"odd transfer encoding", "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n" + body, "POST", 501, true},
		{"chunks", "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n" + body + "\r\n0\r\n\r\n", "POST", 200, true},
		{"encoded slash", "GET /v1%2Fmodels HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET", 200, true},
	}
	address, _ := start(t, setup(t, newDoor(), nil))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			// A server that refuses half-way may close before all is sent.
			_, _ = io.WriteString(conn, tt.request)
			resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: tt.method})
			if err != nil {
				t.Fatal(err)
			}
			var got int
			if resp.Body != nil {
				first := make([]byte, 1)
				got, _ = resp.Body.Read(first)
			}
			if resp.StatusCode != tt.status || (got > 0) != tt.body {
				t.Errorf("status = %d, a body: %v; want %d, %v", resp.StatusCode, got > 0, tt.status, tt.body)
			}
		})
	}
}
