package embedding_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/vector"
	"github.com/ondol-app/ondol/internal/vectorcache"
)

// world is a crowd of random clients around an engine that fails, hangs and
// changes at random. The model of a right answer is the engine's function of
// fingerprint and text itself.
type world struct {
	*door
	t     *testing.T
	texts []string
	salts map[string]byte // by fingerprint; constant

	mu     sync.Mutex
	random *rand.Rand // guarded by mu
	ended  uint64     // guarded by mu; requests
	served uint64     // guarded by mu
}

func (w *world) n(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

// fault spoils one engine call in six.
func (w *world) fault(ctx context.Context, _ int, _ []string, good llamaclient.Reply) (llamaclient.Reply, error) {
	time.Sleep(time.Duration(w.n(5000)) * time.Millisecond)
	switch w.n(40) {
	case 0:
		good.Vectors[w.n(len(good.Vectors))] = []float32{float32(math.NaN()), 0, 1, 0}
	case 1:
		good.Vectors = good.Vectors[1:]
	case 2, 3:
		return llamaclient.Reply{}, llamaclient.ErrBroken
	case 4:
		return llamaclient.Reply{}, &llamaclient.StatusError{Code: 500, Message: "no"}
	case 5:
		<-ctx.Done()
		return llamaclient.Reply{}, context.Cause(ctx)
	case 6:
		return llamaclient.Reply{}, &llamaclient.ContextError{Tokens: 2000, Limit: 1000}
	}
	return good, nil
}

// request makes one random request and judges its end.
func (w *world) request() {
	request := embedding.Request{Lane: admission.LaneClient, Truncate: w.n(4) == 0}
	if w.n(5) == 0 {
		request.Lane = admission.LaneBackground
	}
	for range 1 + w.n(1+w.n(8)) {
		request.Inputs = append(request.Inputs, w.texts[w.n(len(w.texts))])
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Duration(w.n(40_000))*time.Millisecond)
	defer cancel()
	result, err := w.Embed(ctx, request)
	w.mu.Lock()
	w.ended++
	if err == nil {
		w.served++
	}
	w.mu.Unlock()
	if err != nil {
		w.judge(ctx, request, err)
		return
	}
	salt, ok := w.salts[result.Fingerprint]
	if !ok || len(result.Vectors) != len(request.Inputs) {
		w.t.Errorf("%d vectors of %q", len(result.Vectors), result.Fingerprint)
		return
	}
	tokens := 0
	for i, input := range request.Inputs {
		if len(input) > 998 {
			input = input[:998]
			if !slices.Contains(result.Truncated, i) {
				w.t.Errorf("input %d is too long and not said to be cut", i)
			}
		}
		tokens += len(input) + 2
		if !slices.Equal(result.Vectors[i], saltedVector(salt, input)) {
			w.t.Errorf("a wrong vector for %.10q of %s", input, result.Fingerprint)
		}
	}
	// An engine that is gone cannot be asked for the exact figure.
	now, err := w.engine.Current()
	if exact := err == nil && now.Fingerprint == result.Fingerprint; exact && request.Lane == admission.LaneClient && result.Tokens != tokens {
		w.t.Errorf("%d tokens, want %d: %+v", result.Tokens, tokens, result)
	}
}

func (w *world) judge(ctx context.Context, request embedding.Request, err error) {
	var invalid *vector.InvalidError
	var long *embedding.TooLongError
	var status *llamaclient.StatusError
	var timeout *embedding.TimeoutError
	var refusal *admission.RejectedError
	var unavailable *embedding.UnavailableError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		if ctx.Err() == nil {
			w.t.Errorf("its time was not up: %v", err)
		}
	case errors.As(err, &invalid):
		for _, i := range invalid.Indices() {
			if i >= len(request.Inputs) {
				w.t.Errorf("no input %d", i)
			}
		}
		if len(invalid.Problems) == 0 {
			w.t.Error("an invalid reply without a problem")
		}
	case errors.As(err, &long):
		if long.Index < 0 || long.Index >= len(request.Inputs) {
			w.t.Errorf("no input %d", long.Index)
		}
	case errors.As(err, &status), errors.As(err, &timeout), errors.As(err, &refusal), errors.As(err, &unavailable):
	default:
		w.t.Errorf("error = %v", err)
	}
}

// Random requests: never a wrong vector, exactly one outcome each, nothing
// left behind.
func TestRandomWorld(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { liveInWorld(t, seed) })
		})
	}
}

func liveInWorld(t *testing.T, seed uint64) {
	cache, err := vectorcache.New(vectorcache.Config{Memory: 4000}) // about ten entries: it forgets
	if err != nil {
		t.Fatal(err)
	}
	limits := admission.Limits{Executing: 2, Waiting: 6, Wait: 30 * time.Second, Background: 1}
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 1)), salts: map[string]byte{"f1": 0, "f2": 2, "f3": 3}}
	w.door = openWith(t, &fakeClient{fault: w.fault}, limits, cache)
	for i := range 12 {
		w.texts = append(w.texts, strings.Repeat(fmt.Sprint(i, " "), 1+i*i))
	}
	w.texts = append(w.texts, strings.Repeat("too long ", 200))
	synctest.Wait() // the gate counts from now on
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			for range 40 {
				w.request()
				time.Sleep(time.Duration(w.n(8000)) * time.Millisecond)
			}
		})
	}
	changes, stop := context.WithCancel(t.Context())
	var changing sync.WaitGroup
	var clients []*fakeClient
	changing.Go(func() {
		for changes.Err() == nil {
			time.Sleep(time.Duration(w.n(60_000)) * time.Millisecond)
			name := fmt.Sprint("f", 1+w.n(3))
			next := &fakeClient{fault: w.fault, salt: w.salts[name]}
			clients = append(clients, next)
			w.engine.become(name, next)
			if w.n(3) == 0 {
				w.engine.fail(&embedding.UnavailableError{State: "starting"})
				time.Sleep(time.Duration(w.n(5000)) * time.Millisecond)
				w.engine.fail(nil)
			}
		}
	})
	wg.Wait()
	stop()
	changing.Wait()
	time.Sleep(10 * time.Minute) // whatever is abandoned ends within its total
	stats := w.wantIdle(t)
	for i, c := range clients {
		if c.misused > 0 {
			t.Errorf("engine %d was asked %d times after it had ended", i, c.misused)
		}
	}
	var counted uint64
	for _, count := range stats.Totals {
		counted += count
	}
	if counted != w.ended || w.ended != 12*40 || w.served < w.ended/8 { // else it would be a test of failures alone
		t.Errorf("%d outcomes counted, %d requests ended, %d served: %v", counted, w.ended, w.served, stats.Totals)
	}
	// Who left or timed out at the very end of an exchange is counted as such.
	if got := stats.Totals[admission.Served]; got != w.served {
		t.Errorf("%d counted as served, %d were", got, w.served)
	}
	w.stop()
}
