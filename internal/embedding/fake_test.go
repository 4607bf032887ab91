package embedding_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/trust"
	"github.com/ondol-app/ondol/internal/vector"
	"github.com/ondol-app/ondol/internal/vectorcache"
)

// fakeClient is an engine in the process: one token a byte and two special
// ones, delay for each call, faults on demand.
type fakeClient struct {
	delay time.Duration
	salt  byte // of its vectors
	// fault, when set, may give the n-th call (from 0) an answer of its own.
	fault func(ctx context.Context, n int, inputs []string, good llamaclient.Reply) (llamaclient.Reply, error)

	mu      sync.Mutex
	calls   [][]string // guarded by mu
	running int        // guarded by mu
	most    int        // guarded by mu; highest running
	counted []string   // guarded by mu; texts whose tokens were counted
	uncount error      // guarded by mu; CountTokens fails with it

	misused  int  // guarded by mu; calls begun after it had ended
	finished bool // guarded by mu; its engine was ended

	countDelay time.Duration // of each count
	counting   int           // guarded by mu; counts under way
	mostCounts int           // guarded by mu; highest counting
}

func fakeVector(input string) []float32 { return saltedVector(0, input) }

// saltedVector is what an engine of that salt makes of input.
func saltedVector(salt byte, input string) []float32 {
	hash := sha256.Sum256(append([]byte(input), salt))
	v := []float32{1, float32(hash[0]), float32(hash[1]), float32(hash[2]) + float32(hash[3])/256}
	if err := vector.Normalize(v); err != nil {
		panic(err)
	}
	return v
}

func (c *fakeClient) Embed(ctx context.Context, inputs []string, want vector.Expect) (llamaclient.Reply, error) {
	c.mu.Lock()
	n := len(c.calls)
	c.calls = append(c.calls, inputs)
	c.use()
	c.running++
	c.most = max(c.most, c.running)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.running--
		c.mu.Unlock()
	}()
	select {
	case <-time.After(c.delay):
	case <-ctx.Done():
		return llamaclient.Reply{}, context.Cause(ctx)
	}
	var good llamaclient.Reply
	for _, input := range inputs {
		good.Vectors = append(good.Vectors, saltedVector(c.salt, input))
		good.PromptTokens += len(input) + 2
	}
	if c.fault != nil {
		return c.fault(ctx, n, inputs, good)
	}
	return good, nil
}

func (c *fakeClient) CountTokens(ctx context.Context, texts []string) ([]int, error) {
	c.mu.Lock()
	c.use()
	c.counting++
	c.mostCounts = max(c.mostCounts, c.counting)
	c.mu.Unlock()
	var hurried error
	select {
	case <-time.After(c.countDelay):
	case <-ctx.Done():
		hurried = context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counting--
	if hurried != nil {
		return nil, hurried
	}
	if c.uncount != nil {
		return nil, c.uncount
	}
	var counts []int
	for _, text := range texts {
		c.counted = append(c.counted, text)
		counts = append(counts, len(text)+2)
	}
	return counts, nil
}

// use needs the lock.
func (c *fakeClient) use() {
	if c.finished {
		c.misused++
	}
}

func (c *fakeClient) seen() (calls [][]string, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls, c.most
}

// fakeEngine supervises nothing: it has an instance, or a reason why not.
type fakeEngine struct {
	replaceTakes time.Duration
	replaceError error

	mu       sync.Mutex
	instance embedding.Instance       // guarded by mu
	err      error                    // guarded by mu
	replaced []uint64                 // guarded by mu
	faults   []trust.Fault            // guarded by mu; of replaced
	watchers []chan struct{}          // guarded by mu
	borrowed map[embedding.Client]int // guarded by mu; uses under way

	starting bool  // guarded by mu; of one that was asleep
	starts   int   // guarded by mu; of those
	fails    error // guarded by mu; what becomes of the next

	ends map[uint64]trust.End // guarded by mu; of generations; one that is missing is not known

	onReplace func(*fakeEngine) // called with the lock, after the generation has risen
}

func (e *fakeEngine) Current() (embedding.Instance, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.instance, e.err
}

func (e *fakeEngine) Borrow() (embedding.Instance, func(), error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return embedding.Instance{}, nil, e.err
	}
	if e.instance.Asleep {
		return embedding.Instance{}, nil, &embedding.UnavailableError{State: "unloaded"}
	}
	client := e.instance.Client
	if e.borrowed == nil {
		e.borrowed = make(map[embedding.Client]int)
	}
	e.borrowed[client]++
	return e.instance, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.borrowed[client]--
		e.retire(client)
	}, nil
}

// retire ends an instance that was succeeded once nobody has it; it needs the lock.
func (e *fakeEngine) retire(client embedding.Client) {
	if e.borrowed[client] > 0 || client == e.instance.Client {
		return
	}
	if fake, ok := client.(*fakeClient); ok {
		fake.mu.Lock()
		defer fake.mu.Unlock()
		fake.finished = true
	}
}

