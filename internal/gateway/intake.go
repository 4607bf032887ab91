package gateway

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/ondol-app/ondol/internal/openai"
)

// DefaultMaxInFlight bounds the bodies of all requests under way together, in
// bytes. 64 requests may wait; at the largest size each they would be 4 GB.
const DefaultMaxInFlight = 512 << 20

// budget counts the bytes of bodies under way.
type budget struct {
	limit int64
	used  atomic.Int64
}

func (b *budget) take(n int64) bool {
	if b.used.Add(n) <= b.limit {
		return true
	}
	b.used.Add(-n)
	return false
}

// intake is the body of one request. The bytes count against the budget as
// they come, not as they are announced, until close: what was parsed out of
// them is as large and lives as long as the request.
type intake struct {
	gateway *Gateway
	buffer  *[]byte // nil once recycled
	counted int64
}

// intake reads the body. The caller closes it when the request is done.
func (g *Gateway) intake(w http.ResponseWriter, r *http.Request) (*intake, error) {
	in := &intake{gateway: g, buffer: g.buffer()}
	if err := in.read(w, r); err != nil {
		in.close()
		return nil, err
	}
	return in, nil
}

// bytes is the body; valid until recycle or close.
func (in *intake) bytes() []byte { return *in.buffer }

// recycle gives the buffer back early: a request that waits for its turn
// holds what was parsed, not both.
func (in *intake) recycle() {
	if in.buffer != nil {
		in.gateway.recycle(in.buffer)
		in.buffer = nil
	}
}

func (in *intake) close() {
	in.recycle()
	in.gateway.bodies.used.Add(-in.counted)
	in.counted = 0
}

// count adds n bytes to what this body holds of the budget.
func (in *intake) count(n int) error {
	if !in.gateway.bodies.take(int64(n)) {
		return failure{status: http.StatusTooManyRequests, retryAfter: time.Second, close: true, body: openai.Error{
			Type: openai.TypeRateLimit, Code: openai.CodeTooManyBytes,
			Message: "the requests under way hold all the memory there is for bodies; try again after the time in Retry-After, with fewer or smaller requests at once"}}
	}
	in.counted += int64(n)
	return nil
}
