package llamaclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

// Limits bound one HTTP exchange with the engine. Each is a mechanism of its
// own; none of them limits how many requests execute (that is admission's).
type Limits struct {
	Connect  time.Duration // to open a connection
	PoolWait time.Duration // to get one of the MaxConns connections
	Write    time.Duration // for each write of up to 64 KiB
	Read     time.Duration // for each read, so also for the first byte of a reply
	MaxConns int           // connections open at once
	MaxIdle  int           // connections kept alive between requests
}

// DefaultLimits are the figures of the contract.
func DefaultLimits() Limits {
	return Limits{
		Connect:  5 * time.Second,
		PoolWait: 5 * time.Second,
		Write:    30 * time.Second,
		Read:     300 * time.Second,
		MaxConns: 100,
		MaxIdle:  20,
	}
}

func (l Limits) validate() error {
	if l.Connect <= 0 || l.PoolWait <= 0 || l.Write <= 0 || l.Read <= 0 {
		return fmt.Errorf("every time limit must be positive: %+v", l)
	}
	if l.MaxConns < 1 || l.MaxIdle < 0 || l.MaxIdle > l.MaxConns {
		return fmt.Errorf("connections must be 1 or more and idle ones at most as many: %+v", l)
	}
	return nil
}

// What can go wrong on the way, apart from the caller's context and from what
// the engine says itself. Every transport error wraps exactly one of them.
var (
	ErrConnect  = errors.New("connect to llama-server")                             // nobody listens, or not within Limits.Connect; nothing was sent
	ErrPoolWait = errors.New("wait for a connection to llama-server: limit passed") // nothing was sent
	ErrWrite    = errors.New("write to llama-server: limit passed")                 // it does not read; it may still be at work
	ErrRead     = errors.New("read from llama-server: limit passed")                // it does not answer; it may still be at work
	ErrBroken   = errors.New("connection to llama-server broken")                   // it went away in the middle
)

// keepAlive is how long an idle connection is kept. llama-server closes it
// after 5 s; giving it up before that avoids writing into a closing one.
const keepAlive = 4 * time.Second

// writeChunk is the most one write deadline covers, so that a large request
// that makes progress is never taken for one that hangs.
const writeChunk = 64 << 10

// fullBacklogPause is how long to wait before a socket whose backlog is full
// is tried again.
const fullBacklogPause = 10 * time.Millisecond

// dialUnix connects to a unix socket. A full backlog is EAGAIN on Linux, at
// once and without waiting, so it is retried until ctx ends.
func dialUnix(ctx context.Context, path string) (net.Conn, error) {
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
	// net/http reads an idle connection all the time, to see it close. That
	// pending read is now the one that waits for the answer: its time starts here.
	return written, c.SetReadDeadline(time.Now().Add(c.read))
}