// alter changes the instance.
func (e *fakeEngine) alter(how func(*embedding.Instance)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	how(&e.instance)
}

// become replaces the instance by one of another fingerprint.
func (e *fakeEngine) become(fingerprint string, client embedding.Client) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.instance.Client
	e.instance.Generation++
	e.instance.Fingerprint, e.instance.Client = fingerprint, client
	e.retire(before)
	e.tell()
}

func (e *fakeEngine) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
	e.tell()
}

// Wake starts an engine that is asleep, which takes five seconds.
func (e *fakeEngine) Wake() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.instance.Asleep || e.starting {
		return
	}
	e.starting = true
	e.starts++
	time.AfterFunc(5*time.Second, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.starting = false
		e.instance.Generation++
		e.instance.Asleep, e.err = false, e.fails
		e.tell()
	})
}

// unload puts the engine to sleep.
func (e *fakeEngine) unload() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.instance.Asleep = true
	e.tell()
}

func (e *fakeEngine) End(generation uint64) trust.End {
	e.mu.Lock()
	defer e.mu.Unlock()
	if end, known := e.ends[generation]; known {
		return end
	}
	return trust.EndUnknown
}

func (e *fakeEngine) Changed() (<-chan struct{}, func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := make(chan struct{}, 1)
	e.watchers = append(e.watchers, c)
	return c, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.watchers = slices.DeleteFunc(e.watchers, func(w chan struct{}) bool { return w == c })
	}
}

// ended is the generations that were replaced, and why.
func (e *fakeEngine) ended() ([]uint64, []trust.Fault) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.replaced), slices.Clone(e.faults)
}

// tell needs the lock.
func (e *fakeEngine) tell() {
	for _, c := range e.watchers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Replace ends a generation; the next one is there when away is over.
func (e *fakeEngine) Replace(ctx context.Context, generation uint64, fault trust.Fault) error {
	select {
	case <-time.After(e.replaceTakes):
	case <-ctx.Done():
		return ctx.Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.replaced = append(e.replaced, generation)
	e.faults = append(e.faults, fault)
	if generation != e.instance.Generation || e.replaceError != nil {
		return e.replaceError
	}
	e.instance.Generation++
	if e.onReplace != nil {
		e.onReplace(e)
	}
	e.tell()
	return nil
}

// door is a service with its gate over a fake engine, all running.
type door struct {
	*embedding.Service
	gate   *admission.Gate
	engine *fakeEngine
	client *fakeClient
	stop   func() // ends the service, then the gate, and waits for both
}

func open(t testing.TB, client *fakeClient, limits admission.Limits) *door {
	t.Helper()
	return openWith(t, client, limits, nil)
}

// openCached is open with a cache in memory.
func openCached(t testing.TB, client *fakeClient, limits admission.Limits) *door {
	t.Helper()
	cache, err := vectorcache.New(vectorcache.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return openWith(t, client, limits, cache)
}

func openWith(t testing.TB, client *fakeClient, limits admission.Limits, cache *vectorcache.Cache) *door {
	t.Helper()
	return openConfig(t, client, limits, embedding.Config{Cache: cache})
}

// openConfig fills in gate and engine.
func openConfig(t testing.TB, client *fakeClient, limits admission.Limits, config embedding.Config) *door {
	t.Helper()
	engine := &fakeEngine{instance: embedding.Instance{
		Generation: 7, Client: client, Model: "fake", Dim: 4, MaxTokens: 1000, BatchTokens: 4096, Fingerprint: "f1",
	}}
	gate, err := admission.NewGate(limits)
	if err != nil {
		t.Fatal(err)
	}
	config.Gate, config.Engine = gate, engine
	service, err := embedding.New(config)
	if err != nil {
		t.Fatal(err)
	}
	gateStop, serviceStop := run(t, gate), run(t, service)
	return &door{service, gate, engine, client, sync.OnceFunc(func() { serviceStop(); gateStop() })}
}

func run(t testing.TB, part interface{ Run(context.Context) error }) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- part.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// distinct is n different inputs.
func distinct(n int) []string {
	inputs := make([]string, n)
	for i := range inputs {
		inputs[i] = fmt.Sprint(i)
	}
	return inputs
}

func client(inputs ...string) embedding.Request {
	return embedding.Request{Lane: admission.LaneClient, Inputs: inputs}
}

// stats waits, in a bubble, until all goroutines wait.
func (d *door) stats() admission.Stats {
	synctest.Wait()
	return d.gate.Stats()
}

func (d *door) wantIdle(t *testing.T) admission.Stats {
	t.Helper()
	stats := d.stats()
	if stats.Executing+stats.Draining+stats.Waiting+stats.BackgroundWaiting+d.Aloft() != 0 {
		t.Errorf("left behind: %+v, %d texts", stats, d.Aloft())
	}
	return stats
}

func isUnavailable(err error, state string) bool {
	var unavailable *embedding.UnavailableError
	return errors.As(err, &unavailable) && unavailable.State == state
}
