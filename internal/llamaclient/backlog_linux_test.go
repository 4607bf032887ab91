package llamaclient_test

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/llamaclient"
)

// A socket whose backlog is full answers EAGAIN on Linux; the client waits
// for a place, no longer than its limit.
func TestConnectWaitsForBacklog(t *testing.T) {
	path := socketPath(t)
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	for range 8 { // fill it
		conn, err := net.Dial("unix", path)
		if errors.Is(err, syscall.EAGAIN) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	limits := longLimits()
	limits.Connect = 50 * time.Millisecond
	client := newClient(t, llamaclient.Config{Socket: path, Limits: limits})
	start := time.Now()
	err = client.Health(t.Context())
	wantOnly(t, err, llamaclient.ErrConnect)
	if took := time.Since(start); took < limits.Connect {
		t.Errorf("gave up after %v, before the limit: %v", took, err)
	}
}
