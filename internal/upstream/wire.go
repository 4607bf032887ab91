package upstream

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"syscall"
	"time"
)

// maxReplyHeader bounds what is read before a reply's body begins, bytes.
const maxReplyHeader = 1 << 20

var errHeader = fmt.Errorf("the header of a reply is longer than %d bytes", maxReplyHeader)

// wire is one connection of a Direct; one exchange at a time has it.
type wire struct {
	conn     *limitedConn
	reader   *bufio.Reader // reads the wire itself
	left     int64         // bytes that may still be read
	answered bool          // a byte of the reply has come
	since    time.Time     // idle since
}

// Read is the connection's, as far as there are bytes left.
func (w *wire) Read(p []byte) (int, error) {
	if w.left <= 0 {
		return 0, errHeader
	}
	n, err := w.conn.Read(p[:min(int64(len(p)), w.left)])
	w.left -= int64(n)
	w.answered = w.answered || n > 0
	return n, err
}

// exchange writes a request and reads the header of its reply. written is how
// much of the request went out.
func (w *wire) exchange(request []byte) (reply *http.Response, written int, err error) {
	w.answered = false
	written, broken := w.conn.Write(request)
	if errors.Is(broken, ErrWrite) {
		return nil, written, broken
	}
	for {
		w.left = maxReplyHeader
		reply, err = http.ReadResponse(w.reader, nil)
		if err != nil && broken != nil {
			err = broken
		}
		if err != nil {
			return nil, written, err
		}
		if reply.StatusCode >= http.StatusOK {
			w.left = math.MaxInt64
			reply.Close = reply.Close || broken != nil // it answered before it had read all
			return reply, written, nil
		}
	}
}

// quiet says that an idle connection is open and that nothing waits on it to
// be read: an engine that has hung up would be seen as such.
func quiet(conn net.Conn) bool {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return true // only a try will tell
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	var nothing error
	err = raw.Read(func(fd uintptr) bool {
		_, _, nothing = syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return true
	})
	return err == nil && (errors.Is(nothing, syscall.EAGAIN) || errors.Is(nothing, syscall.EWOULDBLOCK))
}
