package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/vector"
)

// Outcomes of a request as its client sees them; every other one is named by
// its status and code, or by the error.
const (
	served       = "served"
	queueFull    = "queue_full"
	queueTimeout = "queue_timeout"
	left         = "left" // the client hung up
	hung         = "hung" // no end within patience
)

// patience is longer than any request can take that is treated by the rules:
// two minutes of waiting and the few seconds of the engine.
const patience = 3 * time.Minute

var (
	errLeft = errors.New("the client hung up")
	errHung = errors.New("no answer")
)

// exchange is one request from its client's side.
type exchange struct {
	outcome string
	began   time.Time // before anything was sent
	wrote   time.Time // the last byte of the request was sent
	first   time.Time // the first byte of the reply came
	took    time.Duration
	retry   time.Duration // what a refusal said
}

// caller is what all clients of a run share.
type caller struct {
	http   *http.Client
	url    string
	dim    int // of the vectors that are expected
	length int // of an input, bytes

	lately atomic.Int64 // how long the latest served request took, in nanoseconds
}

// call makes one request with an input nobody else sends. The client hangs up
// after leave; 0 = it stays.
func (c *caller) call(ctx context.Context, random *rand.Rand, leave time.Duration) (x exchange) {
	body, err := json.Marshal(map[string]any{"input": text(random, c.length), "encoding_format": "base64"})
	if err != nil {
		return exchange{outcome: err.Error()}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errHung)
	defer cancel()
	if leave > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, leave, errLeft)
		defer cancel()
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest:         func(httptrace.WroteRequestInfo) { x.wrote = time.Now() },
		GotFirstResponseByte: func() { x.first = time.Now() },
	})
	x.began = time.Now()
	x.outcome = c.exchange(ctx, body, &x.retry)
	x.took = time.Since(x.began)
	return x
}

func (c *caller) exchange(ctx context.Context, body []byte, retry *time.Duration) (outcome string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	request.Header.Set("Content-Type", "application/json")
	var text []byte
	reply, err := c.http.Do(request)
	if err == nil {
		text, err = io.ReadAll(reply.Body)
		reply.Body.Close()
	}
	switch {
	case err == nil:
	case errors.Is(context.Cause(ctx), errLeft):
		return left
	case errors.Is(context.Cause(ctx), errHung):
		return hung
	default:
		return err.Error()
	}
	if reply.StatusCode == http.StatusOK {
		if _, err := llamaclient.ParseEmbeddings(text, vector.Expect{Count: 1, Dim: c.dim, Normalized: true}); err != nil {
			return "200 with a wrong vector: " + err.Error()
		}
		return served
	}
	var refusal struct {
		Error struct{ Code string }
	}
	if err := json.Unmarshal(text, &refusal); err != nil {
		return fmt.Sprintf("%d without an error of ours", reply.StatusCode)
	}
	millis, err := strconv.Atoi(reply.Header.Get("retry-after-ms"))
	*retry = time.Duration(millis) * time.Millisecond
	code := refusal.Error.Code
	switch {
	case reply.StatusCode != http.StatusTooManyRequests:
		return fmt.Sprintf("%d %s", reply.StatusCode, code)
	case err != nil || millis < 1 || millis > 60000 || reply.Header.Get("Retry-After") != "1":
		return fmt.Sprintf("429 %s without its headers", code)
	}
	return code
}

// text is n random letters in words; the start alone makes it unlike any other.
func text(random *rand.Rand, n int) string {
	letters := make([]byte, n)
	for i := range letters {
		letters[i] = 'a' + byte(random.IntN(26))
		if i%7 == 6 {
			letters[i] = ' '
		}
	}
	return string(letters)
}

// spread is a random time between low and high, each order of magnitude as
// likely as the other.
func spread(random *rand.Rand, low, high time.Duration) time.Duration {
	return time.Duration(float64(low) * math.Pow(float64(high)/float64(low), random.Float64()))
}

// moment is when a client hangs up. Half of them do so at any time, each order
// of magnitude from a millisecond on as likely as the other; half about when a
// request that came now would be at the engine, which the first would rarely
// hit.
func (c *caller) moment(random *rand.Rand, service time.Duration) time.Duration {
	lately := time.Duration(c.lately.Load())
	if lately == 0 || random.IntN(2) == 0 {
		return spread(random, time.Millisecond, 20*time.Second)
	}
	return max(lately-time.Duration(random.Int64N(int64(2*service))), time.Millisecond)
}

// calibrate finds the length of input with which two requests at once take
// the engine about service, and says how long they really take.
func (c *caller) calibrate(ctx context.Context, service time.Duration) (took time.Duration, err error) {
	const shortest, longest = 16, 4000 // bytes, which are tokens here
	random := rand.New(rand.NewPCG(1, 0))
	c.length = 200
	for try := 0; ; try++ {
		var times samples
		for range 5 {
			pair := make(chan exchange, 2)
			for range 2 {
				input := rand.New(rand.NewPCG(random.Uint64(), 0))
				go func() { pair <- c.call(ctx, input, 0) }()
			}
			for range 2 {
				x := <-pair
				if x.outcome != served {
					return 0, fmt.Errorf("a request of %d bytes: %s", c.length, x.outcome)
				}
				times = append(times, x.took)
			}
		}
		took = times.at(0.5)
		ratio := float64(service) / float64(took)
		if ratio > 0.7 && ratio < 1.4 || try == 5 {
			break
		}
		c.length = min(max(int(float64(c.length)*min(max(ratio, 0.25), 4)), shortest), longest)
	}
	return took, nil
}
