package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

// writeChunk is the most one write deadline covers, so that a large request
// that makes progress is never taken for one that hangs.
const writeChunk = 64 << 10

// fullBacklogPause is how long to wait before a socket whose backlog is full
// is tried again.
const fullBacklogPause = 10 * time.Millisecond

// DialUnix connects to a unix socket. A full backlog is EAGAIN on Linux, at
// once and without waiting, so it is retried until ctx ends.
func DialUnix(ctx context.Context, path string) (net.Conn, error) {
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "unix", path)
		if !errors.Is(err, syscall.EAGAIN) {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(fullBacklogPause):
		}
	}
}

// limitedConn sets a fresh deadline for each read and each write.
type limitedConn struct {
	net.Conn
	read, write time.Duration
	watched     bool // a read is always pending
}

func (c *limitedConn) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.read)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%w (%v)", ErrRead, c.read)
	}
	return n, err
}

func (c *limitedConn) Write(b []byte) (int, error) {
	written := 0
	for written < len(b) {
		if err := c.SetWriteDeadline(time.Now().Add(c.write)); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(b[written:min(len(b), written+writeChunk)])
		written += n
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = fmt.Errorf("%w (%v)", ErrWrite, c.write)
		}
		if err != nil {
			return written, err
		}
	}
	if !c.watched {
		return written, nil
	}
	// net/http reads an idle connection all the time, to see it close. That
	// pending read is now the one that waits for the answer: its time starts here.
	return written, c.SetReadDeadline(time.Now().Add(c.read))
}
